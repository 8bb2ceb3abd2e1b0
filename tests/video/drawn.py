"""Environments that draw themselves, and some that cannot."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Blink(gymnasium.Env):
    """Draws its step as a shade of grey. Its start depends on its seed, its reward on the action; it ends by itself."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - Gymnasium's own convention
    observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, render_mode: str | None = None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.start = 0, float(self.np_random.uniform())
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        reward = self.start + float(action[0])
        return self._obs(), reward, self.t >= 5 + 10 * self.start, False, {"cost": float(action[0]) ** 2}

    def render(self):
        return np.full((90, 120, 3), 10 * self.t, np.uint8)

    def _obs(self):
        return np.array([self.t / 10, self.start], np.float32)


class Blind(Blink):
    metadata = {"render_modes": ["human"]}  # noqa: RUF012

    def __init__(self):
        super().__init__(None)


class Floats(Blink):
    def render(self):
        return np.zeros((90, 120))


gymnasium.register("Blink-v0", entry_point=Blink, max_episode_steps=50)
