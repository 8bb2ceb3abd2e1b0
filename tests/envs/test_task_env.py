"""Our tasks as Gymnasium ids."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from focops.envs.mujoco_batch import MujocoBatch
from focops.envs.registration import register
from focops.envs.tasks import TASKS, find
from tests.envs.states import set_state


# Gymnasium's own MuJoCo environments have infinite observation bounds and unnormalised actions, too
@pytest.mark.filterwarnings("ignore:.*Box observation space (minimum|maximum) value is -?infinity")
@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric and normalized space")
@pytest.mark.parametrize("name", TASKS)
def test_gymnasiums_checker_is_content(name):
    check_env(gymnasium.make(f"focops/{name}").unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", TASKS)
def test_a_single_environment_and_the_batch_give_the_same(name):
    env, batch = gymnasium.make(f"focops/{name}"), MujocoBatch(find(name), 1, stagger=False)
    first, _ = env.reset(seed=1)
    data = env.unwrapped.data
    set_state(batch, data.qpos, data.qvel)
    np.testing.assert_allclose(batch.obs[0], first, rtol=1e-6, atol=1e-7)
    env.action_space.seed(0)
    for _ in range(12):
        action = env.action_space.sample()
        obs, reward, terminated, truncated, info = env.step(action)
        step = batch.step(action[None])
        np.testing.assert_allclose(step.next_obs[0], obs, rtol=1e-6, atol=1e-7)
        assert step.reward[0] == pytest.approx(reward, rel=1e-9)
        assert step.cost[0, 0] == pytest.approx(info["cost"], rel=1e-9)
        assert isinstance(info["cost"], float)
        assert info["cost"] <= find(name).cost_at_most
        assert (step.terminated[0], step.truncated[0]) == (terminated, truncated)


@pytest.mark.parametrize("name", ["PointCircle-v0", "HopperVelocity-v0", "HopperSpeed-v0"])
def test_an_episode_costs_at_most_what_all_its_steps_do(name):
    """Costs of 0 and 1: the sum over the steps of an episode; a speed has no bound."""
    task = find(name)
    steps = np.inf if name == "HopperSpeed-v0" else task.time_limit
    assert task.costliest(1.0) == steps
    assert task.costliest(0.9) == pytest.approx((1 - 0.9**steps) / 0.1 if np.isfinite(steps) else np.inf)


def test_the_time_limit_is_the_tasks():
    env = gymnasium.make("focops/PointCircle-v0")
    env.reset(seed=0)
    ends = [env.step(np.zeros(2, np.float32))[3] for _ in range(65)]
    assert ends == [False] * 64 + [True]


def test_an_unstable_simulation_is_truncated_with_its_last_observation():
    env = gymnasium.make("focops/HopperSpeed-v0", disable_env_checker=True)
    last, _ = env.reset(seed=0)
    env.unwrapped.data.qvel[2] = np.nan
    obs, reward, terminated, truncated, info = env.step(np.zeros(3, np.float32))
    np.testing.assert_array_equal(obs, last)
    assert (reward, terminated, truncated, info["cost"]) == (0.0, False, True, 0.0)


def test_registering_twice_changes_nothing():
    before = dict(gymnasium.registry)
    register()
    assert dict(gymnasium.registry) == before


@pytest.mark.usefixtures("needs_opengl")
def test_a_picture_is_rendered():
    env = gymnasium.make("focops/HopperSpeed-v0", render_mode="rgb_array", disable_env_checker=True)
    env.reset(seed=0)
    picture = env.render()
    env.close()
    assert picture.shape == (480, 480, 3)
    assert picture.std() > 0
