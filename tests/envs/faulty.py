"""An environment for worker processes: what goes wrong is in the environment variable FAULT, which workers inherit."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import gymnasium
import numpy as np


class Faulty(gymnasium.Env):
    """A random walk of episodes of 8 steps; in step 5 of episode 6 FAULT happens."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, at: int = 6) -> None:
        self.episodes, self.at = 0, at

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state, self.t = self.np_random.normal(size=2), 0
        self.episodes += 1
        return self.state.copy(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        self.state = 0.9 * self.state + 0.1 * self.np_random.normal(size=2) + 0.05 * action[0]
        if self.t == 5 and self.episodes >= self.at:
            match os.environ.get("FAULT", ""):
                case "raise":
                    raise RuntimeError("out of coffee")
                case "exit":
                    sys.exit(3)
                case "hang":
                    time.sleep(600)
                case "die":
                    os._exit(3)
                case "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "print":
                    print("a word")
        cost = float("jax" in sys.modules) if os.environ.get("FAULT") == "jax" else float(self.state[1] ** 2)
        return self.state.copy(), -float(self.state[0] ** 2), self.t == 8, False, {"cost": cost}


class Slow(Faulty):
    """Two milliseconds of computation in each step."""

    def step(self, action: Any) -> Any:
        until = time.perf_counter() + 2e-3
        while time.perf_counter() < until:
            pass
        return super().step(action)


class Helped(Faulty):
    """Has a process of its own, which has open what the worker has; its number is the reward."""

    def __init__(self) -> None:
        super().__init__(at=0)
        self.helper = subprocess.Popen(["sleep", "600"], close_fds=False)

    def step(self, action: Any) -> Any:
        obs, _, *rest = super().step(action)
        return obs, float(self.helper.pid), *rest


if "Faulty-v0" not in gymnasium.registry:
    gymnasium.register("Faulty-v0", entry_point=Faulty)
    gymnasium.register("FaultyAtOnce-v0", entry_point=Faulty, kwargs={"at": 0})
    gymnasium.register("Slow-v0", entry_point=Slow)
    gymnasium.register("Helped-v0", entry_point=Helped)
    gymnasium.register("Never-v0", entry_point=lambda: time.sleep(600))
