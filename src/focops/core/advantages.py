"""Generalised advantage estimation, one function for the reward and for every cost, and batch standardisation."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def gae(
    signal: Float[Array, "T E"],
    value: Float[Array, "T E"],
    next_value: Float[Array, "T E"],
    bootstrap: Bool[Array, "T E"],
    ended: Bool[Array, "T E"],
    discount: Float[Array, ""] | float,
    decay: Float[Array, ""] | float,
) -> Float[Array, "T E"]:
    """Â_t = Σ_l (γβ)^l δ_{t+l} within the episode, δ_t = x_t + γ V(s_{t+1})·bootstrap_t − V(s_t).

    `signal` x is the reward or a cost; `bootstrap` is false where the future is worth nothing (a true end); `ended`
    cuts the sum (any end). The batch's last step bootstraps and is cut by the batch itself.
    """
    delta = signal + discount * jnp.where(bootstrap, next_value, 0.0) - value
    carry_on = discount * decay * (1.0 - ended)

    def backwards(advantage, step):
        delta_t, carry_t = step
        advantage = delta_t + carry_t * advantage
        return advantage, advantage

    _, advantage = jax.lax.scan(backwards, jnp.zeros_like(delta[0]), (delta, carry_on), reverse=True)
    return advantage


def standardize(x: Float[Array, "*n"], epsilon: float = 1e-6) -> Float[Array, "*n"]:
    """(x − mean) / (std + ε) over the whole batch."""
    return (x - jnp.mean(x)) / (jnp.std(x) + epsilon)
