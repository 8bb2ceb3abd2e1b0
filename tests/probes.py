"""Probe environments: so small that values, cost values and the best constrained behaviour are known in advance."""

import gymnasium as gym
import numpy as np


class Probe(gym.Env):
    """One-hot states; `outcome(state, action)` gives (reward, cost, next state or None at the end)."""

    states = 1
    action_space: gym.Space = gym.spaces.Discrete(2)

    def __init__(self):
        self.observation_space = gym.spaces.Box(0.0, 1.0, (self.states,), np.float32)
        self._one_hot = np.eye(self.states, dtype=np.float32)

    def outcome(self, state, action):
        raise NotImplementedError

    def reset(self, *, seed=None, options=None):
        self.state = 0
        return self._obs(), {}

    def step(self, action):
        reward, cost, after = self.outcome(self.state, action)
        terminated = after is None
        self.state = self.state if terminated else after
        return self._obs(), float(reward), terminated, False, {"cost": cost}

    def _obs(self):
        return self._one_hot[self.state].copy()


class OneStep(Probe):
    """V = 1 and V_C = 0.5 whatever one does."""

    def outcome(self, state, action):
        return 1.0, 0.5, None


class TwoSteps(Probe):
    """Reward 1 and cost 2 on the second step only: V = (γ, 1), V_C = (2γ_C, 2)."""

    states = 2

    def outcome(self, state, action):
        return (0.0, 0.0, 1) if state == 0 else (1.0, 2.0, None)


class Coin(Probe):
    """Action 1 pays 1 and costs 1. With limit b the best policy takes it with probability b: it must randomise."""

    def outcome(self, state, action):
        return float(action), float(action), None


class TwoCoins(Probe):
    """Actions: nothing, reward 1 for cost (1, 0), reward 1 for cost (0, 1). Best: as often as each limit allows."""

    action_space = gym.spaces.Discrete(3)

    def outcome(self, state, action):
        return float(action > 0), np.array([action == 1, action == 2], float), None


class TwoSwitches(Probe):
    """Two switches at once, of two and of three positions. The first, on, pays 1 and costs (1, 0); the last position
    of the second pays 1 and costs (0, 1), the middle one costs (0, 1) for nothing. Best: each as often as its limit
    allows, and the middle one never."""

    action_space = gym.spaces.MultiDiscrete([2, 3])

    def outcome(self, state, action):
        on, position = action
        return float(on) + float(position == 2), np.array([on, position > 0], float), None


class Push(Probe):
    """Reward a, cost max(a, 0)² for one continuous action: the best mean is near √b."""

    action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def outcome(self, state, action):
        return float(action[0]), max(float(action[0]), 0.0) ** 2, None


class Forever(Probe):
    """Never ends. Action 1 pays 1 and costs 1 each step: with limit b, take it with probability (1 − γ_C)·b."""

    def outcome(self, state, action):
        return float(action), float(action), 0


for _probe in (OneStep, TwoSteps, Coin, TwoCoins, TwoSwitches, Push, Forever):
    if f"{_probe.__name__}-v0" not in gym.registry:  # Gymnasium imports this module once more
        gym.register(f"{_probe.__name__}-v0", entry_point=_probe)
