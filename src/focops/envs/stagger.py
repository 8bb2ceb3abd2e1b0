"""Spreading the ends of episodes over time."""

import numpy as np


def first_horizons(num_envs: int, time_limit: int) -> np.ndarray:
    """Lengths [E] of the first episodes: (i+1)/E of the time limit, at least 1.

    Episodes of equal length that start together always end together. With the first ones cut, every batch has samples
    of every age.
    """
    lengths = np.arange(1, num_envs + 1) * time_limit / num_envs
    return np.ceil(lengths).astype(np.int32)
