"""Theorem 1, exactly: the optimal update policy of the trust-region problem, for m constraints.

| here                      | paper          | where                                                        |
|---------------------------|----------------|--------------------------------------------------------------|
| temperature               | λ              | Theorem 1, multiplier of the trust region                    |
| nu                        | ν              | Theorem 1, multipliers of the costs                          |
| room                      | b̃              | (1 − γ)(b − J_C(π_k))                                        |
| log_partition             | log Z_{λ,ν}(s) | Theorem 1                                                    |
| dual                      | L(π*, λ, ν)    | λδ + ν·b̃ + λ E_d[log Z]                                      |
| its gradient in ν         | Corollary 2    | b̃ − E[A_C] (the paper prints A)                              |
| its gradient in λ         | –              | δ − E_d[KL(π*‖π_k)]                                          |

The dual is convex. For each λ Newton's method finds ν; the KL then falls as λ grows, and λ is where it equals δ. If it
is below δ however small λ is, the trust region does not bind and λ* = 0: the smallest λ tried is then used.

Where no policy in the trust region keeps the (surrogate) limits, the update *recovers*: it minimises how much they are
exceeded in sum. That is the same dual with A = 0 and 0 ≤ ν ≤ 1.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq, lsq_linear
from scipy.special import logsumexp

from focops.errors import UsageError
from focops.tabular.cmdp import CMDP, policy_table
from focops.tabular.exact_values import PolicyValues, evaluate

_COLDEST = 1e-7
"""The smallest λ, relative to the largest advantage."""


class Residuals(NamedTuple):
    """How far the KKT conditions are from holding; 0 is exact."""

    stationarity: float
    """max over visited (s, a) of |A − ν·A_C − λ(log π*/π_k + log Z)| π*"""
    primal: float
    """Largest excess over a limit (of the surrogate, times 1 − γ) or over δ."""
    complementarity: float
    """Largest ν_i·(b̃_i − E[A_Ci]) or λ·(δ − KL)."""
    gap: float
    """Dual minus primal value."""


class Update(NamedTuple):
    """π* and what proves it optimal."""

    status: Literal["optimal", "recovery"]
    """recovery: the limits cannot be kept within the trust region; π* exceeds them as little as possible."""
    policy: Float[np.ndarray, "S A"]
    log_partition: Float[np.ndarray, "S"]
    temperature: float
    nu: Float[np.ndarray, "m"]
    kl: float
    """E_{s∼d}[KL(π*‖π_k)]"""
    primal: float
    """E_{s∼d, a∼π*}[A]; in recovery minus the sum of what exceeds the limits, times 1 − γ."""
    dual: float
    residuals: Residuals


class Surrogate(NamedTuple):
    """The trust-region problem at π_k: maximise E_d,π[A] subject to E_d,π[A_C] ≤ room, E_d[KL(π‖π_k)] ≤ δ."""

    weight: Float[np.ndarray, "S"]
    """d^{π_k}"""
    log_old: Float[np.ndarray, "S A"]
    advantage: Float[np.ndarray, "S A"]
    cost_advantage: Float[np.ndarray, "S A m"]
    room: Float[np.ndarray, "m"]
    trust_region: float

    def policy(self, temperature: float, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(log π*, log Z) of Theorem 1 for any λ and ν."""
        logits = self.log_old + (self.advantage - self.cost_advantage @ nu) / temperature
        log_partition = np.asarray(logsumexp(logits, axis=1))
        return logits - log_partition[:, None], log_partition

    def dual(self, temperature: float, nu: np.ndarray) -> float:
        _, log_partition = self.policy(temperature, nu)
        return temperature * (self.trust_region + float(self.weight @ log_partition)) + float(nu @ self.room)

    def mean(self, policy: np.ndarray, of: np.ndarray) -> Any:
        """E_{s∼d, a∼π}[of(s, a)]"""
        return np.einsum("s,sa,sa...->...", self.weight, policy, of)

    def kl(self, log_policy: np.ndarray) -> float:
        old = np.where(np.isfinite(self.log_old), self.log_old, 0.0)
        log_new = np.where(np.isfinite(log_policy), log_policy, 0.0)
        return max(float(self.mean(np.exp(log_policy), log_new - old)), 0.0)


def surrogate(cmdp: CMDP, policy: Any, trust_region: float, found: PolicyValues | None = None) -> Surrogate:
    """The problem of Section 3.1 at a policy."""
    gamma = cmdp.one_discount("Theorem 1")
    if not 0 < trust_region < np.inf:
        raise UsageError(f"the trust region is {trust_region}; it must be a positive number")
    table = policy_table(cmdp, policy)
    found = found or evaluate(cmdp, table)
    with np.errstate(divide="ignore"):
        log_old = np.log(table)
    room = (1 - gamma) * (cmdp.limits - found.cost_return)
    return Surrogate(found.visitation, log_old, found.advantage, found.cost_advantage, room, trust_region)


def focops_update(cmdp: CMDP, policy: Any, trust_region: float, evaluation: PolicyValues | None = None) -> Update:
    """π* of Theorem 1: minimise the dual over λ, ν ≥ 0. `evaluation` is the policy's, where it is known already."""
    problem = surrogate(cmdp, policy, trust_region, evaluation)
    if _reachable(problem):
        return _solve(problem, "optimal", np.inf)
    return _solve(problem._replace(advantage=np.zeros_like(problem.advantage)), "recovery", 1.0)


def _solve(problem: Surrogate, status: Literal["optimal", "recovery"], nu_max: float) -> Update:
    nu = np.zeros(problem.room.size)
    supported = np.isfinite(problem.log_old) & (problem.weight > 0)[:, None]
    size = lambda x: float(np.abs(x[supported]).max(initial=0.0))
    scale = max(size(problem.advantage), size(problem.cost_advantage)) or 1.0

    def excess(log_temperature: float) -> float:
        nonlocal nu
        temperature = float(np.exp(log_temperature))
        nu = _minimise_over_nu(problem, temperature, nu, nu_max)
        return problem.kl(problem.policy(temperature, nu)[0]) - problem.trust_region

    cold, hot = np.log(scale * _COLDEST), np.log(scale)
    while excess(hot) > 0:
        hot += np.log(10)
    low = hot
    while low > cold and excess(low) < 0:  # down in steps: ν of one λ starts the search at the next
        low = max(low - np.log(4), cold)
    root: Any = brentq(excess, low, hot, xtol=1e-13) if excess(low) > 0 else cold
    temperature = float(np.exp(root))
    nu = _minimise_over_nu(problem, temperature, nu, nu_max)
    return _report(problem, status, temperature, nu)


def _report(problem: Surrogate, status: Literal["optimal", "recovery"], temperature: float, nu: np.ndarray) -> Update:
    log_policy, log_partition = problem.policy(temperature, nu)
    policy = np.exp(log_policy)
    kl, cost = problem.kl(log_policy), problem.mean(policy, problem.cost_advantage)
    over = cost - problem.room
    ret = float(problem.mean(policy, problem.advantage))
    primal = ret - (float(np.maximum(over, 0).sum()) if status == "recovery" else 0.0)
    dual = problem.dual(temperature, nu)
    price = problem.advantage - problem.cost_advantage @ nu
    seen = policy > 0
    log_ratio = np.where(seen, log_policy - np.where(seen, problem.log_old, 0.0), 0.0)
    slope = (price - temperature * (log_ratio + log_partition[:, None])) * policy
    # recovery: exceeding a limit is what is minimised, and ν = 1 there
    cost_slack = np.minimum(-over, 0) * (1 - nu) + np.maximum(-over, 0) * nu if status == "recovery" else nu * over
    residuals = Residuals(
        stationarity=float(np.abs(slope[problem.weight > 0]).max(initial=0.0)),
        primal=max(float(np.max(over, initial=0.0)) if status == "optimal" else 0.0, kl - problem.trust_region, 0.0),
        complementarity=max(float(np.abs(cost_slack).max(initial=0.0)), abs(temperature * (kl - problem.trust_region))),
        gap=dual - primal,
    )
    return Update(status, policy, log_partition, temperature, nu, kl, primal, dual, residuals)


def _reachable(problem: Surrogate) -> bool:
    """Can the limits be kept within δ? The policy nearest to π_k that keeps them is ∝ π_k exp(−η·A_C); the dual of
    finding it, −η·b̃ − E_d[log E_{π_k} exp(−η·A_C)], never exceeds its KL: past δ is proof that there is none."""
    if np.all(problem.room >= 0):
        return True
    costs_only = problem._replace(advantage=np.zeros_like(problem.advantage), trust_region=0.0)
    nearest = lambda eta: -costs_only.dual(1.0, eta)
    eta = _minimise_over_nu(
        costs_only, 1.0, np.zeros(problem.room.size), np.inf, stop=lambda eta: nearest(eta) > problem.trust_region
    )
    return nearest(eta) < problem.trust_region


def _minimise_over_nu(
    problem: Surrogate,
    temperature: float,
    nu: Float[np.ndarray, "m"],
    nu_max: float,
    stop: Any = lambda nu: False,
) -> Float[np.ndarray, "m"]:
    """argmin of the dual over 0 ≤ ν ≤ ν_max at one λ, by Newton's method: each step solves the local quadratic problem
    within the bounds, so it always leads downhill, and is shortened until the dual falls as promised."""
    value, m = problem.dual(temperature, nu), nu.size
    for _ in range(100):
        policy = np.exp(problem.policy(temperature, nu)[0])
        mean = np.einsum("sa,sai->si", policy, problem.cost_advantage)
        gradient = problem.room - problem.weight @ mean
        held = ((nu <= 0) & (gradient >= 0)) | ((nu >= nu_max) & (gradient <= 0))
        if held.all() or stop(nu):
            break
        centred = (problem.cost_advantage - mean[:, None]).reshape(-1, m)
        hessian = (centred.T * (problem.weight[:, None] * policy).ravel()) @ centred / temperature
        hessian += (1e-12 * np.trace(hessian) + 1e-14 / temperature) * np.eye(m)
        # where the policy is nearly deterministic the dual is nearly linear, and Newton's step would have no end
        reach = 1 + nu.max()
        step = _bounded_newton(gradient, hessian, np.maximum(-nu, -reach), np.minimum(nu_max - nu, reach))
        promised = -float(gradient @ step)
        if promised <= 1e-13 * abs(value):  # less than the dual's rounding shows: the last step is Newton's
            return np.clip(nu + step, 0.0, nu_max)
        for length in 0.5 ** np.arange(40):
            trial = np.clip(nu + length * step, 0.0, nu_max)
            trial_value = problem.dual(temperature, trial)
            if trial_value <= value - 1e-4 * length * promised:
                break
        else:
            break
        nu, value = trial, trial_value
    return nu


def _bounded_newton(
    gradient: Float[np.ndarray, "m"],
    hessian: Float[np.ndarray, "m m"],
    low: Float[np.ndarray, "m"],
    high: Float[np.ndarray, "m"],
) -> Float[np.ndarray, "m"]:
    """argmin of gᵀx + ½xᵀHx over low ≤ x ≤ high, which is min ‖Lᵀx + L⁻¹g‖ with H = LLᵀ."""
    step = -np.linalg.solve(hessian, gradient)
    if np.all((low <= step) & (step <= high)):
        return step
    if step.size == 1:
        return np.clip(step, low, high)
    root = np.linalg.cholesky(hessian)
    wide = np.maximum(high, low + 1e-300)
    step = lsq_linear(root.T, -np.linalg.solve(root, gradient), (low, wide), method="bvls", tol=1e-14).x
    # of nearly dependent costs SciPy's answer may lead uphill; along a line the best length is known exactly
    found = [step, *(_along(line, gradient, hessian) for line in _downhill(gradient, hessian, low, high))]
    return min(found, key=lambda x: gradient @ x + x @ hessian @ x / 2)


def _downhill(
    gradient: Float[np.ndarray, "m"],
    hessian: Float[np.ndarray, "m m"],
    low: Float[np.ndarray, "m"],
    high: Float[np.ndarray, "m"],
) -> Iterator[Float[np.ndarray, "m"]]:
    """Directions within the bounds: Newton's and the gradient's, of the coordinates that are free to move."""
    free = ((low < 0) | (gradient < 0)) & ((high > 0) | (gradient > 0))
    newton = np.zeros_like(gradient)
    newton[free] = -np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
    for line in (newton, np.where(free, -gradient, 0.0)):
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(line < 0, low / line, np.where(line > 0, high / line, np.inf))
        yield min(1.0, float(np.min(room))) * line


def _along(
    line: Float[np.ndarray, "m"], gradient: Float[np.ndarray, "m"], hessian: Float[np.ndarray, "m m"]
) -> Float[np.ndarray, "m"]:
    """The least of gᵀx + ½xᵀHx between 0 and `line`."""
    curvature = line @ hessian @ line
    length = -gradient @ line / curvature if curvature > 0 else 1.0
    return np.clip(length, 0.0, 1.0) * line
