"""Minibatches, epochs, shuffles and Adam."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from focops.core import sgd


def count_step(state, minibatch):
    seen, steps = state
    return seen.at[minibatch].add(1), steps + 1


def test_every_sample_is_seen_once_per_epoch_in_a_new_order():
    start = (jnp.zeros(12, jnp.int32), jnp.int32(0))
    orders = []

    def step(state, minibatch):
        jax.debug.callback(lambda m: orders.append(np.asarray(m)), minibatch, ordered=True)
        return count_step(state, minibatch)

    (seen, steps), used, _ = sgd.epochs(
        jax.random.key(0), start, jnp.arange(12), step, lambda _: jnp.float32(0), jnp.inf, 3, 4
    )
    jax.effects_barrier()
    np.testing.assert_array_equal(seen, np.full(12, 3))
    assert (int(steps), int(used)) == (9, 3)
    assert not np.array_equal(np.concatenate(orders[:3]), np.concatenate(orders[3:6]))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 2048])
def test_a_shuffle_is_a_permutation(size):
    order = np.asarray(sgd.shuffle(jax.random.key(0), size))
    np.testing.assert_array_equal(np.sort(order), np.arange(size))


def test_a_shuffle_sends_every_sample_everywhere_equally_often():
    orders = np.asarray(jax.vmap(lambda k: sgd.shuffle(k, 8))(jax.random.split(jax.random.key(0), 20_000)))
    counts = np.array([np.bincount(orders[:, place], minlength=8) for place in range(8)])
    # 2500 ± 47 each
    np.testing.assert_allclose(counts, 2500, atol=5 * 47)


def test_epochs_end_after_the_first_whole_one_that_exceeds_the_bound():
    divergence = lambda state: state[1] / 10.0
    (_, steps), used, last = sgd.epochs(
        jax.random.key(0), (jnp.zeros(12, jnp.int32), jnp.int32(0)), jnp.arange(12), count_step, divergence, 0.5, 10, 4
    )
    # 3 steps an epoch: 0.3, then 0.6 > 0.5
    assert (int(steps), int(used)) == (6, 2)
    np.testing.assert_allclose(last, 0.6, rtol=1e-6)


def test_descend_is_adam_as_published():
    rng = np.random.default_rng(0)
    params = {"a": jnp.zeros((2, 3)), "b": jnp.zeros(4)}
    adam, x = sgd.ADAM.init(params), np.zeros(10)
    m, v = np.zeros(10), np.zeros(10)
    for t in range(1, 6):
        g = rng.normal(size=10).astype(np.float32)
        gradient = {"a": jnp.asarray(g[:6].reshape(2, 3)), "b": jnp.asarray(g[6:])}
        params, adam = sgd.descend(params, adam, gradient, 0.01)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x -= 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(np.concatenate([params["a"].ravel(), params["b"]]), x, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("bound", "expected"), [(1.0, [0.6, 0.8]), (10.0, [3.0, 4.0]), (jnp.inf, [3.0, 4.0])])
def test_a_gradient_is_scaled_down_to_the_bound_only(bound, expected):
    clipped = sgd.clip_norm({"a": jnp.array([3.0]), "b": jnp.array([4.0])}, bound)
    np.testing.assert_allclose([clipped["a"][0], clipped["b"][0]], expected, rtol=1e-6)
