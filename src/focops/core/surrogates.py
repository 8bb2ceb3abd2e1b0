"""Surrogates of a new policy's return from an old policy's samples: importance ratios, and PPO's clip of them."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from focops.core import policy
from focops.core.base import Config, network
from focops.core.estimate import Batch
from focops.core.types import Params


def ratio(theta: Params, batch: Batch, config: Config) -> Float[Array, "N"]:
    """π_θ(a|s) / π_k(a|s)."""
    new = policy.distribution(network(config), theta, batch.obs)
    return jnp.exp(new.log_prob(batch.action) - batch.old_log_prob)


def clipped(ratio: Float[Array, "N"], advantage: Float[Array, "N"], clip: Float[Array, ""] | float) -> Float[Array, ""]:
    """E[min(ratio·A, clip(ratio, 1 − ε, 1 + ε)·A)], to be raised (Schulman 2017, Eq. 7)."""
    return jnp.mean(jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage))


def penalised(
    theta: Params, batch: Batch, nu: Float[Array, "m"], clip: Float[Array, ""] | float, config: Config
) -> Float[Array, ""]:
    """The clipped surrogate of (Â − ν·Â_C)/(1 + Σν): rescaled, so that large multipliers do not lengthen the step."""
    advantage = (batch.advantage - batch.cost_advantage @ nu) / (1 + jnp.sum(nu))
    return clipped(ratio(theta, batch, config), advantage, clip)
