"""The gym of 2021 (0.21), as far as a worker sees it: one seeds with `seed`, and `step` has four values."""

from types import SimpleNamespace

import numpy as np

__version__ = "0.21.0"


class Env:
    spec = None

    @property
    def unwrapped(self):
        return self

    def close(self):
        pass


class TimeLimit:
    """As make adds it. A worker does without."""

    def __init__(self, env, max_episode_steps):
        self.env, self._max_episode_steps = env, max_episode_steps
        self.action_space, self.observation_space, self.spec = env.action_space, env.observation_space, env.spec


class Box:
    def __init__(self, low, high, shape, dtype):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.low, self.high = np.full(shape, low, dtype), np.full(shape, high, dtype)

    def sample(self):
        return np.zeros(self.shape, self.dtype)

    def seed(self, seed):
        pass


class Discrete:
    def __init__(self, n):
        self.n = n

    def sample(self):
        return 0


class MultiDiscrete:
    def __init__(self, nvec):
        self.nvec, self.shape = np.array(nvec), (len(nvec),)


class Dict:
    def __init__(self, spaces):
        self.spaces = spaces

    def sample(self):
        return {name: space.sample() for name, space in self.spaces.items()}


def register(id, **kwargs):
    _specs[id] = SimpleNamespace(**kwargs)


def make(id, **kwargs):
    env = _specs[id].entry_point(**kwargs)
    env.spec = _specs[id]
    return TimeLimit(env, _specs[id].max_episode_steps)


_specs = {}
spaces = SimpleNamespace(Box=Box, Discrete=Discrete, MultiDiscrete=MultiDiscrete, Dict=Dict)
envs = SimpleNamespace(registration=SimpleNamespace(registry=SimpleNamespace(env_specs=_specs)))
