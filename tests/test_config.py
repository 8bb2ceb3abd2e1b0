"""What the presets set, per task and algorithm."""

import dataclasses

import pytest

from focops.algorithms import ALGORITHMS
from focops.config import TrainConfig, default_config
from focops.envs import tasks

OUTSIDE = "tests.probes:Coin-v0"


@pytest.mark.parametrize(
    ("task", "scale_free", "policy_rate", "minibatch"),
    [
        ("AntSpeed", 1.0, 6e-4, 128),
        ("AntCircle", 1.0, 3e-4, 250),
        ("PointCircle", 1.0, 3e-4, 250),
        (OUTSIDE, 0.5, 3e-4, 64),
    ],
)
def test_fast_is_bolder_on_tasks_that_we_know(task, scale_free, policy_rate, minibatch):
    algo = default_config(task).algo
    assert (algo.scale_free, algo.policy_rate, algo.minibatch_size) == (scale_free, policy_rate, minibatch)
    assert algo.value_units is algo.std_units is algo.lead_units is True
    assert algo.stop_in_epoch is (task != OUTSIDE)
    assert (algo.nu_rate, algo.nu_lead, algo.nu_noise, algo.nu_max) == (2e-3, 20.0, 0.1, 5.0)
    assert default_config(task).margin == "auto"
    assert (algo.project_std, algo.settle, algo.std_end < 1) == (("Speed" in task),) * 3
    assert algo.value_rate == algo.cost_value_rate == (1e-3 if "Speed" in task else 3e-4)


def test_the_humanoid_has_the_published_rates_and_keeps_the_loop_of_the_speed_tasks():
    algo, speed = default_config("HumanoidSpeed").algo, default_config("AntSpeed").algo
    assert algo.policy_rate == algo.value_rate == algo.cost_value_rate == 3e-4
    assert (algo.stop_in_epoch, algo.project_std, algo.std_end) == (False, False, 1.0)
    assert (algo.settle, algo.nu_rate, algo.scale_free) == (speed.settle, speed.nu_rate, speed.scale_free)


@pytest.mark.parametrize(("task", "minibatch"), [("AntSpeed", 64), ("AntCircle", 1000), (OUTSIDE, 64)])
def test_paper_is_as_published(task, minibatch):
    algo = default_config(task, preset="paper").algo
    assert (algo.scale_free, algo.nu_lead, algo.minibatch_size) == (0.0, 0.0, minibatch)
    assert algo.value_units is algo.std_units is algo.lead_units is False
    assert algo.value_rate == algo.cost_value_rate == algo.policy_rate == 3e-4


@pytest.mark.parametrize("task", ["AntSpeed", OUTSIDE])
def test_other_algorithms_get_what_is_not_focops_own(task):
    algo = default_config(task, "ppo_lagrangian").algo
    assert (algo.nu_lead, algo.minibatch_size, algo.value_units, algo.std_units) == (20.0, 64, True, True)


@pytest.mark.parametrize(("task", "envs"), [("AntSpeed", 64), ("AntCircle", 1000)])
def test_an_accelerator_steps_more_environments(task, envs):
    config = default_config(task, backend="mjx")
    assert config.num_envs == envs
    assert config.batch_size % envs == 0


def test_presets_name_fields_that_there_are():
    of_algorithms = {name: {f.name for f in dataclasses.fields(module.Config)} for name, module in ALGORITHMS.items()}
    known = {f.name for f in dataclasses.fields(TrainConfig)}
    known |= {f"{name}.{field}" for name, fields in of_algorithms.items() for field in fields}
    known |= {f"algo.{field}" for fields in of_algorithms.values() for field in fields}
    for family in (tasks.ANY, tasks.SPEED, tasks.CIRCLE):
        for column in (family.both, family.paper, family.fast, family.fast_mjx):
            assert set(column) <= known, family.name
