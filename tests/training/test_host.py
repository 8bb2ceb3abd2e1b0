"""The loop in memory: compiled once, the same at any number of threads, honest about episodes."""

import dataclasses
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from focops.core import normalize
from focops.core.estimate import estimate
from focops.training.host import Trainer
from focops.training.iteration import compiled, normalised
from focops.training.state import key_of
from tests.resume.tiny import tiny


def small(task: str = "HopperSpeed-v0", **changes) -> Trainer:
    return Trainer(tiny(task, iterations=50, **changes))


def compilations(caplog: pytest.LogCaptureFixture, action) -> list[str]:
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        caplog.clear()
        action()
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith("Compiling")]


def test_nothing_is_compiled_after_the_second_iteration(caplog):
    compiled.cache_clear()  # what other trainers of this process have compiled is shared
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


def test_every_bit_of_a_seed_counts():
    seeds = (0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**33)
    assert len({tuple(key_of(seed)) for seed in seeds}) == len(seeds)
    assert key_of(7).tolist() == jax.random.key_data(jax.random.key(7)).tolist()


def test_a_large_critic_leaves_the_estimate_of_the_cost_alone():
    """V of 100 beside a J_C of 5 is what valuing the future beyond a time limit makes of PointCircle's."""
    trainer = small("PointCircle-v0", num_envs=16, batch_size=16 * 130, fresh_episodes=True)
    batch, stats = trainer.collector.collect(trainer.state)
    learner = trainer.state.learner
    critics = learner.critics._replace(units=learner.critics.units + 1000.0)
    rollout = normalised(batch, stats)
    _, _, found = jax.jit(estimate)(critics, learner.policy, rollout, stats, 0.0, trainer.algo_config)
    paid = 0.995**batch.age * batch.cost[..., 0]
    np.testing.assert_allclose(found.cost_return[0], paid.sum() / 32, rtol=1e-3)  # 32 whole episodes


def test_a_successor_is_normalised_as_it_was_seen_and_by_the_last_statistics_where_nobody_saw_it():
    trainer = small("PointCircle-v0", batch_size=4 * 104)
    batch, stats = trainer.collector.collect(trainer.state)
    found = np.asarray(normalised(batch, stats).next_obs)
    goes_on = ~(batch.terminated | batch.truncated)
    goes_on[-1] = False
    assert 0 < goes_on[:-1].mean() < 1
    np.testing.assert_array_equal(found[:-1][goes_on[:-1]], batch.obs[1:][goes_on[:-1]])
    last = normalize.apply(stats, jnp.asarray(batch.raw_next_obs))
    np.testing.assert_allclose(found[~goes_on], last[~goes_on], rtol=1e-6)
