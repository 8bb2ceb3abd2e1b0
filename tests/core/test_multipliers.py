"""Lagrange multipliers: steps, bounds and the lead."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from focops.algorithms import focops
from focops.core import multipliers


@pytest.mark.parametrize(
    ("nu", "cost", "expected"),
    [
        (0.5, 110.0, 0.6),  # 0.5 − 0.01·(100 − 110)
        (0.5, 90.0, 0.4),
        (0.05, 10.0, 0.0),  # 0.05 − 0.9 is clipped at 0
        (1.99, 300.0, 2.0),  # 1.99 + 2 is clipped at nu_max
    ],
)
def test_a_multiplier_moves_by_the_violation_and_stays_in_its_interval(nu, cost, expected):
    result = multipliers.step(jnp.array([nu]), jnp.array([cost]), jnp.array([100.0]), 0.01, 2.0)
    np.testing.assert_allclose(result, [expected], rtol=1e-5)


def test_multipliers_of_several_constraints_do_not_mix():
    nu = multipliers.step(jnp.zeros(3), jnp.array([2.0, 1.0, 0.0]), jnp.ones(3), 0.5, jnp.inf)
    np.testing.assert_allclose(nu, [0.5, 0.0, 0.0])


@pytest.mark.parametrize("cost", [104.0, 97.0, 500.0, -500.0])
def test_the_lead_is_where_the_multiplier_would_be_after_so_many_more_steps(cost):
    ahead = nu = jnp.array([0.5])
    for _ in range(3):
        ahead = multipliers.step(ahead, jnp.array([cost]), jnp.array([100.0]), 0.01, 2.0)
    found = multipliers.lead(nu, jnp.array([cost]), jnp.array([100.0]), 0.01, 2.0, 3.0)
    np.testing.assert_allclose(found, ahead, rtol=1e-6)


def test_an_infinite_bound_leaves_the_multiplier_free():
    nu = multipliers.step(jnp.array([1e6]), jnp.array([1e6]), jnp.zeros(1), 1.0, jnp.inf)
    np.testing.assert_allclose(nu, [2e6])


def test_a_settling_multiplier_slows_down_with_the_policy():
    config = lambda settle: dataclasses.replace(focops.Config(), settle=settle)
    assert float(multipliers.settled(0.9, config(False))) == pytest.approx(0.01)
    assert float(multipliers.settled(0.9, config(True))) == pytest.approx(0.001)
