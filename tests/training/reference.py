"""Episode statistics computed one step at a time, in float64."""

from collections import deque

import numpy as np

from focops.core.types import Trajectories
from focops.training.episodes import RECENT


class Episodes:
    """Return, length and costs of the latest whole episodes: those that their environment ended."""

    def __init__(self, discounts: list[float], num_envs: int) -> None:
        self._discounts = np.array(discounts)
        self.running = np.zeros((num_envs, 1 + 2 * len(discounts)))
        """Partial sums of each environment's current episode: reward, m discounted costs, m undiscounted costs."""
        self.recent: deque[np.ndarray] = deque(maxlen=RECENT)
        """(length, reward, m discounted costs, m undiscounted costs) of each."""
        self.finished = 0

    def add(self, batch: Trajectories) -> None:
        """Add a batch [T, E]."""
        for t, e in np.ndindex(batch.age.shape):
            cost = np.asarray(batch.cost[t, e], np.float64)
            age = int(batch.age[t, e])
            self.running[e] += np.concatenate([[batch.reward[t, e]], self._discounts**age * cost, cost])
            if batch.terminated[t, e] or batch.truncated[t, e]:
                if not batch.cut[t, e]:
                    self.recent.append(np.array([age + 1, *self.running[e]]))
                    self.finished += 1
                self.running[e] = 0

    def means(self) -> np.ndarray | None:
        """Mean length, reward, discounted and undiscounted costs over the latest episodes; None before the first."""
        return np.mean(self.recent, 0) if self.recent else None
