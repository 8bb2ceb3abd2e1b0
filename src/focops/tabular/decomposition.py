"""Dantzig and Wolfe's decomposition of the occupancy program, for CMDPs too large to hand to HiGHS whole.

Every occupancy measure is a mixture of deterministic policies'. A small *master* program (HiGHS) mixes the policies
found so far, max Σ w_j J_j subject to Σ w_j J_Cj ≤ b; its multipliers ν price the costs, and policy iteration finds the
best policy for r − ν·c. J + ν·(b − J_C) of that one bounds every feasible return: where the mixture reaches the bound
it is optimal, else the policy joins it. There are finitely many policies, so this ends.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.optimize import linprog

from focops.tabular.cmdp import CMDP
from focops.tabular.exact_values import solve_chain

_GAP = 1e-9
HIGHS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_ROUNDS = 500
_SAME = 1e-11
"""Relative to the values: what counts as no improvement in policy iteration."""


class Optimum(NamedTuple):
    """An optimal point of the program and of its dual."""

    occupancy: Float[np.ndarray, "S A"]
    nu: Float[np.ndarray, "m"]
    value: float
    bound: float
    greedy: Int[np.ndarray, "S"]
    """An action that is best for r − ν·c, for every state."""


class _Columns(NamedTuple):
    """Deterministic policies with their returns and costs."""

    actions: list[Int[np.ndarray, "S"]]
    ret: list[float]
    cost_return: list[Float[np.ndarray, "k"]]


def decompose(cmdp: CMDP, constraints: list[int], elastic: bool, slack: float) -> Optimum | None:
    """The program with some of the constraints; None if they are infeasible by more than `slack`.

    `elastic`: minimise what exceeds the limits instead of maximising the return.
    """
    columns = _Columns([], [], [])
    if constraints:  # which policies to mix to keep the limits, whatever they earn
        least = _generate(cmdp, constraints, columns, elastic=True)
        if elastic:
            return least
        if least.value < -slack:
            return None
    return _generate(cmdp, constraints, columns, elastic=False)


def _generate(cmdp: CMDP, constraints: list[int], columns: _Columns, elastic: bool) -> Optimum:
    """Add policies to `columns` until no other could improve their best mixture."""
    limits, cost = cmdp.limits[constraints], cmdp.cost[:, :, constraints]
    nu = np.full(len(constraints), 1.0 if elastic else 0.0)
    weights, value, bound = np.zeros(0), -np.inf, 0.0 if elastic else np.inf
    if columns.ret:
        weights, nu, value = _master(columns, limits, elastic)
    greedy = columns.actions[-1] if columns.ret else np.zeros(cmdp.num_states, np.int64)
    for _ in range(_ROUNDS):
        greedy = _best_policy(cmdp, (0.0 if elastic else 1.0) * cmdp.reward - cost @ nu, greedy)
        ret, cost_return = _point(cmdp, greedy, cost)
        bound = min(bound, (0.0 if elastic else ret) + float(nu @ (limits - cost_return)))
        known = any(np.array_equal(greedy, actions) for actions in columns.actions)
        if bound - value <= _GAP * (1 + abs(bound)) or known:  # already known: the remaining gap is rounding
            break
        columns.actions.append(greedy)
        columns.ret.append(ret)
        columns.cost_return.append(cost_return)
        weights, nu, value = _master(columns, limits, elastic)
    else:
        raise RuntimeError(f"the decomposition did not close its gap of {bound - value:g} in {_ROUNDS} rounds")
    every = np.zeros(cmdp.num_costs)
    every[constraints] = nu
    return Optimum(_mixture(cmdp, columns, weights), every, value, bound, greedy)


def _master(columns: _Columns, limits: np.ndarray, elastic: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """(weights, ν, value) of the best mixture."""
    n, m = len(columns.ret), len(limits)
    cost = np.reshape(columns.cost_return, (n, m)).T
    objective = np.concatenate([np.zeros(n), np.ones(m)]) if elastic else -np.array(columns.ret)
    cost = np.hstack([cost, -np.eye(m)]) if elastic else cost
    result = linprog(
        objective, A_eq=np.concatenate([np.ones(n), np.zeros(objective.size - n)])[None], b_eq=[1.0],
        A_ub=cost, b_ub=limits + 1e-9 * (1 + np.abs(limits)), method="highs-ds", options=HIGHS,
    )  # fmt: skip
    if result.status != 0:
        raise RuntimeError(f"HiGHS did not solve the master program: {result.message}")
    return result.x[:n], np.maximum(-result.ineqlin.marginals, 0.0), -result.fun


def _best_policy(
    cmdp: CMDP, signal: Float[np.ndarray, "S A"], actions: Int[np.ndarray, "S"]
) -> Int[np.ndarray, "S"]:  # fmt: skip
    """Policy iteration for one signal, from `actions`."""
    states = np.arange(cmdp.num_states)
    while True:
        value = solve_chain(_chain(cmdp, actions), cmdp.discount, signal[states, actions])
        q = signal + cmdp.discount * (cmdp.transition @ value).reshape(signal.shape)
        better = q.max(1) > q[states, actions] + _SAME * (1 + np.abs(value).max())
        if not better.any():
            return actions
        actions = np.where(better, q.argmax(1), actions)


def _chain(cmdp: CMDP, actions: np.ndarray) -> sp.csr_array:
    return cmdp.transition[np.arange(cmdp.num_states) * cmdp.num_actions + actions, :]


def _visits(cmdp: CMDP, actions: np.ndarray) -> Float[np.ndarray, "S"]:
    return np.maximum(solve_chain(sp.csr_array(_chain(cmdp, actions).T), cmdp.discount, cmdp.start), 0.0)


def _point(cmdp: CMDP, actions: np.ndarray, cost: np.ndarray) -> tuple[float, np.ndarray]:
    """J and J_C of a deterministic policy."""
    states, visits = np.arange(cmdp.num_states), _visits(cmdp, actions)
    return float(visits @ cmdp.reward[states, actions]), visits @ cost[states, actions]


def _mixture(cmdp: CMDP, columns: _Columns, weights: np.ndarray) -> Float[np.ndarray, "S A"]:
    occupancy = np.zeros(cmdp.reward.shape)
    for weight, actions in zip(weights, columns.actions, strict=False):
        if weight > 0:
            occupancy[np.arange(cmdp.num_states), actions] += weight * _visits(cmdp, actions)
    return occupancy
