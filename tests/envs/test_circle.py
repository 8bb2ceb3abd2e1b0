"""The circle tasks against the paper's formulas, computed sample by sample in plain Python."""

import math

import numpy as np
import pytest

from focops.envs.mujoco_batch import MujocoBatch
from focops.envs.tasks import find
from focops.envs.tasks.task import numpy_draws

GEOMETRY = {"AntCircle": (10.0, 3.0), "HumanoidCircle": (10.0, 2.5), "PointCircle": (15.0, 2.5)}


def place_of(env: MujocoBatch, i: int) -> tuple[float, float]:
    """Torso (Ant), mass centre (Humanoid) or root (Point), one body at a time."""
    p = env._physics
    if p.xpos is not None:
        return float(p.xpos[i, 1, 0]), float(p.xpos[i, 1, 1])
    if p.xipos is not None:
        mass = [float(m) for m in env.model.body_mass]
        x, y = (sum(m * float(x[k]) for m, x in zip(mass, p.xipos[i], strict=True)) / sum(mass) for k in (0, 1))
        return x, y
    return float(p.qpos[i, 0]), float(p.qpos[i, 1])


@pytest.mark.parametrize("name", GEOMETRY)
def test_reward_and_cost_follow_the_papers_formulas(name):
    radius, x_lim = GEOMETRY[name]
    env = MujocoBatch(find(name), 4, stagger=False)
    env.reset(3)
    dt = {"AntCircle": 0.05, "HumanoidCircle": 0.015, "PointCircle": 1.0}[name]
    rng = np.random.default_rng(0)
    for _ in range(10):
        before = [place_of(env, i) for i in range(4)]
        step = env.step(rng.uniform(*env._physics.ctrlrange.T, size=(4, env.spec.action_size)))
        assert not step.terminated.any()
        for i in range(4):
            x, y = place_of(env, i)
            vx, vy = (x - before[i][0]) / dt, (y - before[i][1]) / dt
            expected = (-y * vx + x * vy) / (1 + abs(math.hypot(x, y) - radius))
            assert step.reward[i] == pytest.approx(expected, rel=1e-9, abs=1e-9)
            assert step.cost[i].tolist() == [1.0 if abs(x) > x_lim else 0.0]


@pytest.mark.parametrize(("name", "share_outside"), [("AntCircle", 0.81), ("HumanoidCircle", 0.84)])
def test_starts_are_uniform_on_the_circle(name, share_outside):
    task = find(name)
    model = MujocoBatch(task, 1).model
    xy = np.array(
        [task.start(numpy_draws(np.random.default_rng(s)), model.qpos0, model.nv)[0][:2] for s in range(4000)]
    )
    np.testing.assert_allclose(np.hypot(*xy.T), 10.0)
    np.testing.assert_allclose(xy.mean(0), 0.0, atol=0.5)
    x_lim = GEOMETRY[name][1]
    assert np.mean(np.abs(xy[:, 0]) > x_lim) == pytest.approx(share_outside, abs=0.02)


@pytest.mark.parametrize(("name", "z"), [("AntCircle", 1.3), ("HumanoidCircle", 0.9), ("HumanoidCircle", 2.2)])
def test_a_fallen_or_flying_robot_ends_its_episode(name, z):
    env = MujocoBatch(find(name), 2, stagger=False)
    env._physics.qpos[1, 2] = z
    step = env.step(np.zeros((2, env.spec.action_size)))
    assert step.terminated.tolist() == [False, True]


def test_point_turns_then_goes_ahead():
    env = MujocoBatch(find("PointCircle"), 1, stagger=False)
    env._physics.qpos[0] = [1.0, 2.0, 0.5]
    env.step(np.array([[0.8, -0.2]]))
    expected = [1.0 + 0.8 * math.cos(0.3), 2.0 + 0.8 * math.sin(0.3), 0.3]
    np.testing.assert_allclose(env._physics.qpos[0], expected, rtol=1e-14)
    np.testing.assert_allclose(env.obs[0], [*expected[:2], math.cos(0.3), math.sin(0.3)], rtol=1e-6)


def test_point_goes_no_faster_than_its_actuators_allow():
    env = MujocoBatch(find("PointCircle"), 1, stagger=False)
    env._physics.qpos[0] = 0.0
    env.step(np.array([[9.0, 9.0]]))
    np.testing.assert_allclose(env._physics.qpos[0], [math.cos(0.25), math.sin(0.25), 0.25])


def test_points_episode_lasts_65_steps():
    env = MujocoBatch(find("PointCircle"), 1)
    ends = [env.step(np.zeros((1, 2))).truncated[0] for _ in range(65)]
    assert ends == [False] * 64 + [True]


@pytest.mark.parametrize("name", ["AntSpeed", "HumanoidSpeed", "HopperSpeed", "AntCircle", "PointCircle"])
def test_tasks_give_the_same_with_jax_numpy_under_jit(name):
    import jax
    import jax.numpy as jnp

    env = MujocoBatch(find(name), 3)
    task, action = env.task, np.random.default_rng(0).uniform(-1, 1, (3, env.spec.action_size))
    before = env._position
    env.step(action)
    after = np.array(task.robot.position(np, env._physics))
    want = task.outcome(np, env._physics, before, after, action)
    got = jax.jit(lambda *args: task.outcome(jnp, *args))(env._physics, before, after, action)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=1e-4)  # float32 differences over dt
    obs = jax.jit(lambda p: task.observe(jnp, p))(env._physics)
    np.testing.assert_allclose(obs, env._observe(), rtol=1e-5, atol=1e-6)
    if task.robot.move:
        moved = jax.jit(lambda p, a: task.robot.move(jnp, p, a))(env._physics, action)
        np.testing.assert_allclose(moved, task.robot.move(np, env._physics, action), rtol=1e-5)
