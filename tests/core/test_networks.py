"""The networks: what an MLP computes and how it starts."""

import jax
import jax.numpy as jnp
import numpy as np

from focops.core.networks import MLP


def test_an_mlp_is_tanh_layers_and_a_linear_one():
    net = MLP((4, 3))
    params = net.init(jax.random.key(0), 2, 5)
    x = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    h = x
    for layer in params[:-1]:
        h = np.tanh(h @ np.asarray(layer.weight) + np.asarray(layer.bias))
    expected = h @ np.asarray(params[-1].weight) + np.asarray(params[-1].bias)
    np.testing.assert_allclose(net.apply(params, jnp.asarray(x)), expected, atol=1e-6)


def test_an_mlp_starts_uniform_with_a_small_last_layer():
    params = MLP((64, 64)).init(jax.random.key(0), 16, 3)
    first, last = np.asarray(params[0].weight), np.asarray(params[-1].weight)
    assert 0.24 < np.abs(first).max() <= 0.25
    assert np.abs(first.std() - 0.25 / np.sqrt(3)) < 0.01
    assert 0.01 < np.abs(last).max() <= 0.1 / 8
    np.testing.assert_array_equal(params[-1].bias, np.zeros(3))
