"""Small problems with known optima, as Gymnasium ids: focops.tabular.problems:Crossroads-v0, OneLimit-v0, TwoLimits-v0.

Discounts are low, so that episodes can be cut early without loss. Every batch then has many of them, enough for J_C.
"""

import numpy as np

from focops.tabular.cmdp import CMDP
from focops.tabular.environment import register
from focops.tabular.generate import garnet

DISCOUNT = 0.7


def crossroads() -> CMDP:
    """A fast road that costs much and a slow one that costs less, both back to the crossroads. The limit allows the
    fast one some of the time only, so the optimum must randomise."""
    crossing, fast, slow = np.eye(3)
    transition = [[fast, slow], [crossing] * 2, [(crossing + slow) / 2] * 2]
    reward, cost = np.array([[0, 0], [1, 1], [0.5, 0.5]]), np.zeros((3, 2, 1))
    cost[1], cost[2] = 1.0, 0.5
    return CMDP(np.array(transition), reward, cost, crossing, np.array([1.0]), DISCOUNT, action_names=("fast", "slow"))


PROBLEMS: dict[str, CMDP] = {
    "Crossroads-v0": crossroads(),
    "OneLimit-v0": garnet(6, 3, 1, discount=DISCOUNT, tightness=0.85, seed=1),
    "TwoLimits-v0": garnet(6, 3, 2, discount=DISCOUNT, tightness=0.85, seed=9),
}

for _name, _problem in PROBLEMS.items():
    register(_name, _problem)
