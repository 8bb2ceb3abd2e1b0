"""The estimator of J_C on processes whose J_C is known by backward recursion."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from focops.core import cost_return
from tests.core.processes import Chain, Sampler, walk

estimate = jax.jit(cost_return.estimate)
remember_starts = jax.jit(cost_return.remember_starts)


@functools.cache
def _batches(name: int, envs: int, steps: int, batches: int, seed: int):
    sampler = Sampler(_CHAINS[name], envs, seed)
    return [jax.tree.map(jnp.asarray, sampler.batch(steps)) for _ in range(batches)]


_CHAINS: dict[int, Chain] = {}


def sampled(chain: Chain, envs: int, steps: int, batches: int, seed: int):
    """Batches of a chain, sampled once for all tests that ask for the same."""
    _CHAINS[id(chain)] = chain
    return _batches(id(chain), envs, steps, batches, seed)


def run(chain: Chain, envs: int, steps: int, batches: int, discount=0.99, critic=None, seed=0, time_limit=True):
    """Estimates of J_C after each of many batches; `critic` is V_C per state."""
    state = cost_return.init(1, len(chain.cost), chain.time_limit if time_limit else None)
    values = np.zeros(len(chain.cost)) if critic is None else critic
    values = jnp.asarray(values, jnp.float32)
    estimates = []
    for batch in sampled(chain, envs, steps, batches, seed):
        state = remember_starts(state, batch)
        value = lambda obs: (obs @ values)[None]
        state, j_c = estimate(
            state, batch, value(batch.obs), value(batch.next_obs), value(state.starts), jnp.array([discount])
        )
        estimates.append(float(j_c[0]))
    return np.array(estimates)


LONG, SHORT = walk(), walk(end=0.05)
UNEVEN = dataclasses.replace(walk(), end=np.linspace(0, 0.03, 5))
CRITICS = {
    "none": lambda chain, d: np.zeros(5),
    "true": lambda chain, d: chain.value(d),
    "wrong": lambda chain, d: 0.7 * chain.value(d) - 20,
}


@pytest.mark.parametrize(("envs", "steps"), [(1, 2048), (16, 128), (64, 32)])
@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("chain", [LONG, SHORT, UNEVEN], ids=["time limit only", "early ends", "ends by state"])
def test_it_is_unbiased_once_every_age_has_been_seen_whatever_the_critic(chain, critic, envs, steps):
    after = 1000 * envs // 2048 + 20
    estimates = run(chain, envs, steps, after + 100, critic=CRITICS[critic](chain, 0.99))[after:]
    truth = chain.cost_return(0.99)
    # batches share some weight with the one before: count every third as independent
    error = 4 * estimates.std() / np.sqrt(len(estimates) / 3)
    assert abs(estimates.mean() - truth) < error
    assert error < 0.12 * truth


@pytest.mark.parametrize("chain", [LONG, SHORT, UNEVEN])
def test_without_a_discount_it_is_the_plain_sum_over_the_episode(chain):
    estimates = run(chain, 16, 128, 150, discount=1.0)[30:]
    error = 4 * estimates.std() / np.sqrt(len(estimates) / 3)
    truth = chain.cost_return(1.0)
    assert abs(estimates.mean() - truth) < error
    assert error < 0.15 * truth


def test_before_any_episode_has_ended_the_critic_stands_in_for_what_nobody_has_seen():
    truth = LONG.cost_return(0.99)
    with_critic = run(LONG, 64, 32, 1, critic=LONG.value(0.99))
    without = run(LONG, 64, 32, 1)
    np.testing.assert_allclose(with_critic, truth, rtol=0.1)
    assert without < 0.3 * truth


def test_it_stays_defined_and_right_when_no_episode_ends_in_a_batch():
    # 2 environments of 1000 steps and batches of 50: 19 of 20 batches see no start and no end
    estimates = run(LONG, 2, 50, 600, critic=LONG.value(0.99))
    assert np.isfinite(estimates).all()
    np.testing.assert_allclose(estimates[60:].mean(), LONG.cost_return(0.99), rtol=0.06)


def test_endless_episodes_leave_the_critic_at_the_start_states():
    endless = dataclasses.replace(LONG, time_limit=10**9)
    estimates = run(endless, 4, 512, 40, critic=LONG.value(0.99), time_limit=False)
    np.testing.assert_allclose(estimates[-10:], LONG.value(0.99)[0], rtol=0.1)


def test_a_change_of_policy_shows_at_once():
    sampler = Sampler(LONG, 16, 0)
    state = cost_return.init(1, 5, 1000)
    zero = jnp.zeros((1, 128, 16))
    doubled = LONG.cost * 2
    for i in range(44):
        if i == 40:
            sampler.chain = dataclasses.replace(LONG, cost=doubled)
        batch = jax.tree.map(jnp.asarray, sampler.batch(128))
        state = remember_starts(state, batch)
        state, j_c = estimate(state, batch, zero, zero, jnp.zeros((1, cost_return.NUM_STARTS)), jnp.array([0.99]))
    # four batches after the change, when an estimate from finished episodes would still tell of the old policy
    np.testing.assert_allclose(j_c, 2 * LONG.cost_return(0.99), rtol=0.2)


def test_several_constraints_keep_their_own_discounts():
    sampler = Sampler(SHORT, 16, 0)
    state = cost_return.init(2, 5, 1000)
    estimates = []
    for _ in range(80):
        batch = jax.tree.map(jnp.asarray, sampler.batch(128))
        batch = batch._replace(cost=jnp.concatenate([batch.cost, 3 * batch.cost], -1))
        state = remember_starts(state, batch)
        zero = jnp.zeros((2, 128, 16))
        state, j_c = estimate(state, batch, zero, zero, jnp.zeros((2, cost_return.NUM_STARTS)), jnp.array([0.9, 1.0]))
        estimates.append(j_c)
    expected = [SHORT.cost_return(0.9), 3 * SHORT.cost_return(1.0)]
    np.testing.assert_allclose(np.mean(estimates[20:], 0), expected, rtol=0.08)


def test_its_noise_is_below_that_of_cost_per_episode_started():
    sampler, flow = Sampler(UNEVEN, 16, 0), []
    for _ in range(120):
        batch = sampler.batch(128)
        flow.append((0.99**batch.age * batch.cost[..., 0]).sum() / max(1, (batch.age == 0).sum()))
    estimates = run(UNEVEN, 16, 128, 120)
    assert estimates[20:].std() < 0.85 * np.std(flow[20:])


def test_the_ring_holds_the_latest_start_states():
    state = cost_return.init(1, 1, None)
    sampler = Sampler(SHORT, 8, 0)
    expected = []
    for n in range(6):
        batch = sampler.batch(64)
        number = np.arange(batch.age.size, dtype=np.float32).reshape(batch.age.shape) + 1000 * n
        expected += list(number.reshape(-1)[(batch.age == 0).reshape(-1)])
        state = remember_starts(state, jax.tree.map(jnp.asarray, batch._replace(obs=number[..., None])))
    assert len(expected) > cost_return.NUM_STARTS
    assert state.num_starts == len(expected)
    assert set(np.asarray(state.starts[:, 0])) == set(expected[-cost_return.NUM_STARTS :])


def test_the_published_estimate_is_the_mean_over_whole_episodes_of_the_batch():
    sampler = Sampler(dataclasses.replace(UNEVEN, time_limit=40), 3, 0, stagger=False)
    for _ in range(3):
        batch = sampler.batch(100)
        sums = []
        for e in range(3):
            starts = np.flatnonzero(batch.age[:, e] == 0)
            for first in starts:
                ends = np.flatnonzero((batch.terminated | batch.truncated)[first:, e])
                if ends.size:
                    cost = batch.cost[first : first + ends[0] + 1, e, 0]
                    sums.append((0.9 ** np.arange(len(cost)) * cost).sum())
        j_c, number = cost_return.of_finished_episodes(
            jax.tree.map(jnp.asarray, batch), jnp.array([0.9]), jnp.float32(40)
        )
        assert number == len(sums)
        np.testing.assert_allclose(j_c, [np.mean(sums)], rtol=1e-4)


def test_the_published_estimate_says_when_there_is_none():
    batch = jax.tree.map(jnp.asarray, Sampler(LONG, 2, 0, stagger=False).batch(50))
    j_c, number = cost_return.of_finished_episodes(batch, jnp.array([0.99]), jnp.float32(1000))
    assert number == 0
    assert np.isfinite(j_c).all()


@pytest.mark.parametrize("chain", [LONG, SHORT, UNEVEN])
def test_the_discounted_length_is_that_of_the_chains_episodes(chain):
    state = cost_return.init(2, 5, chain.time_limit)
    discounts = jnp.array([0.99, 1.0])
    found = []
    for batch in sampled(chain, 16, 128, 120, 0):
        batch = batch._replace(cost=jnp.concatenate([batch.cost, batch.cost], -1))
        zero = jnp.zeros((2, 128, 16))
        state, _ = estimate(state, batch, zero, zero, jnp.zeros((2, cost_return.NUM_STARTS)), discounts)
        found.append(cost_return.discounted_length(state, discounts))
    ones = dataclasses.replace(chain, cost=np.ones(5))
    expected = [ones.cost_return(0.99), ones.cost_return(1.0)]
    np.testing.assert_allclose(np.mean(found[20:], 0), expected, rtol=0.08)
