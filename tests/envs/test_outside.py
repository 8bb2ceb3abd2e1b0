"""A task from outside the package trains by its name on both backends, and nothing in the package is edited."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

import focops
from focops.config import default_config
from focops.core import registry
from focops.core.spec import Constraint
from focops.envs import registration, tasks
from focops.envs.mjx import MjxTask
from focops.envs.mujoco_batch import MujocoBatch
from focops.envs.tasks.circle import run_round
from focops.envs.tasks.robots import POINT
from focops.errors import UsageError
from tests.envs.states import set_state

GENTLE = tasks.Family(
    "gentle", both={"steps": 5000, "algo.discount": 0.9}, fast={"num_envs": 8, "focops.scale_free": 0.25}
)


def outcome(xp, p, before, after, action):
    """The circle's, and a second cost: how far it went."""
    found = run_round(POINT, 15.0, 2.5, xp, p, before, after, action)
    moved = xp.sqrt(((after - before) ** 2).sum(-1))
    return found._replace(cost=xp.concatenate((found.cost, moved[..., None]), axis=-1))


TASK = tasks.Task(
    "GentleCircle-v0", POINT, (Constraint("outside", 5.0, 0.995), Constraint("way", 9.0, 0.9)), 65, outcome, 0,
    family=GENTLE,
)  # fmt: skip


@pytest.fixture
def clean() -> Iterator[None]:
    yield
    tasks.TASKS.loaded.pop(TASK.name, None)


def test_it_trains_by_its_name_under_its_own_settings(tmp_path, clean):
    tasks.register(TASK)
    config = default_config("GentleCircle")
    assert (config.task, config.steps, config.num_envs, config.batch_size) == ("GentleCircle-v0", 5000, 8, 2048)
    assert (config.algo.discount, config.algo.scale_free, config.algo.value_units) == (0.9, 0.25, True)
    paper = default_config("GentleCircle", preset="paper")
    assert (paper.steps, paper.num_envs, paper.algo.scale_free) == (5000, 1, 0.0)
    small = dict(steps=128, batch_size=64, minibatch_size=32, hidden=(4,), final_episodes=0)
    run = focops.train("GentleCircle", out=tmp_path / "run", **small)
    assert run.summary["steps"] == 128
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2


def test_both_backends_judge_its_steps_alike(clean):
    """One step of two simulations, on MuJoCo and on MJX."""
    device = MjxTask(TASK, impl="jax", stagger=False)
    sims = device.begin(jnp.zeros((2, 2), jnp.uint32), jnp.arange(2, dtype=jnp.int32), 2)
    host = set_state(MujocoBatch(TASK, 2, stagger=False), sims.qpos, sims.qvel)
    assert device.spec == host.spec
    action = np.array([[0.5, 0.1], [1.0, -0.2]], np.float32)
    _, _, mine = device.step(device.load(sims), sims, jnp.asarray(action))
    theirs = host.step(action)
    assert mine.cost.shape == theirs.cost.shape == (2, 2)
    for name in ("reward", "cost", "terminated", "next_obs"):
        np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), atol=1e-5, err_msg=name)
    np.testing.assert_allclose(theirs.cost[:, 1], [0.5, 1.0], atol=1e-5)


def test_one_of_an_installed_package_is_found_by_its_name(clean, monkeypatch):
    points = EntryPoints([EntryPoint(TASK.name, "tests.envs.test_outside:TASK", "focops.tasks")])
    monkeypatch.setattr(registry, "entry_points", lambda group: points.select(group=group))
    found = tasks.find("GentleCircle")
    assert found is not None
    assert (found.name, found.time_limit) == (TASK.name, 65)
    assert TASK.name in list(tasks.TASKS)


def test_gymnasium_makes_it(clean):
    tasks.register(TASK)
    registration.register()
    env = gymnasium.make("focops/GentleCircle-v0")
    env.reset(seed=0)
    assert len(env.step(env.action_space.sample())[4]["cost"]) == 2
    env.close()
    del gymnasium.registry["focops/GentleCircle-v0"]


def test_what_is_no_task_is_refused():
    with pytest.raises(UsageError, match=r"must be a focops.envs.tasks.Task of that name"):
        tasks.TASKS.register("Mine-v0", TASK)
