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


def descend(params: Any, adam: Any, gradient: Any, rate: Float[Array, "*k"] | float) -> tuple[Any, Any]:
    """One Adam step: params ← params − rate · direction; a rate for each along the leaves' first axis, or one for all.
    Returns the parameters and Adam's state."""
    direction, adam = ADAM.update(gradient, adam, params)
    along = lambda d: jnp.reshape(rate, (*jnp.shape(rate), *[1] * (d.ndim - 1))) if jnp.ndim(rate) else rate
    return jax.tree.map(lambda p, d: p - along(d) * d, params, direction), adam


def shuffle(key: Key[Array, ""], size: int) -> Int[Array, "size"]:
    """A random order of `size` samples.

    One sort of single words, random above and the index below: ten times faster on a CPU than the two sorts of pairs
    of `jax.random.permutation`. Equal random parts (one pair in a batch of 2048) keep their order among themselves.
    """
    bits = max(1, (size - 1).bit_length())
    if bits > 16:
        return jax.random.permutation(key, size)
    low = jnp.uint32(2**bits - 1)
    words = (jax.random.bits(key, (size,), jnp.uint32) & ~low) | jnp.arange(size, dtype=jnp.uint32)
    return (jnp.sort(words) & low).astype(jnp.int32)


def epochs(
    key: Key[Array, ""],
    state: S,
    batch: Any,
    step: Callable[[S, Any], S],
    divergence: Callable[[S], Float[Array, ""]],
    max_divergence: Float[Array, ""] | float | None,
    num_epochs: int,
    minibatch_size: int,
) -> tuple[S, Int[Array, ""], Float[Array, ""]]:
    """Run `step` on every minibatch of a fresh shuffle, for up to `num_epochs` epochs, and no further once an epoch
    has ended with `divergence(state) > max_divergence` (None: all epochs; the divergence is computed once, at the end).

    `batch` is a pytree of arrays [N, ...], N a multiple of `minibatch_size`. Returns the state, the number of epochs
    used and the last divergence.
    """
    size = jax.tree.leaves(batch)[0].shape[0]

    def epoch(key, state):
        key, shuffle_key = jax.random.split(key)
        order = shuffle(shuffle_key, size).reshape(-1, minibatch_size)
        # gathered one by one: a shuffled copy of the whole batch would not stay in the cache
        take = lambda rows: jax.tree.map(lambda x: x[rows], batch)
        state, _ = jax.lax.scan(lambda s, rows: (step(s, take(rows)), None), state, order)
        return key, state

    if max_divergence is None:
        _, state = jax.lax.fori_loop(0, num_epochs, lambda _, carry: epoch(*carry), (key, state))
        return state, jnp.int32(num_epochs), divergence(state)

    def checked_epoch(carry):
        used, key, state, _ = carry
        key, state = epoch(key, state)
        return used + 1, key, state, divergence(state)

    def unfinished(carry):
        used, _, _, last = carry
        return (used < num_epochs) & (last <= max_divergence)

    start = (jnp.int32(0), key, state, jnp.float32(0.0))
    used, _, state, last = jax.lax.while_loop(unfinished, checked_epoch, start)
    return state, used, last
