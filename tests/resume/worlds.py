"""Environments to be interrupted in: Gymnasium's own MuJoCo ones with a cost, and one that goes wrong."""

import sys
import time
from typing import Any, ClassVar

import gymnasium
import numpy as np


class CostOfSpeed(gymnasium.Wrapper):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, {**info, "cost": abs(info["x_velocity"])}


class Slow(CostOfSpeed):
    """Takes its time without using any: to be interrupted in the middle."""

    def step(self, action: Any) -> Any:
        time.sleep(0.002)
        return super().step(action)


class Drift(gymnasium.Env):
    """A random walk; its episodes end by chance, or never. `Drift.fault` is what goes wrong at step 5 of episode 7."""

    fault: ClassVar[str] = ""
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, ends: bool = True) -> None:
        self.ends, self.episodes = ends, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state, self.t = self.np_random.normal(size=2), 0
        self.episodes += 1
        return self.state.copy(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        self.state = 0.9 * self.state + 0.1 * self.np_random.normal(size=2) + 0.05 * action[0]
        obs, reward = self.state.copy(), -float(self.state[0] ** 2)
        info: dict[str, Any] = {"cost": float(self.state[1] ** 2)}
        if Drift.fault and self.t == 5 and self.episodes == 7:
            match Drift.fault:
                case "raise":
                    raise RuntimeError("out of coffee")
                case "exit":
                    sys.exit(0)
                case "hang":
                    try:
                        time.sleep(60)
                    except Exception:  # as careless code does
                        time.sleep(60)
                case "nan":
                    obs[1] = np.nan
                case "inf":
                    reward = np.inf
                case "shape":
                    obs = np.zeros(3)
                case "no cost":
                    info = {}
        return obs, reward, self.ends and self.np_random.uniform() < 0.1, False, info


for _name in ("Hopper", "Swimmer"):
    if f"Costed{_name}-v0" not in gymnasium.registry:  # Gymnasium imports this module once more
        gymnasium.register(
            f"Costed{_name}-v0",
            entry_point=lambda _name=_name: CostOfSpeed(gymnasium.make(f"{_name}-v5").unwrapped),
            max_episode_steps=50,
        )
if "SlowSwimmer-v0" not in gymnasium.registry:
    gymnasium.register(
        "SlowSwimmer-v0", entry_point=lambda: Slow(gymnasium.make("Swimmer-v5").unwrapped), max_episode_steps=50
    )
if "Drift-v0" not in gymnasium.registry:
    gymnasium.register("Drift-v0", entry_point=Drift)
    gymnasium.register("EndlessDrift-v0", entry_point=Drift, kwargs={"ends": False})
