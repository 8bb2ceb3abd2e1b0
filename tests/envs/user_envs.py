"""Environments as users write them, registered when this module is imported: focops knows them as user_envs:Id-v0."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class CartPoleCost(gymnasium.Wrapper):
    """CartPole that pays for leaving the middle."""

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, {**info, "cost": float(abs(obs[0]) > 0.1)}


class Counter(gymnasium.Env):
    """Observes the step of the episode and the sum of the action; terminates at step 7. Costs: t, or (t, t²)."""

    def __init__(self, *, cost: Any = "scalar", space: str = "box", action: str = "box", fault: str = "", at: int = 3):
        self.cost, self.kind, self.fault, self.at = cost, space, fault, at
        self.observation_space = {
            "box": spaces.Box(-100.0, 100.0, (2, 1)),
            "discrete": spaces.Discrete(9),
            "dict": spaces.Dict({"a": spaces.Box(-100.0, 100.0, (1,)), "b": spaces.Discrete(3)}),
            "sequence": spaces.Sequence(spaces.Discrete(3)),
        }[space]
        self.action_space = {
            "box": spaces.Box(np.array([-1.0, -2.0], np.float32), np.array([1.0, 3.0], np.float32)),
            "matrix": spaces.Box(-1.0, 1.0, (2, 2)),
            "discrete": spaces.Discrete(3, start=5),
            "dict": spaces.Dict({"a": spaces.Discrete(2)}),
            "whole": spaces.Box(0, 3, (2,), np.int32),
        }[action]

    def observe(self, last: float) -> Any:
        if self.kind == "discrete":
            return self.t
        if self.kind == "dict":
            return {"a": np.array([last], np.float32), "b": self.t % 3}
        return np.array([[self.t], [last]], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.start = float(self.np_random.uniform())
        return self.observe(self.start), {}

    def step(self, action):
        self.t += 1
        self.last_action = action
        obs, reward = self.observe(float(np.sum(action))), float(self.t)
        info = {"cost": float(self.t) if self.cost == "scalar" else np.array([self.t, self.t**2])}
        if self.fault and self.t == self.at:
            match self.fault:
                case "nan observation":
                    obs = obs * np.nan
                case "inf reward":
                    reward = np.inf
                case "nan cost":
                    info["cost"] = np.nan
                case "no cost":
                    info = {}
                case "cost shape":
                    info["cost"] = [1.0, 2.0, 3.0]
                case "cost word":
                    info["cost"] = "dear"
                case "reward shape":
                    reward = np.zeros(2)
                case "observation shape":
                    obs = np.zeros(3, np.float32)
        return obs, reward, self.t == 7, False, info


class SixTuple(Counter):
    """The step of constrained environments before info["cost"]: the cost is the third of six."""

    def step(self, action):
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, 2.0 * self.t, terminated, truncated, {}


class OldApi(Counter):
    def step(self, action):
        return *super().step(action)[:3], {}


class Costless(Counter):
    def step(self, action):
        return *super().step(action)[:4], {}


class Forgetful(Counter):
    """Not a function of its seed and actions."""

    lives = 0

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        Forgetful.lives += 1
        return obs + np.float32(Forgetful.lives), info


def cart_pole() -> gymnasium.Env:
    return CartPoleCost(gymnasium.make("CartPole-v1").unwrapped)


gymnasium.register("CartPoleCost-v0", entry_point=cart_pole, max_episode_steps=40)
gymnasium.register("Counter-v0", entry_point=Counter, max_episode_steps=20)
gymnasium.register("Endless-v0", entry_point=Counter)
gymnasium.register("CounterShort-v0", entry_point=Counter, max_episode_steps=4)
gymnasium.register("SixTuple-v0", entry_point=SixTuple, max_episode_steps=4)
gymnasium.register("Costless-v0", entry_point=Costless)
gymnasium.register("OldApi-v0", entry_point=OldApi)
gymnasium.register("Forgetful-v0", entry_point=Forgetful)
for _name, _kwargs in {
    "TwoCosts": {"cost": "vector"},
    "DiscreteObs": {"space": "discrete"},
    "DictObs": {"space": "dict"},
    "SequenceObs": {"space": "sequence"},
    "DiscreteAction": {"action": "discrete"},
    "MatrixAction": {"action": "matrix"},
    "DictAction": {"action": "dict"},
    "WholeAction": {"action": "whole"},
    "NanObs": {"fault": "nan observation"},
    "InfReward": {"fault": "inf reward"},
    "NanCost": {"fault": "nan cost"},
    "NoCostLater": {"fault": "no cost"},
    "CostShape": {"fault": "cost shape"},
    "ObsShape": {"fault": "observation shape"},
    "RewardShape": {"fault": "reward shape"},
    "CostWord": {"fault": "cost word"},
    "EarlyCostWord": {"fault": "cost word", "at": 1},
}.items():
    gymnasium.register(f"{_name}-v0", entry_point=Counter, kwargs=_kwargs)
