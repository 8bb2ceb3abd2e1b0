"""A finite CMDP as a Gymnasium environment: one-hot observations, discrete actions, costs in info["cost"]."""

from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Bool

from focops.tabular.cmdp import CMDP


class CMDPEnv(gymnasium.Env):
    """Steps through a CMDP. Terminates in states after which there is no reward or cost; otherwise never ends."""

    def __init__(self, cmdp: CMDP):
        self.cmdp = cmdp
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (cmdp.num_states,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(cmdp.num_actions)
        self._cumulative = np.cumsum(cmdp.transition.toarray(), 1)
        self._ends = ends(cmdp)
        self._start = np.cumsum(cmdp.start)
        self._one_hot = np.eye(cmdp.num_states, dtype=np.float32)
        self._cost = cmdp.cost[:, :, 0] if cmdp.num_costs == 1 else cmdp.cost

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state = self._draw(self._start)
        return self._one_hot[self.state], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        here, action = self.state, int(action)
        self.state = self._draw(self._cumulative[here * self.cmdp.num_actions + action])
        info = {"cost": self._cost[here, action]}
        return (
            self._one_hot[self.state],
            float(self.cmdp.reward[here, action]),
            bool(self._ends[self.state]),
            False,
            info,
        )

    def _draw(self, cumulative: np.ndarray) -> int:
        last = len(cumulative) - 1
        return min(int(np.searchsorted(cumulative, self.np_random.random() * cumulative[-1], side="right")), last)


def ends(cmdp: CMDP) -> Bool[np.ndarray, "S"]:
    """States that lead only to themselves and pay and cost nothing: where an episode is over."""
    home = np.repeat(np.arange(cmdp.num_states), cmdp.num_actions)
    stays = (cmdp.transition[np.arange(home.size), home] == 1).reshape(cmdp.reward.shape).all(1)
    return stays & ~cmdp.reward.any(1) & ~cmdp.cost.any((1, 2))


def register(env_id: str, cmdp: CMDP, negligible: float = 1e-3) -> None:
    """Make `env_id` an environment of the problem whose episodes are cut when γ^t falls below `negligible`."""
    discount = max(cmdp.discount, *cmdp.cost_discounts) if cmdp.num_costs else cmdp.discount
    horizon = int(np.ceil(np.log(negligible) / np.log(discount)))
    if env_id not in gymnasium.registry:
        gymnasium.register(env_id, entry_point=lambda **_: CMDPEnv(cmdp), max_episode_steps=horizon)
