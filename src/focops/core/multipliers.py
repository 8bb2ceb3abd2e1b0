"""How multipliers move, for m constraints: the step of Eq. 14, what damps its swings, the solution of the dual for one
update, and a PID controller."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from focops.core.fields import NotNegative, PositiveOrInf, pytree_config

_CERTAIN = 4.0
"""Standard errors; a policy that moves makes the error look larger than it is."""
_MOST_AHEAD = 100.0
"""Updates: where cost hardly follows the policy, the swing is slower than most runs are long."""
_PULL = 3.0
"""What a violation of w asks of an update, as E[d·Â_C] of its direction d. An update moves J_C by 0.1 to 0.2 w·E[d·Â_C]
on our tasks, so up to half of a violation is taken back by one."""
_PATIENCE = 50.0
"""Updates after which a lasting violation asks for twice as much."""
_FREE = 30.0
"""As `_PULL`, beside it, for what J_C is below the limit by more than `_BELOW` standard errors. Advantages are mostly
noise, so that J_C rises far slower than they promise."""
_BELOW = 2.0
"""Standard errors of J_C."""
_NOISE = 0.1
"""E[d·Â_C] that a standard error of J_C asks for at most."""
_SHORTEST = 0.1
"""Length of the policy's steps, as a share of the first ones, that is reckoned with at least."""
_STEEPEST = 0.9
"""E[d·Â_C] that is asked for at most; what is left of d is for the reward. At 1, ν would be infinite."""
_LEAST_LEFT = 0.1
"""Standard deviation that Â − ν·Â_C is taken to have at least: where cost follows reward wholly nothing is left, and no
violation would change ν."""
_SWEEPS = 60
"""Of the solution. With E[d·Â_C] = 0.9 each takes a fifth of the error away."""


@pytree_config
class Config:
    """Of a multiplier that sums up violations. Defaults: Table 3 of the FOCOPS paper, FOCOPS's column."""

    nu_init: NotNegative = 0.0
    """ν_0: multiplier at the start, one for all constraints. ≥ 0."""
    nu_max: NotNegative = 2.0
    """ν_max: upper bound of the multipliers; `inf` for none. ≥ 0."""
    nu_rate: NotNegative = 0.01
    """α_ν: step size of the multipliers; not annealed. ≥ 0."""
    nu_noise: PositiveOrInf = math.inf
    """Where J_C's standard error is more than this share of the limit, α_ν is smaller in proportion: ν must not follow
    noise, nor run far ahead of a cost that falls slowly. `inf`: as published. > 0."""


@pytree_config
class LeadConfig(Config):
    """Of one whose swings can be damped."""

    nu_lead: NotNegative = 0.0
    """Updates by which the policy's multiplier runs ahead of ν, against swings; 0 as published. ≥ 0."""
    lead_units: bool = False
    """`nu_lead` counts in units of the time that the loop of ν and policy swings in, 1/√(α_ν·w) updates, w how much of
    J_C a step of the policy is worth: the longer the lead, the slower cost follows ν, so that all tasks are damped
    alike. If not, in updates."""


def step_size(
    cost_return: Float[Array, "m"], limit: Float[Array, "m"], error: Float[Array, "m"], config: Any
) -> Float[Array, "m"]:
    """α_ν / max(1, error/b / nu_noise), with `error` the standard error of J_C; with J_C in place of a limit of 0."""
    share = error / (jnp.abs(jnp.where(limit == 0, cost_return, limit)) + 1e-9)
    return config.nu_rate / jnp.maximum(share / config.nu_noise, 1.0)


def settled(
    rate: Float[Array, "m"],
    progress: Float[Array, ""] | float,
    violation: Float[Array, "m"],
    error: Float[Array, "m"],
    config: Any,
) -> Float[Array, "m"]:
    """α_ν; with `settle` annealed as the policy's own learning rate, where the violation J_C − b could be noise: α_ν in
    full from `_CERTAIN` standard errors of J_C on. What is certain has to be corrected before the policy stops."""
    certain = jnp.minimum(jnp.abs(violation) / (_CERTAIN * error + 1e-9), 1.0)
    return rate * jnp.where(config.settle, jnp.maximum(1.0 - progress, certain), 1.0)


def step(
    nu: Float[Array, "m"],
    cost_return: Float[Array, "m"],
    limit: Float[Array, "m"],
    rate: Float[Array, "*m"] | float,
    nu_max: Float[Array, ""] | float,
) -> Float[Array, "m"]:
    """ν ← clip(ν − α(b − J_C), 0, ν_max); ν_max = ∞ is allowed."""
    return jnp.clip(nu - rate * (limit - cost_return), 0.0, nu_max)


def lead(
    nu: Float[Array, "m"],
    cost_return: Float[Array, "m"],
    limit: Float[Array, "m"],
    worth: Float[Array, "m"],
    rate: Float[Array, "m"],
    config: LeadConfig,
) -> Float[Array, "m"]:
    """The multiplier that the policy's step uses: where ν would be after n more steps at today's violation,
    clip(ν + n·α(J_C − b), 0, ν_max), n = `updates_ahead`.

    ν is the sum of violations and the policy sums the effect of ν: two integrators in a loop, which oscillate. A term
    proportional to the violation itself damps them (Stooke 2020). n = 0: the paper's algorithm.
    """
    ahead = updates_ahead(worth, rate, config)
    return jnp.clip(nu - ahead * rate * (limit - cost_return), 0.0, config.nu_max)


def updates_ahead(worth: Float[Array, "m"], rate: Float[Array, "m"], config: LeadConfig) -> Float[Array, "m"]:
    """n of `lead`; `worth` is that of `CostEstimate`, and the same per unit of ν up to a constant.

    Where a unit of ν moves J_C by −g per update, violation and ν follow x″ + nαg·x′ + αg·x = 0. Its frequency is √(αg)
    and its damping n·√(αg)/2, so an equal damping needs n in proportion to 1/√(αg). An n beyond `_MOST_AHEAD` is cut.
    """
    swing = jnp.sqrt(jnp.maximum(rate * worth, 1e-12))
    return jnp.where(config.lead_units, jnp.minimum(config.nu_lead / swing, _MOST_AHEAD), config.nu_lead)


def wanted(
    lasting: Float[Array, "m"],
    violation: Float[Array, "m"],
    error: Float[Array, "m"],
    worth: Float[Array, "m"],
    progress: Float[Array, ""] | float,
    config: Any,
) -> tuple[Float[Array, "m"], Float[Array, "m"]]:
    """By how much an update is to lower the costs, as −E[d·Â_C], to take a violation J_C − b back; and the part of it
    that lasts: the sum of past violations, not below 0, for what the advantages promise and the policy does not do.

    J_C has the standard error `error`: what an update is asked for must not follow it far. Where J_C is certainly below
    the limit, nearly everything is allowed, so that a limit that is far away does not slow the policy down. With
    `settle` more is asked for as the policy's steps shrink, for each then does less, and J_C is known better.
    """
    left = jnp.where(config.settle, jnp.maximum(1.0 - progress, _SHORTEST), 1.0)
    pull = _PULL / (left * worth + 1e-9)
    now = violation * pull / jnp.maximum(pull * error / _NOISE, 1.0)
    now -= _FREE * jnp.maximum(-violation - _BELOW * error, 0.0) / (worth + 1e-9)
    lasting = jnp.clip(lasting + left * now / _PATIENCE, 0.0, _STEEPEST)
    return jnp.clip(now + lasting, -1.0, _STEEPEST), lasting


def solved(
    advantage: Float[Array, "N"],
    cost_advantage: Float[Array, "N m"],
    lower: Float[Array, "m"],
    nu_max: Float[Array, ""] | float,
) -> Float[Array, "m"]:
    """ν of the update that earns most while it lowers the costs by `lower`.

    To first order in 1/λ, π* of Theorem 1 moves J_C in proportion to E[d·Â_C], with d = (Â − ν·Â_C)/σ, σ the standard
    deviation of the numerator. Theorem 1's ν solves its dual: for each cost E[d·Â_C] = −`lower`, or ν = 0 and at most
    that. With one constraint and c = E[Â·Â_C] this is ν = c + √(1 − c²)·l/√(1 − l²), clipped to [0, ν_max]; several are
    solved one after the other, again and again (Gauss and Seidel).
    """
    size = advantage.shape[0]
    reward, costs = advantage @ cost_advantage / size, cost_advantage.T @ cost_advantage / size

    def sweep(_: Any, nu: Float[Array, "m"]) -> Float[Array, "m"]:
        variance = jnp.mean(advantage**2) - 2 * nu @ reward + nu @ costs @ nu
        left = jnp.sqrt(jnp.maximum(variance, _LEAST_LEFT**2))
        for i in range(nu.shape[0]):
            others = costs[i] @ nu - costs[i, i] * nu[i]
            alone = (reward[i] + lower[i] * left - others) / jnp.maximum(costs[i, i], 1e-6)
            nu = nu.at[i].set(jnp.clip(alone, 0.0, nu_max))
        return nu

    return jax.lax.fori_loop(0, _SWEEPS, sweep, jnp.zeros_like(lower))


class PID(NamedTuple):
    """State of the controller: I, and J_C of the previous update (∞ before the first)."""

    integral: Float[Array, "m"]
    previous: Float[Array, "m"]


def pid(
    memory: PID,
    cost_return: Float[Array, "m"],
    limit: Float[Array, "m"],
    gains: tuple[Float[Array, ""] | float, Float[Array, ""] | float, Float[Array, ""] | float],
    nu_max: Float[Array, ""] | float,
) -> tuple[PID, Float[Array, "m"]]:
    """Stooke 2020, Algorithm 2: with Δ = J_C − b,  I ← (I + Δ)₊,  ∂ = (J_C − J_C,before)₊,
    ν = clip(K_P Δ + K_I I + K_D ∂, 0, ν_max); `gains` are (K_P, K_I, K_D)."""
    k_p, k_i, k_d = gains
    delta = cost_return - limit
    integral = jnp.maximum(memory.integral + delta, 0.0)
    rise = jnp.maximum(cost_return - memory.previous, 0.0)
    nu = jnp.clip(k_p * delta + k_i * integral + k_d * rise, 0.0, nu_max)
    return PID(integral, cost_return), nu
