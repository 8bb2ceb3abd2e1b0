"""`Policy.predict` computes in NumPy what training computes in JAX."""

import jax
import numpy as np
import pytest
from scipy import stats as scipy_stats

from focops.deploy.plain import numpy_policy
from focops.errors import UsageError
from focops.runs.policy import Policy
from tests.deploy.policies import KINDS, make, observations, output


def in_numpy(policy: Policy):
    found = numpy_policy(policy.network, policy.params, policy.stats, policy.description)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_network_gives_what_jax_gives(kind):
    policy = make(kind)
    obs = observations(policy)
    expected = output(policy, obs)
    found = in_numpy(policy).output(obs)
    assert found.dtype == np.float32
    tolerance = 1e-6 * np.abs(expected).max()  # of the largest: entries near 0 are differences of larger terms
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(in_numpy(policy).output(obs[3]), expected[3], rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_action_is_that_of_training_within_its_bounds(kind):
    policy = make(kind)
    obs = observations(policy)
    acted = policy.act(jax.random.key(0), obs, True)
    if policy.description["action_low"]:
        low, high = (np.array(policy.description[f"action_{end}"], np.float32) for end in ("low", "high"))
        acted = np.clip(acted, low, high)
    found = policy.predict(obs, deterministic=True)
    assert (found.shape, found.dtype) == (acted.shape, acted.dtype)
    np.testing.assert_allclose(found, acted, rtol=1e-6, atol=2e-6)
    for one, many in zip([policy.predict(each, deterministic=True) for each in obs[:5]], found[:5], strict=True):
        np.testing.assert_allclose(one, many, rtol=1e-6, atol=2e-6)


def test_sampled_actions_are_normal_about_the_mean():
    policy = make("unbounded")
    obs = observations(policy, 1)[0]
    sampled = np.stack([policy.predict(obs) for _ in range(2000)])
    z = (sampled - output(policy, obs)) / np.exp(np.asarray(policy.params.log_std))
    for each in z.T:
        assert scipy_stats.kstest(each, "norm").pvalue > 0.001
    assert abs(np.corrcoef(z.T)[0, 1]) < 0.1


@pytest.mark.parametrize("kind", ["discrete", "several"])
def test_sampled_choices_have_the_probabilities_of_the_logits(kind):
    policy = make(kind)
    obs = observations(policy, 1)[0]
    sampled = policy.predict(np.tile(obs, (4000, 1))).reshape(4000, -1)
    nvec = policy.description["nvec"] or (4,)
    for choice, logits in zip(sampled.T, np.split(output(policy, obs), np.cumsum(nvec)[:-1]), strict=True):
        p = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(np.bincount(choice, minlength=len(p)) / 4000, p, atol=0.035)


def test_a_seed_repeats_the_samples():
    policy = make("continuous")
    obs = observations(policy, 3)
    policy.seed(5)
    first = [policy.predict(obs) for _ in range(2)]
    policy.seed(5)
    again = [policy.predict(obs) for _ in range(2)]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[0], first[1])


def test_very_large_observations_are_clipped_and_nan_is_refused():
    policy = make("continuous")
    largest = policy.predict(np.full(11, 1e30), deterministic=True)
    np.testing.assert_array_equal(policy.predict(np.full(11, 1e300), deterministic=True), largest)
    np.testing.assert_array_equal(policy.predict(np.full(11, np.inf), deterministic=True), largest)
    bad = np.zeros((2, 11))
    bad[1, 4] = np.nan
    with pytest.raises(UsageError, match=r"observation is NaN at index \(1, 4\)"):
        policy.predict(bad)


def test_a_network_of_the_users_own_acts_by_jax():
    class Own:
        def init(self, key, in_size, out_size):
            return jax.numpy.ones((in_size, out_size))

        def apply(self, params, x):
            return x @ params

    policy = make("unbounded", network=Own())
    assert numpy_policy(policy.network, policy.params, policy.stats, policy.description) is None
    obs = observations(policy, 4)
    np.testing.assert_allclose(policy.predict(obs, deterministic=True), output(policy, obs), rtol=1e-6)
