"""Adam on shuffled minibatches for K epochs, ended early by the paper's stopping rule."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

S = TypeVar("S")

# Adam's direction; the learning rate is `descend`'s. Flattened: one fused loop on a CPU instead of one per array.
ADAM = optax.flatten(optax.scale_by_adam())


def clip_norm(gradient: Any, max_norm: Float[Array, ""] | float) -> Any:
    """Scale a gradient down to a global norm of at most `max_norm` (traced; ∞ leaves it as it is)."""
    norm = optax.tree.norm(gradient)
    return jax.tree.map(lambda g: g * jnp.where(norm > max_norm, max_norm / norm, 1.0), gradient)


def descend(params: Any, adam: Any, gradient: Any, rate: Float[Array, ""] | float) -> tuple[Any, Any]:
    """One Adam step: params ← params − rate · direction. Returns the parameters and Adam's state."""
    direction, adam = ADAM.update(gradient, adam, params)
    return jax.tree.map(lambda p, d: p - rate * d, params, direction), adam


def epochs(
    key: Key[Array, ""],
    state: S,
    batch: Any,
    step: Callable[[S, Any], S],
    divergence: Callable[[S], Float[Array, ""]],
    max_divergence: Float[Array, ""] | float,
    num_epochs: int,
    minibatch_size: int,
) -> tuple[S, Int[Array, ""], Float[Array, ""]]:
    """Run `step` on every minibatch of a fresh shuffle, for up to `num_epochs` epochs, and no further once an epoch
    has ended with `divergence(state) > max_divergence`.

    `batch` is a pytree of arrays [N, ...], N a multiple of `minibatch_size`. Returns the state, the number of epochs
    used and the last divergence.
    """
    size = jax.tree.leaves(batch)[0].shape[0]

    def epoch(carry):
        used, key, state, _ = carry
        key, shuffle_key = jax.random.split(key)
        order = jax.random.permutation(shuffle_key, size)
        minibatches = jax.tree.map(lambda x: x[order].reshape(-1, minibatch_size, *x.shape[1:]), batch)
        state, _ = jax.lax.scan(lambda s, minibatch: (step(s, minibatch), None), state, minibatches)
        return used + 1, key, state, divergence(state)

    def unfinished(carry):
        used, _, _, last = carry
        return (used < num_epochs) & (last <= max_divergence)

    start = (jnp.int32(0), key, state, jnp.float32(0.0))
    used, _, state, last = jax.lax.while_loop(unfinished, epoch, start)
    return state, used, last
