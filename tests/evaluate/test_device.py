"""Many policies as one program on MJX: the same episodes as on the CPU, but for the precision and the start noise."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from focops import envs
from focops.core import normalize, policy
from focops.core.networks import MLP
from focops.envs import tasks
from focops.errors import UsageError
from focops.evaluation import device, host
from focops.runs.policy import Policy

POINT, NETWORK, RUNS = "PointCircle-v0", MLP((8,)), 3


def policies(task: str, runs: int = RUNS) -> tuple[list[Policy], Any, Any]:
    """Different policies with different normalisers, one by one and stacked."""
    spec = envs.make(task, 1).spec
    each = []
    for i in range(runs):
        params = policy.init(jax.random.key(i), NETWORK, spec, -0.5 * i)
        scale = np.full(spec.obs_size, 1.0 + i, np.float32)
        each.append((params, normalize.RunningStats(0.1 * scale, scale, np.float32(9))))
    names = ("iteration", "obs_size", "action_size", "discrete", "action_low", "action_high")
    described = dict(zip(names, (0, spec.obs_size, spec.action_size, False, None, None), strict=True))
    stacked = jax.tree.map(lambda *x: np.stack(x), *each)
    return [Policy(NETWORK, params, stats, described) for params, stats in each], *stacked


def on_host(own: Policy, task: str, episodes: int, deterministic: bool = False) -> np.ndarray:
    env = envs.make(task, episodes, stagger=False)
    return host.run_episodes(own, env, 0, episodes, deterministic)[0]


def on_device(task: str, params: Any, stats: Any, episodes: int, seeds=(0,), deterministic: Any = False) -> np.ndarray:
    return device.device_episodes(task, None, NETWORK, params, stats, seeds, episodes, deterministic)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch):
    """A task that always starts from the same state and lasts 12 steps."""

    def make(task: tasks.Task) -> str:
        robot = dataclasses.replace(task.robot, noise=0.0)
        place = lambda xp, qpos, u: qpos
        short = dataclasses.replace(task, name=f"Still{task.name}", robot=robot, place=place, time_limit=12)
        monkeypatch.setitem(tasks.TASKS.loaded, short.name, short)
        return short.name

    return make


@pytest.mark.parametrize(("task", "impl"), [(POINT, None), ("HopperSpeed-v0", "warp")])
def test_from_one_state_the_mean_actions_lead_to_the_same_rewards_and_costs(still, task: str, impl: Any) -> None:
    name = still(tasks.TASKS[task])
    each, params, stats = policies(name)
    found = device.device_episodes(name, None, NETWORK, params, stats, (0,), 2, True, impl)
    for rows, own in zip(found, each, strict=True):
        np.testing.assert_allclose(rows, on_host(own, name, 2, True), rtol=1e-4, atol=1e-5)


def test_several_devices_run_the_same_episodes() -> None:
    """In a process of its own: the number of devices is fixed when JAX starts."""
    program = "from tests.evaluate import test_device as t; print(t.three().tolist())"
    flags = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | flags, capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout), three(), rtol=1e-5)


def three() -> np.ndarray:
    _, params, stats = policies(POINT)
    return on_device(POINT, params, stats, 6)


def test_sampled_episodes_have_the_means_of_the_cpu() -> None:
    each, params, stats = policies(POINT)
    found = on_device(POINT, params, stats, 400)
    for rows, own in zip(found, each, strict=True):
        expected = on_host(own, POINT, 400)
        error = np.sqrt((rows.var(0) + expected.var(0)) / 400)
        assert np.all(np.abs(rows.mean(0) - expected.mean(0)) <= 4 * error)
        np.testing.assert_allclose(rows.std(0), expected.std(0), rtol=0.3)


def test_an_episode_does_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    _, params, stats = policies(POINT)
    together = on_device(POINT, params, stats, 6)
    monkeypatch.setattr(device, "AT_ONCE", 4 * RUNS)  # two rounds
    np.testing.assert_array_equal(on_device(POINT, params, stats, 7)[:, :6], together)
    own_params, own_stats = jax.tree.map(lambda x: x[1:2], (params, stats))
    np.testing.assert_allclose(on_device(POINT, own_params, own_stats, 6)[0], together[1], rtol=1e-5)


def test_each_seed_has_its_own_episodes_and_those_of_the_first_come_first() -> None:
    _, params, stats = policies(POINT)
    both = on_device(POINT, params, stats, 8, seeds=(5, 2))
    assert len(np.unique(both[0, :, 1])) == 8
    np.testing.assert_array_equal(on_device(POINT, params, stats, 8, seeds=(2, 5)), np.roll(both, 4, 1))


def test_sampled_and_mean_actions_run_in_one_program() -> None:
    _, params, stats = policies(POINT)
    mixed = on_device(POINT, params, stats, 8, deterministic=[False, True, False])
    for i, flag in enumerate([False, True, False]):
        np.testing.assert_array_equal(mixed[i], on_device(POINT, params, stats, 8, deterministic=flag)[i])


def test_episodes_that_the_seeds_cannot_share_are_refused() -> None:
    _, params, stats = policies(POINT)
    with pytest.raises(UsageError, match="episodes is 7; it must be a multiple of the 2 seed"):
        on_device(POINT, params, stats, 7, seeds=(0, 1))
    with pytest.raises(UsageError, match="it must be cpu for CartPole-v1"):
        on_device("CartPole-v1", params, stats, 8)


def test_starts_are_those_of_no_training_run() -> None:
    seed, index = device._numbered((0, 2**32 - 1), 6, 8)
    assert set(seed[:, 1]) == {0x6576616C}  # training seeds of 64 bits have another high word unless chosen so
    np.testing.assert_array_equal(seed[:, 0], [0, 0, 0, 2**32 - 1, 2**32 - 1, 2**32 - 1, 0, 0])
    np.testing.assert_array_equal(index, [0, 1, 2, 0, 1, 2, 0, 1])


def test_an_episode_counts_until_it_ends_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step pays 1; the episode ends where the point is beyond a distance, long before the time limit."""
    task = tasks.TASKS[POINT]

    def outcome(xp: Any, p: Any, before: Any, after: Any, action: Any) -> tasks.Outcome:
        found = task.outcome(xp, p, before, after, action)
        one = xp.ones_like(found.reward)
        return tasks.Outcome(one, 2 * one[..., None], xp.abs(after[..., 0]) > 1.0)

    ending = dataclasses.replace(task, name="EndingCircle-v0", outcome=outcome)
    monkeypatch.setitem(tasks.TASKS.loaded, ending.name, ending)
    _, params, stats = policies(ending.name)
    rows = on_device(ending.name, params, stats, 16)
    length, discount = rows[..., 0], task.constraints[0].discount
    assert len(np.unique(length)) > 3
    assert length.min() < task.time_limit
    np.testing.assert_array_equal(rows[..., 1], length)
    np.testing.assert_array_equal(rows[..., 3], 2 * length)
    np.testing.assert_allclose(rows[..., 2], 2 * (1 - discount**length) / (1 - discount), rtol=1e-5)


def test_a_simulation_that_becomes_unstable_is_counted_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks.TASKS[POINT]
    burst = lambda *args: task.outcome(*args)._replace(reward=args[0].full_like(args[4][..., 0], np.nan))
    broken = dataclasses.replace(task, name="BrokenCircle-v0", outcome=burst)
    monkeypatch.setitem(tasks.TASKS.loaded, broken.name, broken)
    _, params, stats = policies(broken.name)
    found = device.run_episodes(broken.name, None, NETWORK, params, stats, (0,), 4, False)
    assert found.diverged.all()
    np.testing.assert_array_equal(found.rows[..., 0], 1)
