"""Small problems with known optima, as Gymnasium ids: focops.tabular.problems:Crossroads-v0, Queue-v0 and Random-v0."""

import dataclasses

import numpy as np

from focops.tabular.cmdp import CMDP
from focops.tabular.environment import register
from focops.tabular.generate import episodic, garnet, queue


def crossroads() -> CMDP:
    """A fast road that costs and a slow one that does not, both back to the crossroads. The limit allows the fast one
    some of the time only, so the optimum must randomise."""
    crossing, fast, slow = np.eye(3)
    transition = [[fast, slow], [crossing] * 2, [(crossing + slow) / 2] * 2]
    reward, cost = np.array([[0, 0], [1, 1], [0.4, 0.4]]), np.zeros((3, 2, 1))
    cost[1] = 1.0
    return CMDP(np.array(transition), reward, cost, crossing, np.array([1.0]), 0.99, action_names=("fast", "slow"))


PROBLEMS: dict[str, CMDP] = {
    "Crossroads-v0": episodic(crossroads(), 0.9),
    "Queue-v0": episodic(queue(5, arrivals=(0.1, 0.5), services=(0.2, 0.7), limits=(8.0, 3.5), discount=0.99), 0.9),
    "Random-v0": dataclasses.replace(episodic(garnet(6, 3, discount=0.99, seed=1), 0.9), limits=np.array([3.4])),
}

for _name, _problem in PROBLEMS.items():
    register(_name, _problem)
