"""The margin that `--margin auto` leaves for the spread of episodes' costs."""

import dataclasses
from typing import Literal

import jax.numpy as jnp
import numpy as np
import pytest

from focops import confidence
from focops.algorithms import focops
from focops.config import default_config
from focops.core import cost_return
from focops.core.estimate import aim
from focops.envs import tasks
from focops.training import episodes, iteration
from focops.training.episodes import RECENT
from tests.algorithms.cases import spec


def margins(costs: np.ndarray, limits: tuple[float, ...], spread: float) -> np.ndarray:
    """As shares of the limits, after episodes with these discounted costs [K, m]."""
    m = len(limits)
    recent = np.zeros((RECENT, 2 + 2 * m), np.float32)
    recent[: len(costs), 2 : 2 + m] = costs
    counted = episodes.init(1, m)._replace(recent=jnp.asarray(recent), finished=jnp.int32(len(costs)))
    config = dataclasses.replace(focops.Config(), limits=limits, margin=0.01, margin_spread=spread)
    config = iteration.with_room_for_spread(config, counted)
    return 1 - np.asarray(aim(cost_return.init(m, 1, None), 1.0, config)) / limits


def test_each_limit_gets_the_margin_of_its_own_costs():
    costs = np.array([[10.0, 1.0], [12.0, 1.0], [14.0, 1.0]])
    expected = 0.01 + 0.5 * np.array([np.std([10, 12, 14]) / 20.0, 0.0])
    np.testing.assert_allclose(margins(costs, (20.0, 5.0), 0.5), expected, rtol=1e-4)


def test_it_is_at_most_15_percent_and_nothing_before_the_first_episode():
    costs = np.array([[0.0], [100.0]])
    np.testing.assert_allclose(margins(costs, (10.0,), 0.5), [0.16], rtol=1e-4)
    np.testing.assert_allclose(margins(costs[:0], (10.0,), 0.5), [0.01], rtol=1e-4)


def test_at_the_margin_of_auto_400_episodes_are_found_satisfied_in_19_of_20_evaluations():
    task = tasks.find("HopperSpeed")
    assert task is not None
    hopper = dataclasses.replace(spec(False), constraints=task.constraints)
    config = iteration.of_run(default_config("HopperSpeed"), hopper)
    random, limit, deviation = np.random.default_rng(0), 100.0, 20.0
    costs = random.normal(limit - config.margin_spread * deviation, deviation, (4000, 400))
    satisfied = np.mean(confidence.upper_bound(confidence.sample(costs), 0.95) <= limit)
    assert 0.935 < satisfied < 0.97


@pytest.mark.parametrize("margin", ["auto", 0.02])
def test_an_algorithm_without_constraints_aims_at_nothing_below_the_limit(margin: Literal["auto"] | float):
    of_ppo = iteration.of_run(dataclasses.replace(default_config("HopperSpeed", "ppo"), margin=margin), spec(False))
    assert (of_ppo.margin, of_ppo.margin_errors, of_ppo.margin_spread) == (0.0, 0.0, 0.0)
