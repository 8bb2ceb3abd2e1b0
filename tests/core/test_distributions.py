"""Distributions against SciPy and brute-force sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from focops.core.distributions import Categorical, DiagonalGaussian


def gaussians(seed: int = 0, n: int = 5, a: int = 3):
    rng = np.random.default_rng(seed)
    make = lambda: DiagonalGaussian(
        jnp.asarray(rng.normal(size=(n, a)), jnp.float32), jnp.asarray(rng.normal(size=a) * 0.3, jnp.float32)
    )
    return make(), make()


def test_gaussian_log_prob_is_scipys():
    p, _ = gaussians()
    action = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    expected = [
        scipy.stats.multivariate_normal(m, np.diag(np.exp(2 * np.asarray(p.log_std)))).logpdf(x)
        for m, x in zip(np.asarray(p.mean), action, strict=True)
    ]
    np.testing.assert_allclose(p.log_prob(jnp.asarray(action)), expected, rtol=1e-5)


def test_gaussian_entropy_is_scipys():
    p, _ = gaussians()
    expected = scipy.stats.multivariate_normal(np.zeros(3), np.diag(np.exp(2 * np.asarray(p.log_std)))).entropy()
    np.testing.assert_allclose(p.entropy(), np.full(5, expected), rtol=1e-5)


def test_gaussian_kl_is_the_integral_summed_over_dimensions():
    p, q = gaussians()
    for state in range(5):
        expected = 0.0
        for i in range(3):
            a = scipy.stats.norm(float(p.mean[state, i]), float(np.exp(p.log_std[i])))
            b = scipy.stats.norm(float(q.mean[state, i]), float(np.exp(q.log_std[i])))
            expected += a.expect(lambda x, a=a, b=b: a.logpdf(x) - b.logpdf(x))
        np.testing.assert_allclose(p.kl(q)[state], expected, rtol=1e-4)


def test_gaussian_samples_have_the_mean_and_standard_deviation():
    p, _ = gaussians(n=1)
    noise = DiagonalGaussian.noise(jax.random.key(0), (200_000,), 3)
    samples = np.asarray(DiagonalGaussian(p.mean[0], p.log_std).sample(noise))
    np.testing.assert_allclose(samples.mean(0), p.mean[0], atol=0.02)
    np.testing.assert_allclose(samples.std(0), np.exp(p.log_std), rtol=0.01)


def test_a_log_std_per_row_means_the_same_as_one_for_all():
    p, q = gaussians()
    rows = DiagonalGaussian(q.mean, jnp.broadcast_to(q.log_std, q.mean.shape))
    np.testing.assert_allclose(p.kl(rows), p.kl(q), rtol=1e-6)
    np.testing.assert_allclose(rows.log_prob(p.mean), q.log_prob(p.mean), rtol=1e-6)
    np.testing.assert_allclose(rows.entropy(), q.entropy(), rtol=1e-6)


def categoricals(seed: int = 0):
    rng = np.random.default_rng(seed)
    return [Categorical(jnp.asarray(rng.normal(size=(5, 4)), jnp.float32)) for _ in range(2)]


def test_categorical_matches_explicit_sums():
    p, q = categoricals()
    table = lambda d: (
        np.exp(np.asarray(d.logits, np.float64)) / np.exp(np.asarray(d.logits, np.float64)).sum(1, keepdims=True)
    )
    a, b = table(p), table(q)
    action = np.array([0, 3, 1, 2, 2])
    np.testing.assert_allclose(p.log_prob(jnp.asarray(action)), np.log(a[np.arange(5), action]), rtol=1e-5)
    np.testing.assert_allclose(p.entropy(), scipy.stats.entropy(a, axis=1), rtol=1e-5)
    np.testing.assert_allclose(p.kl(q), scipy.stats.entropy(a, b, axis=1), rtol=1e-4)


def test_categorical_samples_follow_the_probabilities():
    p, _ = categoricals()
    one = Categorical(p.logits[0])
    samples = np.asarray(one.sample(Categorical.noise(jax.random.key(0), (100_000,), 4)))
    expected = np.exp(np.asarray(p.logits[0])) / np.exp(np.asarray(p.logits[0])).sum()
    np.testing.assert_allclose(np.bincount(samples, minlength=4) / 100_000, expected, atol=0.005)


@pytest.mark.parametrize("pair", [gaussians, categoricals])
def test_kl_of_a_distribution_with_itself_is_zero_and_else_positive(pair):
    p, q = pair()
    np.testing.assert_allclose(p.kl(p), np.zeros(5), atol=1e-6)
    assert (np.asarray(p.kl(q)) > 0).all()
