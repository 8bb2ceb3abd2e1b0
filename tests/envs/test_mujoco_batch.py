"""The CPU backend: episodes, staggering, threads, saving, and simulations that go wrong."""

import logging
import os

import mujoco
import numpy as np
import pytest

from focops.envs import make
from focops.envs.mujoco_batch import MujocoBatch
from focops.envs.tasks import find
from focops.errors import UsageError


def actions(env, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(steps, env.num_envs, env.spec.action_size)).astype(np.float32)


def flat(steps) -> np.ndarray:
    """Every number that a list of steps holds."""
    return np.concatenate([np.ravel(part) for step in steps for part in step]).astype(np.float64)


def test_first_episodes_are_cut_so_that_ends_are_spread_over_the_time_limit():
    env = MujocoBatch(find("PointCircle"), 5)  # 65 steps, so ends 13 apart
    env.reset(0)
    ends = [np.flatnonzero(env.step(a).truncated).tolist() for a in actions(env, 130)]
    assert [(t + 1, who) for t, who in enumerate(ends) if who] == [
        *((13 * k, [k - 1]) for k in range(1, 6)),
        *((65 + 13 * k, [k - 1]) for k in range(1, 6)),
    ]


def test_without_staggering_all_episodes_end_at_the_time_limit():
    env = MujocoBatch(find("PointCircle"), 3, stagger=False)
    cut = [env.step(a).truncated.sum() for a in actions(env, 130)]
    assert [t + 1 for t, n in enumerate(cut) if n == 3] == [65, 130]
    assert sum(cut) == 6


def test_restart_begins_episodes_everywhere_staggered_as_the_first():
    """--exact restarts at every checkpoint; in step for ever, episodes would show J_C one age at a time."""
    env = MujocoBatch(find("PointCircle"), 4)
    for a in actions(env, 10):
        env.step(a)
    before = env.obs
    env.restart()
    assert not np.array_equal(before, env.obs)
    assert env.age.tolist() == [0] * 4
    steps = [env.step(a) for a in actions(env, 65)]
    assert [int(np.argmax([step.truncated[i] for step in steps])) + 1 for i in range(4)] == [17, 33, 49, 65]
    assert [bool(any(step.cut[i] for step in steps)) for i in range(4)] == [True, True, True, False]


def test_age_counts_the_steps_of_the_episode_that_obs_belongs_to():
    env = MujocoBatch(find("PointCircle"), 1, stagger=False)
    ages = [int(env.age[0])]
    for a in actions(env, 66):
        env.step(a)
        ages.append(int(env.age[0]))
    assert ages == [*range(65), 0, 1]


def test_next_obs_is_the_true_successor_where_the_episode_ends_and_obs_the_new_start():
    env, endless = (MujocoBatch(find("PointCircle"), 2, stagger=False) for _ in range(2))
    endless._horizon[:] = 10**6
    for a in actions(env, 65):
        step, onward = env.step(a), endless.step(a)
    assert step.truncated.all()
    assert not onward.truncated.any()
    np.testing.assert_array_equal(step.next_obs, onward.next_obs)
    assert np.abs(env.obs[:, :2]).max() < 0.011  # back at the centre
    assert not np.array_equal(env.obs, step.next_obs)


def test_what_step_returned_is_not_overwritten_by_later_steps():
    env = MujocoBatch(find("HopperSpeed"), 3)
    obs, age, step = env.obs, env.age, env.step(actions(env, 1)[0])
    copies = [np.copy(x) for x in (obs, age, *step)]
    for a in actions(env, 60, seed=1):
        env.step(a)
    for now, then in zip((obs, age, *step), copies, strict=True):
        np.testing.assert_array_equal(now, then)


def test_the_same_seed_gives_the_same_episodes_and_another_seed_others():
    env = MujocoBatch(find("HopperSpeed"), 4)
    runs = []
    for seed in (1, 1, 2):
        env.reset(seed)
        runs.append(flat(env.step(a) for a in actions(env, 80)))
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_starts_depend_on_seed_environment_and_episode_alone():
    """Environment 1 of 2 and of 3 start alike, and its next episode too, whatever happened in between."""
    two, three = MujocoBatch(find("HopperSpeed"), 2), MujocoBatch(find("HopperSpeed"), 3)
    starts = []
    for env, seed in ((two, 0), (three, 1)):
        env.reset(7)
        starts.append([env.obs[1]])
        for a in actions(env, 3, seed):
            env.step(a)
        env.restart()
        starts[-1].append(env.obs[1])
    np.testing.assert_array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0][0], starts[0][1])


@pytest.mark.parametrize("name", ["HopperSpeed", "HumanoidSpeed"])
def test_results_do_not_depend_on_the_number_of_threads(name):
    results = []
    for threads in (1, 2, 4):
        env = MujocoBatch(find(name), 6, threads=threads)
        env.reset(5)
        results.append(flat(env.step(a) for a in actions(env, 50)))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("name", ["HopperSpeed", "HumanoidCircle", "PointCircle", "AntSpeed"])
def test_a_restored_environment_goes_on_to_the_same_bits(name):
    env = MujocoBatch(find(name), 4)
    env.reset(11)
    for a in actions(env, 70):
        env.step(a)
    saved = env.state()
    more = actions(env, 70, seed=1)
    want = flat(env.step(a) for a in more)
    other = MujocoBatch(find(name), 4)
    other.reset(99)
    other.restore(saved)
    np.testing.assert_array_equal(other.obs, saved["obs"])
    np.testing.assert_array_equal(flat(other.step(a) for a in more), want)
    for key, value in env.state().items():
        np.testing.assert_array_equal(other.state()[key], value, err_msg=key)


def test_restoring_into_another_number_of_environments_is_refused():
    with pytest.raises(UsageError, match="number of environments"):
        MujocoBatch(find("PointCircle"), 2).restore(MujocoBatch(find("PointCircle"), 3).state())


@pytest.mark.parametrize("damage", [np.nan, np.inf, 1e7])
def test_a_simulation_gone_wrong_ends_its_episode_and_no_other(damage, caplog):
    env, sound = (MujocoBatch(find("HalfCheetahSpeed"), 3, stagger=False) for _ in range(2))
    for a in actions(env, 5):
        env.step(a), sound.step(a)
    before = env.obs.copy()
    env._physics.qvel[1, 3] = damage
    a = actions(env, 1, seed=2)[0]
    with caplog.at_level(logging.WARNING):
        step, expected = env.step(a), sound.step(a)
    assert step.truncated.tolist() == [False, True, False]
    assert not step.terminated.any()
    assert (step.reward[1], step.cost[1, 0]) == (0.0, 0.0)
    np.testing.assert_array_equal(step.next_obs[1], before[1])
    np.testing.assert_array_equal(step.next_obs[[0, 2]], expected.next_obs[[0, 2]])
    np.testing.assert_array_equal(step.reward[[0, 2]], expected.reward[[0, 2]])
    assert env.diverged == 1
    assert env.age.tolist() == [6, 0, 6]
    assert np.isfinite(env.obs).all()
    assert len(caplog.records) == 1
    assert "HalfCheetahSpeed-v0: simulation 1 " in caplog.text


@pytest.mark.parametrize("name", ["HalfCheetahSpeed", "HumanoidSpeed", "PointCircle"])
def test_an_action_that_is_not_finite_spoils_its_own_episode_alone(name):
    env = MujocoBatch(find(name), 2, stagger=False)
    spoilt = actions(env, 1)[0]
    spoilt[1] = np.nan
    step = env.step(spoilt)
    assert step.truncated.tolist() == [False, True]
    assert all(np.isfinite(part).all() for part in (*step, env.obs))
    assert not env.step(actions(env, 1)[0]).truncated.any()


def test_only_the_first_divergence_is_logged_but_all_are_counted(caplog):
    env = MujocoBatch(find("HopperSpeed"), 2)
    for _ in range(3):
        env._physics.qpos[:, 1] = np.nan
        env.step(actions(env, 1)[0])
    assert env.diverged == 6
    assert len(caplog.records) == 1


def test_an_error_inside_mujoco_is_a_divergence_too(monkeypatch):
    from mujoco.batch import SimulationError

    env = MujocoBatch(find("HopperSpeed"), 3, stagger=False)
    real = env._batch.step

    def failing(**kwargs):
        real(**kwargs)
        raise SimulationError(np.array([2], np.int32), "stack overflow")

    monkeypatch.setattr(env._batch, "step", failing)
    assert env.step(actions(env, 1)[0]).truncated.tolist() == [False, False, True]
    assert env.diverged == 1


def test_no_log_file_is_left_behind(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    loud = mujoco.MjLogConfig.get()
    loud.logto_console = loud.logto_file = True
    mujoco.MjLogConfig.set(loud)  # as a user's process has it; the fixture silences it for the other tests
    env = MujocoBatch(find("HalfCheetahSpeed"), 1)
    env._physics.qpos[0] = np.nan
    env.step(actions(env, 1)[0])
    assert os.listdir(tmp_path) == []
    assert "WARNING" not in capfd.readouterr().err


def test_actions_of_another_shape_are_refused():
    env = MujocoBatch(find("HopperSpeed"), 2)
    with pytest.raises(UsageError, match=r"\(3,\).*needs \(2, 3\)"):
        env.step(np.zeros(3))


def test_tasks_are_found_by_all_their_names():
    assert find("AntSpeed") is find("AntSpeed-v0") is find("focops/AntSpeed-v0")
    assert find("AntSpeed") is not None
    assert find("AntSped") is None


def test_make_takes_the_tasks_limits_unless_given_others():
    (own,) = make("HopperSpeed", 1).spec.constraints
    (given,) = make("focops/HopperSpeed-v0", 1, limits=[3], discounts=[1.0]).spec.constraints
    assert (own.name, own.limit, own.discount) == ("speed", 82.748, 0.99)
    assert (given.name, given.limit, given.discount) == ("speed", 3.0, 1.0)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"limits": [1, 2]}, r"1 cost\(s\) \(speed\), but 2 limit\(s\).*--cost-limit"),
        ({"limits": [-1.0]}, "limit of speed is -1.0.*at least 0"),
        ({"limits": [float("nan")]}, "limit of speed is nan.*finite"),
        ({"limits": [float("inf")]}, "limit of speed is inf.*finite"),
        ({"discounts": [0.0]}, r"discount of speed is 0.0.*\(0, 1\]"),
        ({"discounts": [1.5]}, r"discount of speed is 1.5.*\(0, 1\]"),
        ({"discounts": [0.9, 0.9]}, r"2 discount\(s\)"),
        ({"threads": 0}, "threads is 0.*at least 1"),
        ({"num_envs": 0}, "environments is 0.*at least 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_value_and_the_range(kwargs, message):
    with pytest.raises(UsageError, match=message):
        make("HopperSpeed", **{"num_envs": 1, **kwargs})
