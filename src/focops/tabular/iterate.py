"""Iterating Theorem 1 exactly; and the practical variant: λ fixed, ν by projected steps (Eq. 14)."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from focops.errors import UsageError
from focops.tabular.cmdp import CMDP, policy_table
from focops.tabular.exact_values import PolicyValues, evaluate
from focops.tabular.theorem1 import focops_update, surrogate

_FLOOR = 1e-12
"""Smallest probability: an action of probability 0 is lost for ever (π* ∝ π_k), and rounding must not cause that."""


class Iterates(NamedTuple):
    """Policies 0 … K, and the K updates between them."""

    policy: Float[np.ndarray, "S A"]
    """The last one."""
    ret: Float[np.ndarray, "K+1"]
    cost_return: Float[np.ndarray, "K+1 m"]
    temperature: Float[np.ndarray, "K"]
    nu: Float[np.ndarray, "K m"]
    converged: bool
    """The last policy keeps its limits and Theorem 1 promises no improvement on it."""


def focops_iterate(
    cmdp: CMDP,
    policy: Any = None,
    *,
    trust_region: float = 0.02,
    tolerance: float = 1e-6,
    max_updates: int = 1000,
) -> Iterates:
    """Update (from the uniform policy if none is given) until the policy is feasible and no update improves it.

    Where E_d[A] ≤ 0 for every policy near π_k that keeps the surrogate limits, π_k is optimal: at its ν no action is
    better than those it takes in the states it visits.
    """
    table = policy_table(cmdp, cmdp.uniform() if policy is None else policy)
    history, multipliers, converged = [evaluate(cmdp, table)], [], False
    for _ in range(max_updates):
        update = focops_update(cmdp, table, trust_region, history[-1])
        now = history[-1]
        gain = update.primal / (1 - cmdp.discount)
        feasible = np.all(now.cost_return <= cmdp.limits + tolerance * (1 + np.abs(cmdp.limits)))
        converged = bool(feasible and update.status == "optimal" and gain <= tolerance * (1 + abs(now.ret)))
        if converged:
            break
        table = _floored(update.policy)
        history.append(evaluate(cmdp, table))
        multipliers.append((update.temperature, update.nu))
    return _iterates(table, history, multipliers, converged)


def practical_update(
    cmdp: CMDP,
    policy: Any,
    nu: Float[np.ndarray, "m"],
    *,
    temperature: float,
    nu_rate: float,
    nu_max: float = np.inf,
    evaluation: PolicyValues | None = None,
) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, "m"]]:
    """(π, ν): ν ← clip(ν − α(b − J_C), 0, ν_max), then π* of Theorem 1 at that ν and a fixed λ, without a δ."""
    if not temperature > 0:
        raise UsageError(f"the temperature is {temperature}; it must be a positive number")
    found = evaluation or evaluate(cmdp, policy)
    nu = np.clip(nu - nu_rate * (cmdp.limits - found.cost_return), 0.0, nu_max)
    log_policy, _ = surrogate(cmdp, policy, 1.0, found).policy(temperature, nu)
    return _floored(np.exp(log_policy)), nu


def practical_iterate(
    cmdp: CMDP,
    policy: Any = None,
    *,
    temperature: float,
    nu_rate: float,
    nu_max: float = np.inf,
    nu_init: float = 0.0,
    updates: int = 1000,
) -> Iterates:
    """The learner's update rules, without sampling noise and networks, for a number of updates."""
    table = policy_table(cmdp, cmdp.uniform() if policy is None else policy)
    nu = np.full(cmdp.num_costs, float(nu_init))
    history, multipliers = [evaluate(cmdp, table)], []
    for _ in range(updates):
        table, nu = practical_update(
            cmdp, table, nu, temperature=temperature, nu_rate=nu_rate, nu_max=nu_max, evaluation=history[-1]
        )
        history.append(evaluate(cmdp, table))
        multipliers.append((temperature, nu))
    return _iterates(table, history, multipliers, False)


def _floored(policy: Float[np.ndarray, "S A"]) -> Float[np.ndarray, "S A"]:
    policy = np.maximum(policy, _FLOOR)
    return policy / policy.sum(1, keepdims=True)


def _iterates(
    policy: np.ndarray, history: list[PolicyValues], multipliers: list[tuple[float, np.ndarray]], converged: bool
) -> Iterates:
    m = history[0].cost_return.size
    return Iterates(
        policy=policy,
        ret=np.array([each.ret for each in history]),
        cost_return=np.array([each.cost_return for each in history]),
        temperature=np.array([temperature for temperature, _ in multipliers]),
        nu=np.array([nu for _, nu in multipliers]).reshape(-1, m),
        converged=converged,
    )
