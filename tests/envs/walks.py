"""Environments for workers under another interpreter: a random walk whose steps have four, five or six values.

Python 3.8, and gym or Gymnasium of any version.
"""

import importlib
import os
from typing import Any

import numpy as np

try:
    gym: Any = importlib.import_module("gymnasium")
except ImportError:
    gym = importlib.import_module("gym")

Box, Dict, Discrete, MultiDiscrete = (
    getattr(gym.spaces, name) for name in ("Box", "Dict", "Discrete", "MultiDiscrete")
)


class Walk(gym.Env):
    """Registered with a time limit of 9 steps. Raises in step 5 if the environment variable FAULT says so."""

    observation_space: Any = Dict({"a": Box(-np.inf, np.inf, (2,), np.float64), "b": Discrete(3)})
    action_space: Any = Box(-1.0, 1.0, (1,), np.float32)

    def seed(self, seed=None):
        self.rng = np.random.RandomState(seed)

    def begin(self):
        self.state, self.t = self.rng.normal(size=2), 0
        return {"a": self.state.copy(), "b": 0}

    def move(self, action):
        self.t += 1
        push = 0.05 * float(action[0])  # of a float32, the same in NumPy 1 and 2
        self.state = 0.9 * self.state + 0.1 * self.rng.normal(size=2) + push
        if self.t == 5 and os.environ.get("FAULT") == "raise":
            raise RuntimeError("out of coffee")
        return {"a": self.state.copy(), "b": self.t % 3}, -float(self.state[0] ** 2), float(self.state[1] ** 2)


class Four(Walk):
    def reset(self):
        return self.begin()

    def step(self, action):
        obs, reward, cost = self.move(action)
        return obs, reward, False, {"cost": cost}


class Five(Walk):
    def reset(self, *, seed=None, options=None):
        self.seed(seed)
        return self.begin(), {}

    def step(self, action):
        obs, reward, cost = self.move(action)
        return obs, reward, False, False, {"cost": cost}


class Six(Five):
    def step(self, action):
        obs, reward, cost = self.move(action)
        return obs, reward, cost, False, False, {}


class Named(Five):
    """Two costs with names, in another order at every step."""

    def step(self, action):
        obs, reward, cost = self.move(action)
        costs = [("speed", cost), ("torque", abs(float(action[0])))]
        return obs, reward, False, self.t == 9, {"cost": dict(costs if self.t % 2 else costs[::-1])}


class OneMore(Named):
    """A third cost in step 4."""

    def step(self, action):
        answer = super().step(action)
        if self.t == 4:
            answer[-1]["cost"]["drag"] = 1.0
        return answer


class Switches(Five):
    """Two switches. The second is at -1 in step 4."""

    observation_space = MultiDiscrete([3, 4])

    def begin(self):
        super().begin()
        return np.array([0, 1])

    def move(self, action):
        _, reward, cost = super().move(action)
        return np.array([self.t % 3, -1 if self.t == 4 else 3]), reward, cost


class NoCost(Five):
    def step(self, action):
        return (*super().step(action)[:4], {})


def torque(obs, action, reward, info):
    """A cost for environments that have none."""
    return abs(float(action[0])) + float(obs["b"])


def make(name):
    """For ids that are not registered."""
    return {"Unregistered-v0": Six}[name]()


for _kind in (Four, Five, Six):
    gym.register(id=f"{_kind.__name__}-v0", entry_point=_kind, max_episode_steps=9)
