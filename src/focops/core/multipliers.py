"""The multiplier step of Eq. 12, for m constraints, and what damps its swings."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def step(
    nu: Float[Array, "m"],
    cost_return: Float[Array, "m"],
    limit: Float[Array, "m"],
    rate: Float[Array, ""] | float,
    nu_max: Float[Array, ""] | float,
) -> Float[Array, "m"]:
    """ν ← clip(ν − α(b − J_C), 0, ν_max); ν_max = ∞ is allowed."""
    return jnp.clip(nu - rate * (limit - cost_return), 0.0, nu_max)


def lead(
    nu: Float[Array, "m"],
    cost_return: Float[Array, "m"],
    limit: Float[Array, "m"],
    rate: Float[Array, ""] | float,
    nu_max: Float[Array, ""] | float,
    updates: Float[Array, ""] | float,
) -> Float[Array, "m"]:
    """The multiplier that the policy's step uses: where ν would be after `updates` more steps at today's violation,
    clip(ν + updates·α(J_C − b), 0, ν_max).

    ν sums up violations and the policy sums up ν's pressure: two integrators in a loop swing for ever. A term in
    proportion to the violation itself is what damps them (Stooke 2020). 0 updates: the paper's algorithm.
    """
    return jnp.clip(nu - updates * rate * (limit - cost_return), 0.0, nu_max)
