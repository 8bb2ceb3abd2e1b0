"""The multiplier step of Eq. 12, for m constraints."""

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
