"""Second-order steps: Fisher-vector products, conjugate gradients, the constrained trust-region problem solved exactly,
and a backtracking line search. Parameters are flat vectors x of length P, relative to the old policy's θ_k.

CPO's problem (Achiam 2017), with H the Hessian of the mean KL, summed over action dimensions:

    max_x gᵀx   s.t.   c_i + b_iᵀx ≤ 0,   ½ xᵀHx ≤ δ

needs only products with H⁻¹: q = gᵀH⁻¹g, r = BᵀH⁻¹g, S = BᵀH⁻¹B. Its solution is x = α H⁻¹g − H⁻¹B w.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from focops.core.distributions import Distribution

_MAX_CONSTRAINTS = 10
_TINY = 1e-6
"""Relative size below which a float32 number is lost in rounding."""


def fisher_product(
    distribution: Callable[[Float[Array, "P"]], Distribution],
    theta: Float[Array, "P"],
    damping: Float[Array, ""] | float,
) -> Callable[[Float[Array, "P"]], Float[Array, "P"]]:
    """v ↦ (H + damping·I) v, H = E_s[Jᵀ M J]: J is the Jacobian of the distribution's parameters, M the Hessian of
    KL(new‖old) in them (Gauss-Newton; at new = old it is all of H). J and M are linearised once for all products."""
    old, push = jax.linearize(distribution, theta)
    pull = jax.linear_transpose(push, theta)
    _, curve = jax.linearize(jax.grad(lambda new: jnp.mean(new.kl(old))), old)
    return lambda v: pull(curve(push(v)))[0] + damping * v


def conjugate_gradient(
    product: Callable[[Float[Array, "P"]], Float[Array, "P"]], target: Float[Array, "P"], iterations: int
) -> Float[Array, "P"]:
    """x ≈ H⁻¹ target after `iterations` steps; a step after convergence changes nothing."""
    safe = lambda a, b: jnp.where(b > 0, a / jnp.where(b > 0, b, 1.0), 0.0)

    def step(_, carry):
        x, residual, direction, size = carry
        curved = product(direction)
        length = safe(size, direction @ curved)
        x, residual = x + length * direction, residual - length * curved
        new_size = residual @ residual
        return x, residual, residual + safe(new_size, size) * direction, new_size

    start = (jnp.zeros_like(target), target, target, target @ target)
    return jax.lax.fori_loop(0, iterations, step, start)[0]


class Step(NamedTuple):
    """x = reward·H⁻¹g − H⁻¹B·cost."""

    reward: Float[Array, ""]
    cost: Float[Array, "m"]
    feasible: Bool[Array, ""]
    """Whether the trust region holds a point that meets every linearised constraint."""


def solve(
    q: Float[Array, ""],
    r: Float[Array, "m"],
    s: Float[Array, "m m"],
    c: Float[Array, "m"],
    radius: Float[Array, ""] | float,
) -> Step:
    """CPO's step, exactly: the best point of the trust region that meets all linearised constraints or, when there is
    none, the recovery step: straight (in H's metric) towards where they are met, as far as the region goes.

    With the constraints of a set A met with equality, and the others ignored, the problem has a closed form,

        x = α (H⁻¹g − H⁻¹B_A S_A⁻¹ r_A) − H⁻¹B_A S_A⁻¹ c_A,    α² = (2δ − c_Aᵀ S_A⁻¹ c_A) / (q − r_Aᵀ S_A⁻¹ r_A),

    and the optimum is this point for its own active set: of the 2^m candidates the best that meets everything. With
    one constraint these are the closed form's cases of Achiam 2017.
    """
    unit = _unit(s)
    s, r, c = s / jnp.outer(unit, unit), r / unit, c / unit

    def candidate(active):
        inverse = _inverse_on(active, s)
        spent, explained = c @ inverse @ c, r @ inverse @ r
        left = 2 * radius - spent
        # where B_A leaves nothing of g, α would be 0/0
        alpha = jnp.sqrt(jnp.maximum(left, 0) / jnp.maximum(q - explained, 10 * _TINY * q + 1e-30))
        w = inverse @ (alpha * r + c)
        rest = (1 - active) * (c + alpha * r - s @ w)
        met = (left >= 0) & jnp.all(rest <= 10 * _TINY * (jnp.abs(c) + jnp.sqrt(2 * radius)))
        return alpha, w, met, alpha * q - r @ w

    alphas, ws, met, gains = jax.vmap(candidate)(_active_sets(c.shape[0]))
    best = jnp.argmax(jnp.where(met, gains, -jnp.inf))
    feasible = jnp.any(met)
    back = _nearest(s, c)
    back = back * jnp.sqrt(2 * radius / jnp.maximum(back @ s @ back, 1e-30))
    return Step(jnp.where(feasible, alphas[best], 0.0), jnp.where(feasible, ws[best], back) / unit, feasible)


def project(s: Float[Array, "m m"], c: Float[Array, "m"]) -> Float[Array, "m"]:
    """w ≥ 0 such that x − L⁻¹B w is the point nearest to x, in L's metric, with all constraints met: S = BᵀL⁻¹B and
    c their values at x. Where no point meets them all, the least-squares violation (in units of their slopes)."""
    unit = _unit(s)
    return _nearest(s / jnp.outer(unit, unit), c / unit) / unit


def _nearest(s: Float[Array, "m m"], c: Float[Array, "m"]) -> Float[Array, "m"]:
    """argmin_{w ≥ 0} ½ wᵀSw − cᵀw, by its active set."""

    def candidate(active):
        w = _inverse_on(active, s) @ c
        return w, jnp.all(w >= 0), c @ w

    ws, valid, gains = jax.vmap(candidate)(_active_sets(c.shape[0]))
    return ws[jnp.argmax(jnp.where(valid, gains, -jnp.inf))]


def _active_sets(m: int) -> Float[Array, "K m"]:
    if m > _MAX_CONSTRAINTS:
        raise ValueError(f"{m} constraints: the exact step tries all 2^m active sets, for m ≤ {_MAX_CONSTRAINTS}")
    return jnp.array(list(itertools.product([0.0, 1.0], repeat=m)), jnp.float32).reshape(2**m, m)


def _unit(s: Float[Array, "m m"]) -> Float[Array, "m"]:
    """The slope of each constraint per unit of length; 1 for a constraint whose gradient is 0."""
    slope = jnp.sqrt(jnp.diag(s))
    return jnp.where(slope > 0, slope, 1.0)


def _inverse_on(active: Float[Array, "m"], s: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """(S_AA)⁻¹ in the rows and columns of A, 0 elsewhere."""
    mask = jnp.outer(active, active)
    return mask * jnp.linalg.inv(mask * s + jnp.diag(1 - active + _TINY))


def backtrack(
    check: Callable[[Float[Array, "P"]], tuple[Bool[Array, ""], Float[Array, ""]]],
    step: Float[Array, "P"],
    shrink: Float[Array, ""] | float,
    iterations: int,
) -> tuple[Float[Array, "P"], Float[Array, ""], Float[Array, ""]]:
    """The longest of step·shrink^j, j < iterations, that is accepted, its share of the step, and its KL; zeros if none.

    `check` returns whether a displacement is accepted, and its KL.
    """

    def rejected(carry):
        tried, accepted, _ = carry
        return ~accepted & (tried < iterations)

    def shorter(carry):
        tried, _, _ = carry
        return tried + 1, *check(shrink**tried * step)

    start = (jnp.float32(0.0), jnp.array(False), jnp.float32(0.0))
    tried, accepted, kl = jax.lax.while_loop(rejected, shorter, start)
    share = jnp.where(accepted, shrink ** (tried - 1), 0.0)
    return share * step, share, jnp.where(accepted, kl, 0.0)
