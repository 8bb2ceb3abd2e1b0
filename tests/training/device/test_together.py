"""Runs trained as one program are what each would be alone."""

import dataclasses
import logging

import jax
import numpy as np
import pytest

from focops.algorithms import ALGORITHMS
from focops.training.device import DeviceTrainer
from tests.resume.tiny import OURS, arrays_of, tiny
from tests.training.device.cases import BASE, VARIED, advanced, assert_close, assert_same, config


def test_runs_together_are_what_each_is_alone():
    together = DeviceTrainer(VARIED)
    said = [together.advance() for _ in range(6)]
    for i, (each, found) in enumerate(zip(VARIED, arrays_of(together), strict=True)):
        alone = DeviceTrainer([each])
        records = [alone.advance()[0] for _ in range(6)]
        assert_close(found, arrays_of(alone)[0])
        assert [list(record) for record in records] == [list(iteration[i]) for iteration in said]
        assert said[-1][i]["cost_limit/outside"] == (each.cost_limit or (5.0,))[0]


@pytest.mark.parametrize(
    "values",
    [
        [{"seed": 4}, {"seed": 3 + 2**40}],
        [{"temperature": 0.5}, {"policy_rate": 1e-3}],
        [{"cost_limit": (0.0,)}, {"cost_discount": (0.5,)}],
        [{"value_rate": 2e-3}, {"discount": 0.5}],
    ],
)
def test_each_runs_own_values_count(values):
    """Beside one run with the same seed and without them."""
    varied = [config(nu_init=0.5), *[config(**{"nu_init": 0.5} | each) for each in values]]
    base, *others = arrays_of(advanced(varied, 2))
    for value, other in zip(values, others, strict=True):
        differ = {name for name in base if not np.array_equal(base[name], other[name])}
        assert any(name.startswith("learner") for name in differ), value


def test_the_same_run_twice_in_a_trainer_is_the_same():
    one, _, other = arrays_of(advanced([VARIED[1], BASE, VARIED[1]], 3))
    assert_same(one, other)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_trains_runs_with_numbers_of_their_own(algorithm):
    """In the second run every number is another."""
    base = tiny(OURS, algorithm=algorithm, backend="mjx")
    numbers = {name: 0.9 * value for name, value in vars(base.algo).items() if isinstance(value, float)}
    other = dataclasses.replace(base, algo=dataclasses.replace(base.algo, **numbers), cost_limit=(1.0,), seed=4)
    trainer = DeviceTrainer([base, other])
    for _ in range(2):
        records = trainer.advance()
    for record in records:
        assert all(value is None or np.isfinite(value) for value in record.values())
        assert record["kl"] > 0
    first, second = ([r["entropy"], r["kl"], r["value_loss"], r["cost_limit/outside"]] for r in records)
    assert not np.any(np.isclose(first, second, rtol=1e-6))


def test_nothing_is_compiled_after_the_first_iteration(caplog):
    trainer = advanced([dataclasses.replace(each, checkpoint_every=1, exact=True) for each in VARIED], 1)
    trainer.cut_episodes()
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for _ in range(3):
            trainer.advance(ahead=True)
        trainer.advance()
        trainer.cut_episodes()
        trainer.states()
    assert compilations(caplog) == []


def test_another_trainer_of_the_same_sizes_compiles_nothing(caplog):
    advanced(VARIED, 1)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        advanced([dataclasses.replace(each, seed=each.seed + 10) for each in VARIED], 2)
    assert compilations(caplog) == []


def compilations(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith("Compiling")]
