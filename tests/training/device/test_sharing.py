"""Which runs share a program."""

from pathlib import Path

import pytest

from focops.config import default_config
from focops.errors import UsageError
from focops.training.device import DeviceTrainer, sharing_key
from tests.training.device.cases import BASE, config


@pytest.mark.parametrize(
    ("change", "alike"),
    [
        ({"seed": 9}, True),
        ({"temperature": 9.0}, True),
        ({"cost_limit": (9.0,)}, True),
        ({"cost_discount": (0.9,)}, True),
        ({"out": Path("elsewhere")}, True),
        ({"threads": 2}, True),
        ({"hidden": (9,)}, False),
        ({"epochs": 9}, False),
        ({"bootstrap_time_limit": False}, False),
        ({"num_envs": 8}, False),
        ({"batch_size": 128}, False),
        ({"steps": 9000}, False),
        ({"fresh_episodes": True}, False),
        ({"exact": True}, False),
        ({"checkpoint_every": 9}, False),
        ({"self_contacts": 9}, False),
        ({"init_from": Path("there")}, False),
    ],
)
def test_runs_that_differ_in_seed_and_traced_numbers_share_a_program(change, alike):
    other = config(**change)
    assert (sharing_key(other) == sharing_key(BASE)) == alike
    if not alike:
        with pytest.raises(UsageError, match="may differ in seed and in traced numbers only"):
            DeviceTrainer([BASE, other])


def test_runs_of_other_tasks_or_algorithms_share_no_program():
    assert sharing_key(default_config("AntSpeed")) != sharing_key(default_config("AntCircle"))
    assert sharing_key(default_config("AntSpeed", "ppo")) != sharing_key(default_config("AntSpeed", "ppo_lagrangian"))
