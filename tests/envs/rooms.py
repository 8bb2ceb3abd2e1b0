"""Environments of other spaces than vectors, also for workers under another interpreter: Python 3.8, any Gymnasium."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Levers(gymnasium.Env):
    """Two levers, of two and of three positions. What is observed drifts with them."""

    observation_space: spaces.Space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = self.np_random.normal(size=2), 0
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        self.place = 0.9 * self.place + 0.1 * np.asarray(action, np.float64) + 0.1 * self.np_random.normal(size=2)
        return self.observe(), float(self.place.sum()), False, self.t == 9, {"cost": float(action[1])}

    def observe(self):
        return self.place.copy()
