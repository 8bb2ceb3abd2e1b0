"""Running observation statistics: every network sees (obs − mean) / std of all observations so far.

Of images it sees the bytes / 255: their range is known, and statistics of single pixels would take away what the pixels
of a picture have in common.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from focops.core.spec import Spec

_MIN_STD = 1e-2
CLIP = 5.0


class RunningStats(NamedTuple):
    """Mean and (population) variance of the `count` observations seen so far."""

    mean: Float[Array, "O"]
    variance: Float[Array, "O"]
    count: Float[Array, ""]  # pyright: ignore[reportIncompatibleMethodOverride]


class Bytes(NamedTuple):
    """Of images, whose range is known."""


Stats = RunningStats | Bytes


def of(spec: Spec) -> Stats:
    return init(spec.obs_size) if spec.image is None else Bytes()


def init(obs_size: int) -> RunningStats:
    return RunningStats(jnp.zeros(obs_size), jnp.zeros(obs_size), jnp.zeros(()))


def observe(stats: Stats, obs: Float[Array, "E O"]) -> Stats:
    """Merge E more observations (Chan's parallel form of Welford's update)."""
    if isinstance(stats, Bytes):
        return stats
    n = obs.shape[0]
    total = stats.count + n
    batch_mean = jnp.mean(obs, 0)
    shift = batch_mean - stats.mean
    share = n / total
    variance = stats.variance + share * (jnp.var(obs, 0) - stats.variance + (1 - share) * shift * shift)
    return RunningStats(stats.mean + share * shift, variance, total)


def apply(stats: Stats, obs: Float[Array, "*batch O"]) -> Float[Array, "*batch O"]:
    """(obs − mean) / max(std, 0.01), clipped to ±5; of images obs / 255."""
    if isinstance(stats, Bytes):
        return obs / 255
    return jnp.clip((obs - stats.mean) / std(stats), -CLIP, CLIP)


def std(stats: RunningStats) -> Float[Array, "O"]:
    """What observations are divided by: not less than 0.01."""
    return jnp.maximum(jnp.sqrt(stats.variance), _MIN_STD)
