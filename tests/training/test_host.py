"""The loop in memory: compiled once, the same at any number of threads, honest about episodes."""

import dataclasses
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from focops.core import normalize
from focops.core.estimate import estimate
from focops.core.spec import Constraint, Spec
from focops.core.types import Rollout
from focops.training.collect import EpisodeStatistics, normalised
from focops.training.host import Trainer, key_of
from tests.resume.tiny import tiny


def small(task: str = "HopperSpeed-v0", **changes) -> Trainer:
    return Trainer(tiny(task, iterations=50, **changes))


def compilations(caplog: pytest.LogCaptureFixture, action) -> list[str]:
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        caplog.clear()
        action()
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith("Compiling")]


def test_nothing_is_compiled_after_the_second_iteration(caplog):
    trainer = small()
    assert compilations(caplog, trainer.iterate)  # the log shows what is compiled
    trainer.iterate()
    assert compilations(caplog, lambda: [trainer.iterate() for _ in range(5)]) == []


def test_another_temperature_is_the_same_program(caplog):
    trainer = small()
    for _ in range(2):
        trainer.iterate()
    trainer.algo_config = dataclasses.replace(trainer.algo_config, temperature=0.7, policy_rate=1e-5)
    assert compilations(caplog, trainer.iterate) == []


@pytest.mark.parametrize("threads", [2, 4])
def test_the_number_of_threads_changes_nothing(threads):
    records = []
    for each in (1, threads):
        trainer = small(threads=each)
        records.append([trainer.iterate() for _ in range(3)])
    assert records[0] == records[1]


def test_a_run_knows_its_own_names_and_never_mixes_discounted_and_undiscounted():
    record = small().iterate()
    assert {"discounted_cost_mean/speed", "undiscounted_cost_mean/speed", "cost_return_estimate/speed"} <= set(record)
    assert not any(key.startswith("cost_mean") for key in record)


def test_the_book_of_episodes_sums_each_whole_episode_by_hand():
    spec = Spec(1, 1, False, (Constraint("c", 1.0, 0.5),), time_limit=3)
    book = EpisodeStatistics(spec, 2)
    ages = np.array([[0, 0], [1, 1], [2, 0], [0, 1]])
    rewards = np.array([[1.0, 10], [2, 20], [4, 40], [8, 80]])
    terminated = np.zeros((4, 2), bool)
    truncated = np.zeros((4, 2), bool)
    truncated[2, 0] = True  # by the environment: a whole episode
    truncated[1, 1] = True  # by us (staggered): not one
    cut = np.zeros((4, 2), bool)
    cut[1, 1] = True
    terminated[3, 1] = True
    numbers = dict(
        reward=rewards, cost=rewards[..., None], terminated=terminated, truncated=truncated, cut=cut, age=ages
    )
    rollout = Rollout(**(dict.fromkeys(Rollout._fields) | numbers))
    book.add(rollout)
    # (length, reward, discounted cost, undiscounted cost)
    expected = [(3, 7, 1 + 0.5 * 2 + 0.25 * 4, 7), (2, 120, 40 + 0.5 * 80, 120)]
    np.testing.assert_allclose(np.array(book.recent), expected)
    assert book.finished == 2
    # the first environment's running episode goes on in the next batch
    more = rollout._replace(
        age=ages + np.array([[1, 0]]), terminated=np.eye(4, 2, dtype=bool), truncated=truncated & False, cut=cut & False
    )
    book.add(more)
    np.testing.assert_allclose(book.recent[2], (2, 8 + 1, 8 + 0.5 * 1, 9))


def test_every_bit_of_a_seed_counts():
    seeds = (0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**33)
    assert len({tuple(np.asarray(jax.random.key_data(key_of(seed)))) for seed in seeds}) == len(seeds)
    assert key_of(7) == jax.random.key(7)


def test_a_large_critic_leaves_the_estimate_of_the_cost_alone():
    """V of 100 beside a J_C of 5 is what valuing the future beyond a time limit makes of PointCircle's."""
    trainer = small("PointCircle-v0", num_envs=16, batch_size=16 * 130, fresh_episodes=True)
    rollout = trainer.collector.collect(jax.random.key(0), trainer.state.policy, trainer.stats, 0.0)
    critics = trainer.state.critics._replace(units=trainer.state.critics.units + 1000.0)
    _, _, found = jax.jit(estimate)(critics, trainer.state.policy, normalised(rollout), trainer.algo_config)
    paid = 0.995**rollout.age * rollout.cost[..., 0]
    np.testing.assert_allclose(found.cost_return[0], paid.sum() / 32, rtol=1e-3)  # 32 whole episodes


def test_a_successor_is_normalised_as_it_was_seen_and_by_the_last_statistics_where_nobody_saw_it():
    trainer = small("PointCircle-v0", batch_size=4 * 104)
    rollout = trainer.collector.collect(jax.random.key(0), trainer.state.policy, trainer.stats, 0.0)
    found = np.asarray(normalised(rollout).next_obs)
    goes_on = ~(rollout.terminated | rollout.truncated)
    goes_on[-1] = False
    assert 0 < goes_on[:-1].mean() < 1
    np.testing.assert_array_equal(found[:-1][goes_on[:-1]], rollout.obs[1:][goes_on[:-1]])
    last = normalize.apply(rollout.stats, jnp.asarray(rollout.next_obs))
    np.testing.assert_allclose(found[~goes_on], last[~goes_on], rtol=1e-6)
