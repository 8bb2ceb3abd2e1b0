"""GAE and standardisation against sums written out."""

import jax.numpy as jnp
import numpy as np

from focops.core.advantages import gae, standardize


def brute_force(x, v, v_next, bootstrap, ended, discount, decay):
    """Â_t summed forward, sample by sample, until the episode or the batch ends."""
    steps, envs = x.shape
    out = np.zeros((steps, envs))
    for e in range(envs):
        for t in range(steps):
            factor = 1.0
            for u in range(t, steps):
                delta = x[u, e] + discount * v_next[u, e] * bootstrap[u, e] - v[u, e]
                out[t, e] += factor * delta
                factor *= discount * decay
                if ended[u, e]:
                    break
    return out


def test_gae_is_the_sum_over_the_rest_of_the_episode():
    rng = np.random.default_rng(0)
    shape = (20, 3)
    x, v, v_next = rng.normal(size=(3, *shape)).astype(np.float32)
    ended = rng.random(shape) < 0.2
    bootstrap = ~(ended & (rng.random(shape) < 0.5))
    args = (x, v, v_next, bootstrap, ended)
    result = gae(*(jnp.asarray(a) for a in args), discount=0.97, decay=0.9)
    np.testing.assert_allclose(result, brute_force(*args, 0.97, 0.9), atol=1e-5)


def test_gae_with_decay_one_and_a_true_end_is_return_minus_value():
    x = np.array([[1.0], [2.0], [4.0]], np.float32)
    v = np.array([[10.0], [20.0], [30.0]], np.float32)
    end = np.array([[False], [False], [True]])
    result = gae(
        jnp.asarray(x), jnp.asarray(v), jnp.asarray(np.roll(v, -1, 0)), jnp.asarray(~end), jnp.asarray(end), 0.5, 1.0
    )
    # 1 + 0.5·2 + 0.25·4 = 3; 2 + 0.5·4 = 4; 4
    np.testing.assert_allclose(result[:, 0], [3 - 10, 4 - 20, 4 - 30], rtol=1e-6)


def test_a_truncation_bootstraps_but_cuts():
    one = jnp.ones((2, 1))
    cut = jnp.array([[True], [False]])
    result = gae(one, 0 * one, 8 * one, jnp.ones((2, 1), bool), cut, 0.5, 1.0)
    # 1 + 0.5·8, and nothing of the next episode
    np.testing.assert_allclose(result[:, 0], [5.0, 5.0])


def test_standardised_values_have_mean_0_and_standard_deviation_1():
    x = np.random.default_rng(0).normal(3.0, 7.0, 500).astype(np.float32)
    y = np.asarray(standardize(jnp.asarray(x)))
    np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-5)
    np.testing.assert_allclose(np.argsort(y), np.argsort(x))


def test_a_constant_standardises_to_zero_and_not_to_nan():
    np.testing.assert_array_equal(standardize(jnp.full(10, 3.0)), np.zeros(10))
