"""The estimator of J_C on processes whose J_C is known by backward recursion."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focops.core import cost_return, normalize
from focops.core.types import Rollout
from tests.core.processes import Chain, Kinds, Process, Sampler, kinds, walk

GAMMAS = (0.9, 0.99, 1.0)
CRITICS = ("right", "blind", "wrong")
GROUPS = 16
"""Independent runs that a bias and its standard error are taken over."""


def critics(process: Process, discount: float) -> dict[str, np.ndarray]:
    """V_C of each state, by several critics."""
    right = process.value(discount)
    return {"right": right, "blind": 0 * right, "wrong": 0.7 * right - 0.2 * process.cost_return(discount)}


def one(state: cost_return.State, batch: Rollout, table, discount, longer=1.0):
    """One estimate for every row of `table` (V_C of each state) and its discount."""
    state = cost_return.remember_starts(state, batch)
    at = lambda obs: table[:, obs[..., 0].astype(jnp.int32)]
    cost = jnp.broadcast_to(batch.cost, (*batch.cost.shape[:2], len(discount)))
    batch = batch._replace(cost=cost)
    return cost_return.estimate(state, batch, at(batch.obs), at(batch.next_obs), at(state.starts), discount, longer)


step = jax.jit(one)
# optimised, unlike the session's other programs: these run for seconds
OPTIMISED = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
grouped_step = jax.jit(jax.vmap(one, (0, 0, None, None, None)), compiler_options=OPTIMISED)
STATES = 2048
"""Columns of a table, whatever the process: those that see as many environments share a program."""


def estimates(
    process: Process,
    envs: int,
    steps: int,
    batches: int,
    after: int,
    time_limit: int | None,
    longer: float = 1.0,
    **kwargs,
):
    """J_C / truth − 1 of `batches` batches `after` so many, [batches, groups, gammas × critics]."""
    rows = [(gamma, table) for gamma in GAMMAS for table in critics(process, gamma).values()]
    discount = np.array([gamma for gamma, _ in rows], np.float32)
    table = np.stack([table for _, table in rows]).astype(np.float32)
    table = jnp.asarray(np.pad(table, ((0, 0), (0, max(0, STATES - table.shape[1])))))
    state = cost_return.init(len(rows), 1, time_limit)
    state = jax.tree.map(lambda x: jnp.broadcast_to(x, (GROUPS, *x.shape)), state)
    sampler = Sampler(process, envs, seed=envs + steps, groups=GROUPS, **kwargs)
    found = []
    for _ in range(after + batches):
        state, j_c = grouped_step(state, sampler.batch(steps), table, discount, longer)
        found.append(np.asarray(j_c))
    truth = np.repeat([process.cost_return(gamma) for gamma in GAMMAS], len(CRITICS))
    return (np.array(found[after:]) / truth - 1).reshape(batches, GROUPS, len(GAMMAS), len(CRITICS))


def bias(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and its standard error over the groups, [gammas, critics]."""
    means = found.mean(0)
    return means.mean(0), means.std(0, ddof=1) / np.sqrt(GROUPS)


def settled(envs: int, steps: int, time_limit: int) -> int:
    """Batches after which memories of what was before are gone: every age passed some 20 times, no longer staggered."""
    return max(2 * time_limit // steps, 40 * time_limit // (envs * steps)) + 5


LONG = walk()
SHORT = walk(end=0.05)
UNEVEN = dataclasses.replace(walk(), end=np.linspace(0, 0.03, 5))
PROCESSES: dict[str, Process] = {
    "fixed length": kinds((1.0, {1000: 1.0}, 1.0)),
    "short fixed length": kinds((1.0, {65: 1.0}, 1.0), time_limit=65),
    "one step": kinds((1.0, {1: 1.0}, 1.0)),
    "constant ends": Kinds(np.ones(1), np.ones((1, 1000)), np.r_[np.full(999, 0.01), 1.0][None], noise=1.0),
    "a goal at 95 to 101": kinds((1.0, {n: 1 / 7 for n in range(95, 102)}, 1.0)),
    "19 of 20 end at 26": kinds((0.95, {26: 1.0}, 1.0), (0.05, {1000: 1.0}, 1.0)),
    "half 20, half 1000": kinds((0.5, {n: 1 / 9 for n in range(16, 25)}, 1.0), (0.5, {1000: 1.0}, 1.0)),
    "9 of 10 end at 2": kinds((0.9, {2: 1.0}, 1.0), (0.1, {1000: 1.0}, 1.0)),
    "chain to its limit": LONG,
    "chain with early ends": SHORT,
    "chain, ends by state": UNEVEN,
}
MIXED = ["half 20, half 1000", "9 of 10 end at 2", "19 of 20 end at 26"]
CASES = [
    *[(name, 16, 128) for name in PROCESSES],
    *[(name, 64, 32) for name in ("fixed length", *MIXED)],
    *[(name, 1, 1024) for name in ("fixed length", "half 20, half 1000", "chain with early ends")],
    *[(name, 16, 512) for name in ("one step", "short fixed length", "a goal at 95 to 101")],
]


@pytest.mark.parametrize(("name", "envs", "steps"), CASES)
def test_its_bias_in_a_steady_state_is_at_most_2_percent_whatever_the_critic(name, envs, steps):
    process = PROCESSES[name]
    batches = 40 if steps < 500 else 20
    found = estimates(process, envs, steps, batches, settled(envs, steps, process.time_limit), process.time_limit)
    mean, error = bias(found)
    assert (error < 0.03).all()
    assert (np.abs(mean) <= np.maximum(0.02, 2 * error)).all(), f"{mean}\n± {error}"


TRUNCATED = kinds((1.0, {20: 1.0}, 1.0), time_limit=20)


@pytest.mark.parametrize("registered", [20, None, 1000])
def test_a_truncation_by_the_environment_ends_an_episode_whatever_limit_is_registered(registered):
    found = estimates(TRUNCATED, 16, 128, 10, 10, registered, own_truncation=True, stagger=False)
    assert np.abs(found).max() < 1e-4


def test_an_undiscounted_sum_over_episodes_longer_than_memory_loses_nothing():
    process = kinds((1.0, {5000: 1.0}, 1.0), time_limit=5000)
    found = estimates(process, 2, 250, 20, 40, 5000)  # an age is seen every tenth batch
    assert np.abs(found[:, :, GAMMAS.index(1.0)]).max() < 1e-3


@pytest.mark.parametrize("name", ["fixed length", "constant ends", "chain, ends by state"])
def test_one_or_two_environments_and_batches_shorter_than_episodes_leave_at_most_20_percent(name):
    """An age is then seen every 10th batch, and its last pass is an episode that lives longer than most."""
    process = PROCESSES[name]
    found = estimates(process, 2, 50, 100, 150, process.time_limit)
    mean, error = bias(found)
    assert (np.abs(mean) <= 0.2 + error).all(), f"{mean}\n± {error}"
    assert (np.abs(mean[:, CRITICS.index("blind")]) <= np.maximum(0.05, 2 * error[:, 1])).all(), f"{mean}\n± {error}"


@pytest.mark.parametrize(("steps", "bound"), [(64, 0.2), (512, 0.03)])
def test_costs_that_foretell_an_episodes_length_need_many_passes_per_batch(steps, bound):
    """Half of the episodes cost nothing and end after 20 steps: 4 starts per batch at 32 x 64, 32 at 32 x 512."""
    process = kinds((0.5, {n: 1 / 9 for n in range(16, 25)}, 0.0), (0.5, {1000: 1.0}, 1.0))
    found = estimates(process, 32, steps, 60 if steps == 64 else 20, settled(32, steps, 1000), 1000)
    mean, error = bias(found)
    assert (np.abs(mean) <= bound + error).all(), f"{mean}\n± {error}"


@settings(max_examples=6, derandomize=True, deadline=None)
@given(data=st.data())
def test_its_bias_is_small_on_any_process(data):
    """Ends, costs by age, time limits, splits and kinds drawn at random; 2%, or three standard errors."""
    limit = data.draw(st.sampled_from([5, 17, 40]))
    number = data.draw(st.integers(1, 3))
    share = np.array(data.draw(st.lists(st.floats(0.1, 1), min_size=number, max_size=number)))
    chances = st.sampled_from([0.0, 0.0, 0.0, 0.02, 0.3, 1.0])
    end = np.array(
        data.draw(st.lists(st.lists(chances, min_size=limit, max_size=limit), min_size=number, max_size=number))
    )
    end[:, -1] = 1.0
    cost = np.array(data.draw(st.lists(st.floats(0.1, 2), min_size=limit, max_size=limit)))
    process = Kinds(share / share.sum(), np.tile(cost, (number, 1)), end, noise=0.2)
    envs, steps = data.draw(st.sampled_from([(1, 256), (4, 64), (16, 16), (16, 128)]))
    own = data.draw(st.booleans())
    found = estimates(process, envs, steps, 30, settled(envs, steps, limit), limit, own_truncation=own)
    mean, error = bias(found)
    assert (np.abs(mean) <= np.maximum(0.02, 3 * error)).all(), f"{mean}\n± {error}"


def finished_episodes(batch: Rollout, gamma: float) -> np.ndarray:
    """Discounted costs of the episodes that run from start to end inside the batch [T, E], one by one."""
    ended, sums = batch.terminated | batch.truncated, []
    for e in range(batch.age.shape[1]):
        for first in np.flatnonzero(batch.age[:, e] == 0):
            last = np.flatnonzero(ended[first:, e])
            if last.size and not batch.cut[first + last[0], e]:
                cost = batch.cost[first : first + last[0] + 1, e, 0]
                sums.append((gamma ** np.arange(len(cost)) * cost).sum())
    return np.array(sums)


@pytest.mark.parametrize("name", ["constant ends", "chain with early ends", "19 of 20 end at 26"])
def test_where_episodes_fit_the_batch_its_noise_is_at_most_that_of_their_plain_mean(name):
    process = PROCESSES[name]
    if name == "19 of 20 end at 26":
        process = kinds((0.95, {26: 1.0}, 1.0), (0.05, {100: 1.0}, 1.0), time_limit=100)
    sampler = Sampler(process, 8, 0)
    state, discount = cost_return.init(len(GAMMAS), 1, process.time_limit), jnp.array(GAMMAS)
    blind, ours, plain = jnp.zeros((len(GAMMAS), len(process.value(0.9)))), [], []
    for batch in sampler.batches(60, 1024):
        state, j_c = step(state, batch, blind, discount)
        ours.append(np.asarray(j_c))
        plain.append([finished_episodes(batch, gamma).mean() for gamma in GAMMAS])
    # a standard deviation of 50 batches is known to within a tenth
    assert (np.std(ours[10:], 0) <= 1.1 * np.std(plain[10:], 0)).all()


def test_before_any_episode_has_ended_the_critic_stands_in_for_what_nobody_has_seen():
    truth, discount = LONG.cost_return(0.99), jnp.array([0.99])
    batch = Sampler(LONG, 64, 0).batch(32)
    state = cost_return.init(1, 1, 1000)
    _, with_critic = step(state, batch, jnp.asarray(LONG.value(0.99), jnp.float32)[None], discount)
    _, without = step(state, batch, jnp.zeros((1, 5)), discount)
    np.testing.assert_allclose(with_critic, truth, rtol=0.1)
    assert without < 0.3 * truth


def test_endless_episodes_leave_the_critic_at_the_start_states():
    endless = dataclasses.replace(LONG, time_limit=10**9)
    state, sampler = cost_return.init(1, 1, None), Sampler(endless, 4, 0, stagger=False)
    table = jnp.asarray(LONG.value(0.99), jnp.float32)[None]
    for batch in sampler.batches(40, 512):
        state, j_c = step(state, batch, table, jnp.array([0.99]))
    np.testing.assert_allclose(j_c, LONG.value(0.99)[0], rtol=0.1)


@pytest.mark.parametrize(("envs", "steps"), [(32, 64), (64, 32)])
def test_a_cost_that_rises_from_batch_to_batch_is_followed_when_episodes_are_staggered(envs, steps):
    process, ratios = PROCESSES["fixed length"], []
    state, sampler, scale = cost_return.init(1, 1, 1000), Sampler(process, envs, 0), 1.0
    for n in range(90):
        scale *= 1.02 if n >= 40 else 1.0
        state, j_c = step(state, sampler.batch(steps, scale), jnp.zeros((1, 1000)), jnp.array([0.99]))
        ratios.append(float(j_c[0]) / (scale * process.cost_return(0.99)))
    assert min(ratios[40:]) > 0.98


def test_ends_that_grow_rarer_from_batch_to_batch_are_followed_with_a_lag_of_64_survivors():
    """3% fewer ends per batch of 32 x 64, from episodes of 50 steps to some 300."""
    state = cost_return.init(2, 1, 1000)
    sampler, end, ratios = Sampler(PROCESSES["constant ends"], 32, 0), 0.02, []
    for n in range(80):
        end *= 0.97 if n >= 20 else 1.0
        process = Kinds(np.ones(1), np.ones((1, 1000)), np.r_[np.full(999, end), 1.0][None])
        sampler.process = process
        state, j_c = step(state, sampler.batch(64), jnp.zeros((2, 1000)), jnp.array([0.99, 1.0]))
        ratios.append(np.asarray(j_c) / [process.cost_return(0.99), process.cost_return(1.0)])
    lag = np.mean(ratios[40:], 0)
    assert (lag > [0.9, 0.7]).all(), lag


def test_several_constraints_keep_their_own_discounts():
    state, found = cost_return.init(2, 1, 1000), []
    for batch in Sampler(SHORT, 16, 0).batches(80, 128):
        state, j_c = step(state, batch, jnp.zeros((2, 5)), jnp.array([0.9, 1.0]))
        found.append(j_c)
    expected = [SHORT.cost_return(0.9), SHORT.cost_return(1.0)]
    np.testing.assert_allclose(np.mean(found[20:], 0), expected, rtol=0.05)


def test_the_ring_holds_the_latest_start_states():
    state = cost_return.init(1, 1, None)
    sampler = Sampler(SHORT, 8, 0)
    expected = []
    for n in range(12):
        batch = sampler.batch(128)
        number = np.arange(batch.age.size, dtype=np.float32).reshape(batch.age.shape) + 10_000 * n
        expected += list(number.reshape(-1)[(batch.age == 0).reshape(-1)])
        state = cost_return.remember_starts(state, batch._replace(raw_obs=number[..., None]))
    assert len(expected) > cost_return.NUM_STARTS
    assert state.num_starts == len(expected)
    assert set(np.asarray(state.starts[:, 0])) == set(expected[-cost_return.NUM_STARTS :])


def test_statistics_of_the_observations_that_still_move_leave_it_alone():
    """V is 20 per unit of a normalised observation whose mean is far from 0: by the first few, it is far off."""
    process = kinds((1.0, {40: 1.0}, 1.0), time_limit=40)
    sampler, stats = Sampler(process, 8, 0), normalize.init(1)
    state, found = cost_return.init(1, 1, 40), []
    value, estimate = lambda obs: 20 * obs[None, ..., 0], jax.jit(cost_return.estimate)
    for batch in sampler.batches(30, 32):
        raw, seen = 100 + 10 * np.sin(np.asarray(batch.raw_obs)), []
        for obs in raw:
            stats = normalize.observe(stats, jnp.asarray(obs))
            seen.append(normalize.apply(stats, jnp.asarray(obs)))
        obs = jnp.stack(seen)
        # as the trainer does: a successor is the observation of a step later where the episode goes on
        last = normalize.apply(stats, 100 + 10 * jnp.sin(batch.next_obs))
        ended = (batch.terminated | batch.truncated)[..., None]
        next_obs = jnp.where(ended, last, jnp.concatenate([obs[1:], last[-1:]]))
        batch = jax.tree.map(jnp.asarray, batch._replace(obs=obs, raw_obs=raw, next_obs=next_obs))
        state = cost_return.remember_starts(state, batch)
        starts = normalize.apply(stats, state.starts)
        values = value(obs), value(next_obs), value(starts)
        state, j_c = estimate(state, batch, *values, jnp.array([0.99]))
        found.append(float(j_c[0]))
    truth = process.cost_return(0.99)
    np.testing.assert_allclose(np.mean(found[2:10]), truth, rtol=0.03)
    np.testing.assert_allclose(np.mean(found[10:]), truth, rtol=0.01)


def test_the_published_estimate_is_the_mean_over_whole_episodes_of_the_batch():
    sampler = Sampler(dataclasses.replace(UNEVEN, time_limit=40), 3, 0)
    for batch in sampler.batches(3, 100):
        expected = finished_episodes(batch, 0.9)
        j_c, number = cost_return.of_finished_episodes(jax.tree.map(jnp.asarray, batch), jnp.array([0.9]))
        assert number == len(expected)
        np.testing.assert_allclose(j_c, [expected.mean()], rtol=1e-4)


def test_the_published_estimate_says_when_there_is_none():
    batch = jax.tree.map(jnp.asarray, Sampler(LONG, 2, 0, stagger=False).batch(50))
    j_c, number = cost_return.of_finished_episodes(batch, jnp.array([0.99]))
    assert number == 0
    assert np.isfinite(j_c).all()


@pytest.mark.parametrize("chain", [LONG, SHORT, UNEVEN], ids=["limit only", "early ends", "ends by state"])
def test_the_discounted_length_is_that_of_the_chains_episodes(chain: Chain):
    state, discounts, found = cost_return.init(2, 1, chain.time_limit), jnp.array([0.99, 1.0]), []
    for batch in Sampler(chain, 16, 0).batches(100, 128):
        state, _ = step(state, batch, jnp.zeros((2, 5)), discounts)
        found.append(cost_return.discounted_length(state, discounts))
    ones = dataclasses.replace(chain, cost=np.ones(5))
    expected = [ones.cost_return(0.99), ones.cost_return(1.0)]
    np.testing.assert_allclose(np.mean(found[20:], 0), expected, rtol=0.05)


def test_a_longer_memory_has_less_noise_and_no_bias():
    process = LONG
    noisy = estimates(process, 16, 128, 120, 60, process.time_limit)
    calm = estimates(process, 16, 128, 120, 60, process.time_limit, longer=20.0)
    mean, error = bias(calm)
    assert (np.abs(mean) <= np.maximum(0.02, 2 * error)).all(), f"{mean}\n± {error}"
    assert (calm.std(0).mean(0) < 0.5 * noisy.std(0).mean(0)).all()


def remembered(change: float, envs: int = 64, steps: int = 32, longer: float = 20.0):
    """J_C / truth and its reported standard error / truth, [groups, gammas], of a long memory, while the critic of
    each batch is wrong by another factor: e^±change."""
    process, random = LONG, np.random.default_rng(0)
    gammas = np.array([0.9, 0.99], np.float32)
    right = np.stack([process.value(gamma) for gamma in gammas])
    right = np.pad(right, ((0, 0), (0, STATES - right.shape[1]))).astype(np.float32)
    state = cost_return.init(len(gammas), 1, process.time_limit)
    state = jax.tree.map(lambda x: jnp.broadcast_to(x, (GROUPS, *x.shape)), state)
    sampler = Sampler(process, envs, seed=1, groups=GROUPS)
    found, errors = [], []
    for batch in range(250):
        table = jnp.asarray(right * np.exp(change * random.normal()))
        state, j_c = grouped_step(state, sampler.batch(steps), table, gammas, longer)
        if batch >= 100 and batch % 50 == 49:
            found.append(np.asarray(j_c))
            errors.append(np.asarray(jax.vmap(cost_return.standard_error)(state)))
    truth = np.array([process.cost_return(gamma) for gamma in gammas])
    return np.concatenate(found) / truth, np.concatenate(errors) / truth


def test_a_long_memory_is_not_disturbed_by_a_critic_that_changes():
    steady, _ = remembered(0.0)
    changing, _ = remembered(0.2)
    assert np.all(changing.std(0) < 1.5 * steady.std(0))
    assert np.all(abs(changing.mean(0) - 1) < 0.02)


@pytest.mark.parametrize("longer", [1.0, 5.0, 20.0])
def test_its_standard_error_is_about_what_it_is_wrong_by(longer):
    found, errors = remembered(0.05, longer=longer)
    wrong = np.sqrt(((found - 1) ** 2).mean(0))
    assert np.all(errors.mean(0) > 0.6 * wrong)
    assert np.all(errors.mean(0) < 1.7 * wrong)


def test_the_standard_error_of_a_longer_memory_is_known_beforehand():
    state = cost_return.init(1, 1, 1000)
    state = state._replace(variance=jnp.array([4.0]), share=jnp.array([0.5]))
    random, remember = np.random.default_rng(0), 1 - 0.5**0.1  # as 10 times as long as half a batch
    j, found = 0.0, []
    for x in random.normal(0, 2.0, 20_000):
        j += remember * (x - j)
        found.append(j)
    np.testing.assert_allclose(cost_return.standard_error(state, 10.0), [np.std(found)], rtol=0.05)


def test_rounding_of_the_share_leaves_the_standard_error_a_number():
    state = cost_return.init(1, 1, 1000)._replace(variance=jnp.ones(1), share=jnp.array([1 + 2e-7]))
    np.testing.assert_allclose(cost_return.standard_error(state, 31.0), [1.0], rtol=1e-5)
