"""Configs: what a field's type says of its values."""

from typing import Annotated, get_args

import pytest

from focops.algorithms import ALGORITHMS
from focops.api import train
from focops.config import default_config, validate
from focops.core.fields import NotNegative, Range, field_types, pytree_config, ranges
from focops.errors import UsageError

FILLED_FROM_CONSTRAINTS = {"limits", "cost_discounts"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_number_declares_the_values_that_it_may_have(name):
    """One that may have any says so: `Unbounded`."""
    config = ALGORITHMS[name].Config
    hints = field_types(config)
    numbers = {field for field, hint in hints.items() if {int, float, bool} & {hint, *get_args(hint)}}
    assert numbers - FILLED_FROM_CONSTRAINTS <= set(ranges(config))
    for field, allowed in ranges(config).items():
        assert allowed.holds(getattr(config(), field)), field


def test_a_subclass_changes_a_default_and_a_range():
    @pytree_config
    class Parent:
        rate: NotNegative = 1.0
        other: NotNegative = 1.0

    @pytree_config
    class Child(Parent):
        rate: Annotated[float, Range(lambda x: x == 7, "seven")] = 7.0

    assert {name: allowed.text for name, allowed in ranges(Child).items()} == {
        "rate": "seven",
        "other": "a number ≥ 0 (inf allowed)",
    }


@pytest.mark.parametrize("value", [0.5, 1.0, 0, None])
def test_a_switch_is_true_or_false(value):
    with pytest.raises(UsageError, match=f"--algo.value-units is {value}; it must be True or False"):
        train("PointCircle", value_units=value)


def test_a_value_that_is_no_number_is_outside_every_range():
    config = default_config()
    for name, allowed in ranges(type(config.algo)).items():
        if isinstance(getattr(config.algo, name), float):
            assert not allowed.holds(float("nan")), name
    validate(config)
