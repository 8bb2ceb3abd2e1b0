"""The optimal constrained policy, by linear programming over occupancy measures.

x(s,a) = Σ_t γ^t P(s_t = s, a_t = a) makes J(π) = Σ x·r and J_C(π) = Σ x·c linear, and the x of all policies are a
polyhedron: Σ_a x(s',a) − γ Σ_{s,a} P(s'|s,a) x(s,a) = μ(s'), x ≥ 0. The policy is π(a|s) = x(s,a) / Σ_a x(s,a); the
dual variables of J_C ≤ b are the multipliers ν = ∂J*/∂b.

HiGHS solves small problems as they stand. Its time grows with the cube of the states where transitions are not local,
so large ones are decomposed (`decomposition`): the same linear program, the same optimum.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float
from scipy.optimize import linprog

from focops.errors import UsageError
from focops.tabular.cmdp import CMDP
from focops.tabular.decomposition import HIGHS, Optimum, decompose
from focops.tabular.exact_values import PolicyValues, evaluate

TOLERANCE = 1e-6
"""Relative to 1 + |b|: how far a cost may be from its limit and count as at it."""
_DIRECT = 3000
"""Up to this many (state, action) pairs HiGHS solves the whole program, in less than a second."""
_VISITED = 1e-10

Method = Literal["auto", "direct", "decomposed"]


class Infeasible(UsageError):
    """No policy satisfies the constraints; `conflict`: indices of a smallest set that cannot be kept together."""

    def __init__(self, message: str, conflict: tuple[int, ...]):
        super().__init__(message)
        self.conflict = conflict


class Solution(NamedTuple):
    """An optimal policy, its exact values, and what each constraint is worth."""

    policy: Float[np.ndarray, "S A"]
    ret: float
    """J(π)"""
    cost_return: Float[np.ndarray, "m"]
    nu: Float[np.ndarray, "m"]
    """How much J would grow per unit of limit."""
    binding: Bool[np.ndarray, "m"]
    occupancy: Float[np.ndarray, "S A"]
    bound: float
    """No feasible policy has a higher return than this (the dual's value)."""
    evaluation: PolicyValues


def solve_lp(cmdp: CMDP, method: Method = "auto") -> Solution:
    """The best policy under the constraints; `Infeasible` where there is none."""
    cmdp.one_discount("the linear program")
    everything = list(range(cmdp.num_costs))
    optimum = _solver(cmdp, method)(cmdp, everything, False, _slack(cmdp, everything))
    if optimum is None:
        raise _explain(cmdp, method)
    policy = _policy(optimum)
    found = evaluate(cmdp, policy)
    binding = np.abs(found.cost_return - cmdp.limits) <= TOLERANCE * (1 + np.abs(cmdp.limits))
    return Solution(policy, found.ret, found.cost_return, optimum.nu, binding, optimum.occupancy, optimum.bound, found)


def _least_violation(cmdp: CMDP, constraints: Sequence[int], method: Method = "auto") -> float:
    """min over policies of Σ_i max(0, J_Ci − b_i), over some of the constraints."""
    chosen = list(constraints)
    optimum = _solver(cmdp, method)(cmdp, chosen, True, 0.0) if chosen else None
    return -optimum.value if optimum else 0.0


def _direct(cmdp: CMDP, constraints: list[int], elastic: bool, slack: float) -> Optimum | None:
    """The whole program at once; arguments as `decompose`'s."""
    num_states, num_actions = cmdp.reward.shape
    pairs, m = num_states * num_actions, len(constraints)
    own = sp.csr_array((np.ones(pairs), (np.arange(pairs) // num_actions, np.arange(pairs))), shape=(num_states, pairs))
    flow = sp.csr_array(own - cmdp.discount * cmdp.transition.T)
    cost = sp.csr_array(cmdp.cost.reshape(pairs, -1)[:, constraints].T)
    objective = -cmdp.reward.ravel()
    if elastic:  # x, then what each limit is exceeded by
        objective = np.concatenate([np.zeros(pairs), np.ones(m)])
        flow = sp.hstack([flow, sp.csr_array((num_states, m))], format="csr")
        cost = sp.hstack([cost, -sp.eye_array(m)], format="csr")
    result = linprog(
        objective, A_eq=flow, b_eq=cmdp.start, method="highs-ds", options=HIGHS,
        **({"A_ub": cost, "b_ub": cmdp.limits[constraints]} if m else {}),
    )  # fmt: skip
    if result.status == 2:
        return None
    if result.status != 0:
        raise RuntimeError(f"HiGHS did not solve the linear program: {result.message}")
    nu = np.zeros(cmdp.num_costs)
    nu[constraints] = np.maximum(-result.ineqlin.marginals, 0.0) if m else 0.0
    value = -result.eqlin.marginals
    q = cmdp.reward - cmdp.cost @ nu + cmdp.discount * (cmdp.transition @ value).reshape(cmdp.reward.shape)
    occupancy = np.maximum(result.x[:pairs], 0.0).reshape(num_states, num_actions)
    return Optimum(occupancy, nu, -result.fun, -result.fun, np.argmax(q, 1))


def _solver(cmdp: CMDP, method: Method) -> Callable[[CMDP, list[int], bool, float], Optimum | None]:
    if method not in ("auto", "direct", "decomposed"):
        raise UsageError(f"unknown method {method!r}; there are: auto, direct, decomposed")
    small = cmdp.reward.size <= _DIRECT
    return _direct if method == "direct" or (method == "auto" and small) else decompose


def _policy(optimum: Optimum) -> Float[np.ndarray, "S A"]:
    """π = x / Σ_a x; in states that the optimal policy never visits, the best action for the Lagrangian."""
    total = optimum.occupancy.sum(1, keepdims=True)
    fallback = np.eye(optimum.occupancy.shape[1])[optimum.greedy]
    visited = total > _VISITED * total.sum()
    return np.where(visited, optimum.occupancy / np.where(visited, total, 1.0), fallback)


def _slack(cmdp: CMDP, constraints: Sequence[int]) -> float:
    return TOLERANCE * (1 + float(np.abs(cmdp.limits[list(constraints)]).sum())) if len(constraints) else 0.0


def _explain(cmdp: CMDP, method: Method) -> Infeasible:
    """Drop constraints while the rest is still infeasible. What remains is a minimal set that cannot be satisfied."""
    conflict = list(range(cmdp.num_costs))
    for i in range(cmdp.num_costs):
        rest = [j for j in conflict if j != i]
        if rest and _least_violation(cmdp, rest, method) > _slack(cmdp, rest):
            conflict = rest
    excess = _least_violation(cmdp, conflict, method)
    parts = " and ".join(f"{cmdp.names[i]} ≤ {cmdp.limits[i]:g}" for i in conflict)
    if len(conflict) == 1:
        least = cmdp.limits[conflict[0]] + excess
        message = f"infeasible: no policy keeps {parts}; the least possible is {least:.6g}. Raise that limit"
    else:
        message = (
            f"infeasible: no policy keeps {parts} together, though all but one of them can be kept; they are exceeded"
            f" by {excess:.6g} in sum at least. Raise one of these limits"
        )
    return Infeasible(message, tuple(conflict))
