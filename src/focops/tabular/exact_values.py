"""Any policy of a finite CMDP evaluated exactly: V, Q, A, J, each cost's, and the discounted visitation d^π."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from jaxtyping import Float

from focops.tabular.cmdp import CMDP, policy_table

_DENSE = 1000
"""Up to this many states a dense factorisation is the fastest."""
_PRECISION = 1e-12


class PolicyValues(NamedTuple):
    """The exact values and costs of a policy."""

    ret: float
    """J(π)"""
    cost_return: Float[np.ndarray, "m"]
    """J_C(π)"""
    visitation: Float[np.ndarray, "S"]
    """d^π(s) = (1 − γ) Σ γ^t P(s_t = s)"""
    value: Float[np.ndarray, "S"]
    q: Float[np.ndarray, "S A"]
    advantage: Float[np.ndarray, "S A"]
    cost_value: Float[np.ndarray, "S m"]
    cost_q: Float[np.ndarray, "S A m"]
    cost_advantage: Float[np.ndarray, "S A m"]


def evaluate(cmdp: CMDP, policy: Any) -> PolicyValues:
    """Solve the policy's linear equations; no sampling, no truncation."""
    table = policy_table(cmdp, policy)
    chain = _state_chain(cmdp, table)
    value, q = _values(cmdp, table, chain, cmdp.reward, cmdp.discount)
    costs = [
        _values(cmdp, table, chain, cmdp.cost[:, :, i], gamma) for i, gamma in enumerate(cmdp.cost_discounts)
    ]  # fmt: skip
    cost_value = np.stack([v for v, _ in costs], -1) if costs else np.zeros((cmdp.num_states, 0))
    cost_q = np.stack([each for _, each in costs], -1) if costs else np.zeros((*cmdp.reward.shape, 0))
    return PolicyValues(
        ret=float(cmdp.start @ value),
        cost_return=cmdp.start @ cost_value,
        visitation=visitation(cmdp, table),
        value=value,
        q=q,
        advantage=q - value[:, None],
        cost_value=cost_value,
        cost_q=cost_q,
        cost_advantage=cost_q - cost_value[:, None],
    )


def visitation(cmdp: CMDP, policy: Any, discount: float | None = None) -> Float[np.ndarray, "S"]:
    """d^π: (I − γP_π)ᵀ d = (1 − γ) μ."""
    gamma = cmdp.discount if discount is None else discount
    d = solve_chain(sp.csr_array(_state_chain(cmdp, policy_table(cmdp, policy)).T), gamma, (1 - gamma) * cmdp.start)
    return np.maximum(d, 0.0)


def _state_chain(cmdp: CMDP, policy: Float[np.ndarray, "S A"]) -> sp.csr_array:
    """P_π(s'|s) = Σ_a π(a|s) P(s'|s,a)."""
    num_states, num_actions = policy.shape
    pairs = np.arange(num_states * num_actions)
    choose = sp.csr_array((policy.ravel(), (pairs // num_actions, pairs)), shape=(num_states, pairs.size))
    return sp.csr_array(choose @ cmdp.transition)


def _values(cmdp: CMDP, policy: np.ndarray, chain: sp.csr_array, signal: np.ndarray, discount: float) -> Any:
    """V = r_π + γ P_π V and Q = r + γ P V of a reward or a cost."""
    value = solve_chain(chain, discount, np.sum(policy * signal, 1))
    return value, signal + discount * (cmdp.transition @ value).reshape(signal.shape)


def solve_chain(chain: sp.csr_array, discount: float, right: Float[np.ndarray, "S"]) -> Float[np.ndarray, "S"]:
    """x = right + γ·chain x."""
    size = right.size
    if size <= _DENSE:
        return np.linalg.solve(np.eye(size) - discount * chain.toarray(), right)
    matrix = sp.csr_array(sp.eye_array(size) - discount * chain)
    x, _ = spla.bicgstab(matrix, right, rtol=_PRECISION, maxiter=2000)
    if np.abs(matrix @ x - right).max() > 10 * _PRECISION * max(np.abs(right).max(), _PRECISION):
        x = np.asarray(spla.spsolve(matrix.tocsc(), right))
    return x
