"""The panel tells whether a cost is above its limit."""

import numpy as np
import pytest

from focops.core.spec import Constraint
from focops.video.episodes import Moment
from focops.video.overlay import _ABOVE, _WITHIN, Overlay

SIZE = (320, 240)


def pixels(picture: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((picture == colour).all(-1).sum())


def drawn(costs: list[float], limits: list[float]) -> np.ndarray:
    constraints = tuple(Constraint(f"c{i}", limit) for i, limit in enumerate(limits))
    sums = np.array([12.5, *costs, *costs])
    return Overlay("Task-v0", constraints, 2, SIZE)(Moment(0, 3, np.zeros((120, 160, 3), np.uint8), sums, False))


def test_a_cost_is_red_above_its_limit_and_green_at_it():
    at, above = drawn([5.0], [5.0]), drawn([5.001], [5.0])
    assert pixels(at, _WITHIN) > 100
    assert pixels(at, _ABOVE) == 0
    assert pixels(above, _ABOVE) > 100
    assert pixels(above, _WITHIN) == 0


def test_a_bar_is_as_long_as_its_cost():
    half, full = (pixels(drawn([cost], [8.0]), _WITHIN) for cost in (3.0, 6.0))
    assert full / half == pytest.approx(2, rel=0.1)


def test_each_cost_has_its_own_bar():
    both = drawn([1.0, 9.0], [4.0, 4.0])
    assert pixels(both, _WITHIN) > 50
    assert pixels(both, _ABOVE) > 50


def test_a_limit_of_zero_is_exceeded_by_any_cost():
    assert pixels(drawn([0.0], [0.0]), _ABOVE) == 0
    assert pixels(drawn([0.1], [0.0]), _ABOVE) > 100


@pytest.mark.parametrize("height", [240, 360, 480])
def test_the_panel_is_of_one_shade_to_its_corners(height):
    """Where two of its parts overlap it would be darker."""
    overlay = Overlay("", (), 1, (2 * height, height))
    picture = overlay(Moment(0, 0, np.full((height, 2 * height, 3), 255, np.uint8), np.array([0.0]), False))
    shades = picture[..., 2]  # the least of blue is the panel's
    assert shades.min() == shades[height // 28 + 20, height // 28 + 3]


def test_pictures_get_the_size_that_is_asked_for():
    assert drawn([], []).shape == (240, 320, 3)
