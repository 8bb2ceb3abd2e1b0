"""What an update aims at: the limits, less the margin."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from focops.algorithms import focops
from focops.core import cost_return
from focops.core.estimate import aim

LIMITS = (10.0, 100.0)


def aimed(variance: tuple[float, float] = (0.0, 0.0), longer: float = 1.0, **settings: float) -> np.ndarray:
    state = cost_return.init(2, 1, None)._replace(variance=jnp.array(variance), share=jnp.ones(2))
    return np.asarray(aim(state, longer, dataclasses.replace(focops.Config(), limits=LIMITS, **settings)))


def test_without_a_margin_it_is_the_limits():
    np.testing.assert_array_equal(aimed((4.0, 4.0)), LIMITS)


def test_a_margin_is_a_share_of_each_limit():
    np.testing.assert_allclose(aimed((4.0, 4.0), margin=0.02), [9.8, 98.0])


def test_standard_errors_are_those_of_each_cost_and_at_most_5_percent():
    np.testing.assert_allclose(aimed((0.01, 9.0), margin_errors=2.0), [9.8, 95.0])


def test_they_are_those_of_the_end_when_more_is_remembered():
    state = {"variance": jnp.array([0.0, 0.25]), "share": jnp.array([0.5, 0.5])}
    state = cost_return.init(2, 1, None)._replace(**state)
    config = dataclasses.replace(focops.Config(), limits=LIMITS, margin_errors=1.0)
    share = 1 - 0.5 ** (1 / 10)
    expected = 100.0 - 0.5 * np.sqrt(share / (2 - share))
    assert float(aim(state, 10.0, config)[1]) == pytest.approx(expected)
