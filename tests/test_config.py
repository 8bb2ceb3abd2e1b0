"""What the presets set, per task and algorithm."""

import dataclasses
import os

import gymnasium
import numpy as np
import pytest

import focops
from focops.algorithms import ALGORITHMS
from focops.config import TrainConfig, default_config, validate
from focops.envs import tasks
from focops.errors import UsageError

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
    assert algo.nu_rate == (1e-2 if "Circle" in task else 2e-3)
    assert (algo.nu_lead, algo.nu_noise, algo.nu_max) == (20.0, 0.1, 5.0)
    assert default_config(task).margin == "auto"
    assert (algo.project_std, algo.settle, algo.solve_dual, algo.std_end < 1) == (("Speed" in task),) * 4
    assert algo.value_rate == algo.cost_value_rate == (1e-3 if "Speed" in task else 3e-4)


def test_the_humanoid_has_the_published_rates_and_keeps_the_loop_of_the_speed_tasks():
    algo, speed = default_config("HumanoidSpeed").algo, default_config("AntSpeed").algo
    assert algo.policy_rate == algo.value_rate == algo.cost_value_rate == 3e-4
    assert (algo.stop_in_epoch, algo.project_std, algo.std_end) == (False, False, 1.0)
    assert (algo.settle, algo.solve_dual, algo.scale_free) == (speed.settle, speed.solve_dual, speed.scale_free)


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


class Huge(gymnasium.Env):
    """Observes a million numbers."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1_000_000,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    closed = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1_000_000, np.float32), {}

    def step(self, action):
        return np.zeros(1_000_000, np.float32), 0.0, False, False, {"cost": 0.0}

    def close(self):
        Huge.closed += 1


def test_observations_that_the_memory_does_not_hold_are_refused_and_the_environments_closed():
    with pytest.raises(UsageError, match=r"--batch-size is 65536; .* 1000000 numbers .* about 1\.57e\+03 GB of memory"):
        focops.train(Huge, cost_limit=1, steps=65536, batch_size=65536, num_envs=2, env_workers=0)
    assert Huge.closed == 2


def test_a_system_that_does_not_tell_its_memory_refuses_nothing_for_it(monkeypatch):
    config = dataclasses.replace(default_config(), num_envs=1, batch_size=2**40)
    with pytest.raises(UsageError, match="GB of memory"):
        validate(config)
    monkeypatch.delattr(os, "sysconf")
    validate(config)


def test_a_batch_that_a_message_proposes_is_accepted():
    config = dataclasses.replace(default_config("PointCircle"), batch_size=496, num_envs=8)  # minibatches of 250
    with pytest.raises(UsageError, match="Use a batch of 1000, or a minibatch of 248"):
        validate(config)
    validate(dataclasses.replace(config, batch_size=1000))
    validate(dataclasses.replace(config, algo=dataclasses.replace(config.algo, minibatch_size=248)))
