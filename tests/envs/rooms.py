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


class Panel(Levers):
    """Keeps the actions it is given, of a space with a shape and starts of its own."""

    action_space = spaces.MultiDiscrete([[2, 3]], start=[[0, 5]])

    def step(self, action):
        self.given = action
        return super().step(np.array([0, 1]))


class Switches(Panel):
    action_space = spaces.MultiBinary(3)


class Cabin(Levers):
    """Observes parts with names."""

    observation_space = spaces.Dict({
        "place": spaces.Box(-np.inf, np.inf, (2,), np.float64), "gear": spaces.Discrete(3),
    })  # fmt: skip

    def observe(self):
        return {"place": self.place.copy(), "gear": self.t % 3}


class Engine(Levers):
    """Observes as many numbers as Cabin, in other parts."""

    observation_space = spaces.Tuple((spaces.Discrete(3), spaces.Box(-np.inf, np.inf, (2,), np.float64)))

    def observe(self):
        return self.t % 3, self.place.copy()


class Camera(gymnasium.Env):
    """The half of the image that is lit says which action pays 1; the other one pays nothing. Action 1 costs 1."""

    observation_space: spaces.Space = spaces.Box(0, 255, (36, 40, 3), np.uint8)
    action_space: spaces.Space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def step(self, action):
        reward, self.t = float(action == self.lit), self.t + 1
        return self.observe(), reward, False, self.t == 8, {"cost": float(action)}

    def observe(self):
        self.lit = int(self.np_random.integers(2))
        image = self.np_random.integers(0, 60, (36, 40, 3)).astype(np.uint8)
        image[:, 20 * self.lit : 20 * (self.lit + 1)] += 150
        return image


class Frames(Camera):
    """Channels first, as stacks of frames are."""

    observation_space = spaces.Box(0, 255, (3, 36, 40), np.uint8)

    def observe(self):
        return np.moveaxis(super().observe(), -1, 0)


class Thumbnail(Camera):
    observation_space = spaces.Box(0, 255, (8, 40, 3), np.uint8)

    def observe(self):
        return super().observe()[:8]


class CameraAndMore(Camera):
    observation_space = spaces.Dict({"eye": Camera.observation_space, "gear": spaces.Discrete(3)})

    def observe(self):
        return {"eye": super().observe(), "gear": 0}
