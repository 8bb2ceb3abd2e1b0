"""Distributions against SciPy and brute-force sums."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from focops.core.distributions import Categorical, DiagonalGaussian, MultiCategorical


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


NVEC = (2, 4, 3)


def several(seed: int = 0):
    rng = np.random.default_rng(seed)
    return [MultiCategorical(jnp.asarray(rng.normal(size=(5, 9)), jnp.float32), NVEC) for _ in range(2)]


def joint(d: MultiCategorical, state: int) -> dict[tuple[int, ...], float]:
    """The probability of every combination of choices."""
    parts = [scipy.special.softmax(x) for x in np.split(np.asarray(d.logits[state], np.float64), np.cumsum(NVEC)[:-1])]
    actions = itertools.product(*map(range, NVEC))
    return {action: float(np.prod([p[a] for p, a in zip(parts, action, strict=True)])) for action in actions}


def test_several_choices_are_one_distribution_over_all_their_combinations():
    p, q = several()
    for state in range(5):
        a, b = joint(p, state), joint(q, state)
        actions = jnp.asarray(list(a))
        one = MultiCategorical(jnp.broadcast_to(p.logits[state], (len(a), 9)), NVEC)
        np.testing.assert_allclose(one.log_prob(actions), np.log(list(a.values())), rtol=1e-5)
        np.testing.assert_allclose(p.entropy()[state], scipy.stats.entropy(list(a.values())), rtol=1e-5)
        np.testing.assert_allclose(p.kl(q)[state], scipy.stats.entropy(list(a.values()), list(b.values())), rtol=1e-4)
        assert tuple(np.asarray(p.mode()[state])) == max(a, key=lambda action: a[action])


def test_several_choices_follow_their_probabilities_and_do_not_depend_on_each_other():
    p, n = several()[0], 100_000
    noise = MultiCategorical.noise(jax.random.key(0), (n,), 9)
    samples = np.asarray(MultiCategorical(p.logits[0], NVEC).sample(noise))
    expected = joint(p, 0)
    found = [np.mean((samples == action).all(1)) for action in expected]
    np.testing.assert_allclose(found, list(expected.values()), atol=0.005)


@pytest.mark.parametrize("what", ["log_prob", "entropy", "kl"])
def test_gradients_of_several_choices_are_finite_differences(what):
    p, q = several()
    action = jnp.asarray([[1, 3, 0]] * 5)
    of = {"log_prob": lambda d: d.log_prob(action), "entropy": lambda d: d.entropy(), "kl": lambda d: d.kl(q)}[what]
    total = lambda logits: jnp.sum(of(MultiCategorical(logits, NVEC)))
    gradient = jax.grad(total)(p.logits)
    for i, j in ((0, 0), (1, 5), (4, 8), (2, 7)):
        step = jnp.zeros((5, 9)).at[i, j].set(1e-2)
        slope = (total(p.logits + step) - total(p.logits - step)) / 2e-2
        np.testing.assert_allclose(gradient[i, j], slope, atol=1e-3)


@pytest.mark.parametrize("pair", [gaussians, categoricals, several])
def test_kl_of_a_distribution_with_itself_is_zero_and_else_positive(pair):
    p, q = pair()
    np.testing.assert_allclose(p.kl(p), np.zeros(5), atol=1e-6)
    assert (np.asarray(p.kl(q)) > 0).all()
