"""The tasks against Gymnasium's own environments: same state and actions, same observation, reward and end."""

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from focops.envs.mujoco_batch import MujocoBatch
from focops.envs.tasks import TASKS, find
from focops.envs.tasks.task import numpy_draws
from tests.envs.states import set_state

NO_FORCES = {"include_cfrc_ext_in_observation": False, "contact_cost_weight": 0.0}
# task: Gymnasium's class, its arguments, observation size, and whether the speed is of x and y
SPEED = {
    "AntSpeed": ("Ant-v5", NO_FORCES, 27, True),
    "HalfCheetahSpeed": ("HalfCheetah-v5", {}, 17, False),
    "HopperSpeed": ("Hopper-v5", {}, 11, False),
    "HumanoidSpeed": ("Humanoid-v5", NO_FORCES, 270, True),
    "SwimmerSpeed": ("Swimmer-v5", {}, 8, True),
    "Walker2dSpeed": ("Walker2d-v5", {"xml_file": "walker2d.xml"}, 17, False),
}


def theirs(name: str) -> gymnasium.Env:
    gym_id, kwargs, _, _ = SPEED[name]
    return gymnasium.make(gym_id, disable_env_checker=True, **kwargs).unwrapped


def ours_in_the_state_of(other, name: str, **kwargs) -> MujocoBatch:
    """One environment of ours, set to the freshly reset state of one of Gymnasium's."""
    return set_state(MujocoBatch(find(name), 1, **kwargs), other.data.qpos, other.data.qvel)


@pytest.mark.parametrize("name", SPEED)
def test_a_speed_task_observes_rewards_and_ends_as_gymnasium_does(name):
    other = theirs(name)
    rng = np.random.default_rng(0)
    ends = 0
    for episode in range(4):
        first, _ = other.reset(seed=episode)
        env = ours_in_the_state_of(other, name)
        np.testing.assert_allclose(env.obs[0], first, rtol=1e-6, atol=1e-7)
        for _ in range(150):
            action = rng.uniform(*env._physics.ctrlrange.T).astype(np.float32)
            obs, reward, terminated, _, info = other.step(action.astype(np.float64))
            step = env.step(action[None])
            np.testing.assert_allclose(step.next_obs[0], obs, rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(step.reward[0], float(reward), rtol=1e-10, atol=1e-10)
            speed = abs(info["x_velocity"]) if not SPEED[name][3] else np.hypot(info["x_velocity"], info["y_velocity"])
            np.testing.assert_allclose(step.cost[0], [speed], rtol=1e-10, atol=1e-10)
            assert step.terminated[0] == terminated
            if terminated:
                ends += 1
                break
    if name in ("HopperSpeed", "HumanoidSpeed", "Walker2dSpeed"):
        assert ends, "random actions make this robot fall, or the test does not see an end"


# task: Safety-Gymnasium's threshold, and whether it is of the speed in x and y
VELOCITY = {
    "Ant": (2.6222, True),
    "HalfCheetah": (3.2096, False),
    "Hopper": (0.7402, False),
    "Humanoid": (1.4149, True),
    "Swimmer": (0.2282, False),
    "Walker2d": (2.3415, False),
}


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize("name", VELOCITY)
def test_a_velocity_task_rewards_and_ends_as_gymnasiums_v4_and_counts_fast_steps(name):
    other = gymnasium.make(f"{name}-v4", disable_env_checker=True).unwrapped
    threshold, planar = VELOCITY[name]
    rng, costs, ends = np.random.default_rng(0), [], 0
    for episode in range(6):
        other.reset(seed=episode)
        if episode % 2:  # some are fast from the start
            other.set_state(other.data.qpos, other.data.qvel + 3.0 * (np.arange(other.model.nv) < 1 + planar))
        env = ours_in_the_state_of(other, f"{name}Velocity")
        for _ in range(100):
            action = rng.uniform(*env._physics.ctrlrange.T).astype(np.float32)
            _, reward, terminated, _, info = other.step(action.astype(np.float64))
            step = env.step(action[None])
            np.testing.assert_allclose(step.reward[0], float(reward), rtol=1e-10, atol=1e-10)
            speed = np.hypot(info["x_velocity"], info["y_velocity"]) if planar else info["x_velocity"]
            assert step.cost[0] == [float(speed > threshold)]
            assert step.terminated[0] == terminated
            costs.append(float(step.cost[0, 0]))
            if terminated:
                ends += 1
                break
    assert 0 < np.mean(costs) < 1
    assert ends or name in ("Ant", "HalfCheetah", "Swimmer")


@pytest.mark.parametrize("name", VELOCITY)
def test_the_limit_of_a_velocity_task_is_25_steps(name):
    (constraint,) = find(f"{name}Velocity").constraints
    assert (constraint.limit, constraint.discount) == (25.0, 1.0)


@pytest.mark.parametrize("name", ["AntSpeed", "HopperSpeed", "HumanoidSpeed", "Walker2dSpeed"])
def test_health_is_judged_as_gymnasium_does_around_its_bounds(name):
    other, task = theirs(name), find(name)
    other.reset(seed=0)
    rng = np.random.default_rng(1)
    qpos = np.tile(other.data.qpos, (500, 1))
    qpos[:, 1:3] += rng.uniform(-1.2, 1.2, (500, 2))
    qvel = rng.normal(0, 40, (500, other.model.nv))
    expected = []
    for q, v in zip(qpos, qvel, strict=True):
        other.data.qpos[:], other.data.qvel[:] = q, v
        expected.append(bool(other.is_healthy))
    env = MujocoBatch(task, 1)
    healthy = task.robot.healthy(np, env._physics._replace(qpos=qpos, qvel=qvel))
    assert 0 < sum(expected) < 500
    np.testing.assert_array_equal(healthy, expected)


@pytest.mark.parametrize("name", SPEED)
def test_start_noise_has_gymnasiums_range_and_kind(name):
    """Compared by their quantiles over 300 starts: uniform and normal noise of the same scale differ by more."""
    other, task = theirs(name), find(name)
    theirs_qpos, theirs_qvel = [], []
    for seed in range(300):
        other.reset(seed=seed)
        theirs_qpos.append(other.data.qpos - other.init_qpos)
        theirs_qvel.append(other.data.qvel.copy())
    starts = [
        task.start(numpy_draws(np.random.default_rng(seed)), other.model.qpos0, other.model.nv) for seed in range(300)
    ]
    ours_qpos, ours_qvel = (np.array(each) for each in zip(*starts, strict=True))
    levels = [0.001, 0.1, 0.5, 0.9, 0.999]
    scale = task.robot.noise
    for mine, other_noise in ((ours_qpos - other.model.qpos0, theirs_qpos), (ours_qvel, theirs_qvel)):
        np.testing.assert_allclose(np.quantile(mine, levels), np.quantile(other_noise, levels), atol=0.4 * scale)


def test_humanoids_control_cost_sees_the_clamped_control():
    name = "HumanoidSpeed"
    other = theirs(name)
    other.reset(seed=0)
    wild = np.full(17, 3.0)  # far beyond the actuators' ±0.4
    env, tame = ours_in_the_state_of(other, name), ours_in_the_state_of(other, name)
    np.testing.assert_array_equal(env.step(wild[None]).reward, tame.step(np.clip(wild, -0.4, 0.4)[None]).reward)


def test_other_robots_pay_for_the_raw_action():
    other = theirs("AntSpeed")
    other.reset(seed=0)
    env, tame = ours_in_the_state_of(other, "AntSpeed"), ours_in_the_state_of(other, "AntSpeed")
    wild = np.full((1, 8), 3.0)
    gap = tame.step(np.ones((1, 8))).reward - env.step(wild).reward
    np.testing.assert_allclose(gap, 0.5 * 8 * (3.0**2 - 1), rtol=1e-12)


@pytest.mark.parametrize(("name", "size"), [(name, row[2]) for name, row in SPEED.items()])
def test_observations_of_speed_tasks_have_gymnasiums_size_without_contact_forces(name, size):
    assert MujocoBatch(find(name), 2).obs.shape == (2, size)


@pytest.mark.parametrize(("name", "size"), [("AntCircle", 29), ("HumanoidCircle", 272), ("PointCircle", 4)])
def test_circle_observations_begin_with_the_roots_x_and_y(name, size):
    env = MujocoBatch(find(name), 3)
    assert env.obs.shape == (3, size)
    np.testing.assert_array_equal(env.obs[:, :2], env._physics.qpos[:, :2].astype(np.float32))


PAPER_LIMITS = {
    "AntSpeed-v0": 103.115,
    "HalfCheetahSpeed-v0": 151.989,
    "HopperSpeed-v0": 82.748,
    "HumanoidSpeed-v0": 20.140,
    "SwimmerSpeed-v0": 24.516,
    "Walker2dSpeed-v0": 81.886,
    "AntCircle-v0": 50,
    "HumanoidCircle-v0": 50,
}


def test_limits_and_discounts_are_the_papers():
    for name, limit in PAPER_LIMITS.items():
        (constraint,) = TASKS[name].constraints
        assert (constraint.limit, constraint.discount) == (limit, 0.99 if "Speed" in name else 0.995)
        assert TASKS[name].time_limit == 1000


def test_models_are_gymnasiums_with_the_older_walker():
    env = MujocoBatch(find("Walker2dSpeed"), 1)
    feet = env.model.geom("foot_geom").friction[0], env.model.geom("foot_left_geom").friction[0]
    assert feet == (0.9, 1.9)  # walker2d_v5.xml has 1.9 on both


@pytest.mark.parametrize("name", VELOCITY)
def test_a_velocity_tasks_outcome_is_the_same_in_jax(name):
    task = find(f"{name}Velocity")
    env = MujocoBatch(task, 40)
    rng = np.random.default_rng(0)
    n = env._physics.ctrlrange.shape[0]
    before = task.robot.position(np, env._physics)
    after = before + env._physics.dt * rng.normal(0, 3.0, before.shape)
    action = rng.normal(size=(40, n))
    numpy_found = task.outcome(np, env._physics, before, after, action)
    fields = {k: jnp.asarray(v) for k, v in env._physics._asdict().items() if k != "dt" and v is not None}
    physics = env._physics._replace(**fields)
    jax_found = task.outcome(jnp, physics, jnp.asarray(before), jnp.asarray(after), jnp.asarray(action))
    for ours, other in zip(jax_found, numpy_found, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-4)
    assert 0 < numpy_found.cost.sum() < 40
