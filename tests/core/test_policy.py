"""The policy's first noise."""

import jax
import numpy as np
import pytest

from focops.core import policy
from focops.core.networks import MLP
from focops.core.spec import Spec


def first_std(low, high, **settings):
    spec = Spec(3, 4, False, (), None, action_low=low, action_high=high)
    return np.exp(policy.init(jax.random.key(0), MLP((4,)), spec, -0.5, **settings).log_std)


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        (False, [1, 1, 1, 1]),
        (True, [0.4, 3, 1, 1]),  # of half the range; one that cannot move, one whose bounds bound nothing
    ],
)
def test_noise_starts_in_units_of_what_each_action_can_do(units, expected):
    found = first_std((-0.4, 1.0, 2.0, -3e38), (0.4, 7.0, 2.0, 3e38), std_units=units)
    np.testing.assert_allclose(found, np.exp(-0.5) * np.array(expected), rtol=1e-6)


def test_without_bounds_noise_starts_as_published():
    np.testing.assert_allclose(first_std(None, None, std_units=True), np.exp(-0.5), rtol=1e-6)
    np.testing.assert_array_equal(first_std((-2.0,) * 4, (2.0,) * 4), first_std(None, None))
