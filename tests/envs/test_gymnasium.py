"""Other people's environments: what they may return, how episodes run, and what is said when something is wrong."""

import dataclasses
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from focops.config import default_config
from focops.envs import make
from focops.envs.gymnasium import GymnasiumVector
from focops.errors import UsageError
from focops.training.host import Trainer


@pytest.fixture(autouse=True)
def _user_module_on_the_path(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parent), *sys.path])


def user(name: str, num_envs: int = 2, limits=(1.0,), **kwargs):
    return make(f"user_envs:{name}-v0", num_envs, limits=limits, **kwargs)


def zeros(env) -> np.ndarray:
    return np.zeros((env.num_envs, *env.spec.action_shape), env.spec.action_dtype)


def test_a_wrapped_cart_pole_gives_the_physics_of_gymnasium_and_the_wrappers_cost():
    import gymnasium

    env = user("CartPoleCost", 2)
    assert (env.spec.obs_size, env.spec.action_size, env.spec.discrete, env.spec.time_limit) == (4, 2, True, 40)
    plain = gymnasium.make("CartPole-v1").unwrapped
    plain.reset(seed=0)
    plain.state = env._envs.envs[0].env.unwrapped.state
    rng = np.random.default_rng(0)
    for _ in range(5):
        action = rng.integers(0, 2, 2)
        step = env.step(action)
        obs, reward, terminated, _, _ = plain.step(int(action[0]))
        np.testing.assert_array_equal(step.next_obs[0], obs)
        assert (step.reward[0], step.terminated[0]) == (reward, terminated)
        assert step.cost[0, 0] == float(abs(obs[0]) > 0.1)


def test_an_id_that_is_registered_already_needs_no_module():
    user("CartPoleCost")
    assert make("CartPoleCost-v0", 1, limits=[1]).spec.obs_size == 4


def test_next_obs_is_the_last_of_the_ended_episode_and_obs_the_first_of_the_next():
    env = user("Counter", 1, stagger=False)
    for _ in range(7):
        step = env.step(zeros(env))
    assert step.terminated.tolist() == [True]
    assert step.next_obs[0].tolist() == [7.0, 0.0]
    assert step.cost[0].tolist() == [7.0]  # of the step that ended it, not of the reset
    assert env.obs[0, 0] == 0.0
    assert env.age.tolist() == [0]


def test_the_time_limit_truncates_without_terminating():
    env = user("CounterShort", 1, stagger=False)
    ends = [env.step(zeros(env)) for _ in range(4)]
    assert [bool(s.truncated[0]) for s in ends] == [False, False, False, True]
    assert not any(s.terminated[0] for s in ends)


def test_first_episodes_are_staggered_where_the_time_limit_is_known():
    env = user("CounterShort", 4)
    cut = [np.flatnonzero(env.step(zeros(env)).truncated).tolist() for _ in range(8)]
    assert cut == [[0], [1], [2], [3]] * 2


def test_episodes_without_a_time_limit_are_not_cut():
    env = user("Endless", 3)
    assert env.spec.time_limit is None
    assert not any(env.step(zeros(env)).truncated.any() for _ in range(20))


@pytest.mark.parametrize("stagger", [True, False])
def test_restart_begins_episodes_everywhere_staggered_as_the_first(stagger):
    env = user("CounterShort", 4, stagger=stagger)
    env.step(zeros(env))
    env.restart()
    assert env.age.tolist() == [0] * 4
    steps = [env.step(zeros(env)) for _ in range(4)]
    truncated = [np.flatnonzero(step.truncated).tolist() for step in steps]
    assert truncated == ([[0], [1], [2], [3]] if stagger else [[], [], [], [0, 1, 2, 3]])
    assert [step.cut.any() for step in steps] == ([True] * 3 + [False] if stagger else [False] * 4)


class OwnLimit(gymnasium.Env):
    """Truncates itself after 20 steps, whatever it is registered with; costs 1 per step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), 0.0, False, self.t == 20, {"cost": 1.0}


gymnasium.register("OwnLimit-v0", entry_point=OwnLimit)
gymnasium.register("OwnLimitWronglyRegistered-v0", entry_point=OwnLimit, max_episode_steps=1000)


@pytest.mark.parametrize("name", ["OwnLimit-v0", "OwnLimitWronglyRegistered-v0"])
def test_an_environment_that_truncates_itself_is_staggered_by_what_is_seen(name, caplog):
    env = GymnasiumVector(name, 4, limits=[1.0])
    steps = [env.step(zeros(env)) for _ in range(60)]
    own = np.array([step.truncated & ~step.cut for step in steps])
    cut = np.array([step.cut for step in steps])
    assert own[19].all()  # together at first
    assert [np.flatnonzero(cut[:, i]).tolist() for i in range(4)] == [[24], [29], [34], []]  # at 5, 10, 15 steps
    assert [np.flatnonzero(own[:, i])[1:].tolist() for i in range(4)] == [[44], [49], [54], [39, 59]]
    warned = [r.getMessage() for r in caplog.records if "truncated an episode itself after 20 steps" in r.getMessage()]
    assert len(warned) == (name != "OwnLimit-v0")


@pytest.mark.parametrize("name", ["OwnLimit-v0", "OwnLimitWronglyRegistered-v0"])
def test_training_estimates_and_counts_episodes_that_an_environment_truncates_itself(name):
    config = default_config(name)
    algo = dataclasses.replace(config.algo, minibatch_size=64, epochs=1)
    sizes = dict(steps=1024, num_envs=8, batch_size=256, cost_limit=(5.0,))
    trainer = Trainer(dataclasses.replace(config, algo=algo, **sizes))
    records = [trainer.iterate() for _ in range(4)]
    paid = (1 - 0.99**20) / (1 - 0.99)
    assert records[-1]["discounted_cost_mean/cost"] == pytest.approx(paid, rel=1e-4)
    assert records[-1]["cost_return_estimate/cost"] == pytest.approx(paid, rel=0.02)
    trainer.close()


def test_a_six_tuple_step_works_under_gymnasiums_own_wrappers():
    env = user("SixTuple", 1, stagger=False)
    costs = [env.step(zeros(env)).cost[0, 0] for _ in range(4)]
    assert costs == [2.0, 4.0, 6.0, 8.0]
    assert env.age.tolist() == [0]  # the time limit of 4 was seen


def test_a_vector_of_costs_makes_as_many_constraints():
    env = user("TwoCosts", 2, limits=[1.0, 2.0], discounts=[0.9, 0.95])
    assert [(c.name, c.limit, c.discount) for c in env.spec.constraints] == [("cost_0", 1, 0.9), ("cost_1", 2, 0.95)]
    env.step(zeros(env))
    assert env.step(zeros(env)).cost.tolist() == [[2.0, 4.0]] * 2


def test_box_observations_are_flattened_to_float32():
    env = user("Counter")
    assert env.spec.obs_size == 2
    assert env.obs.dtype == np.float32
    env.step(np.full((2, 2), 0.25, np.float32))
    assert env.obs.tolist() == [[1.0, 0.5]] * 2


def test_discrete_observations_become_one_hot():
    env = user("DiscreteObs", 1)
    env.step(zeros(env))
    env.step(zeros(env))
    np.testing.assert_array_equal(env.obs[0], np.eye(9)[2])


def test_dict_observations_are_flattened():
    env = user("DictObs", 1)
    env.step(np.full((1, 2), 0.5, np.float32))
    np.testing.assert_array_equal(env.obs[0], [1.0, 0, 1, 0])


def test_box_actions_are_clipped_to_their_bounds():
    env = user("Counter", 1)
    env.step(np.array([[-5.0, 5.0]], np.float32))
    np.testing.assert_array_equal(env._envs.envs[0].env.unwrapped.last_action, [-1.0, 3.0])
    assert (env.spec.action_low, env.spec.action_high) == ((-1.0, -2.0), (1.0, 3.0))


def test_box_actions_get_their_shape_back():
    env = user("MatrixAction", 1)
    assert env.spec.action_size == 4
    env.step(np.array([[0.1, 0.2, 0.3, 0.4]], np.float32))
    np.testing.assert_allclose(env._envs.envs[0].env.unwrapped.last_action, [[0.1, 0.2], [0.3, 0.4]])


def test_discrete_actions_count_from_the_spaces_start():
    env = user("DiscreteAction", 2)
    assert (env.spec.discrete, env.spec.action_size) == (True, 3)
    env.step(np.array([0, 2], np.int32))
    assert [int(e.env.unwrapped.last_action) for e in env._envs.envs.values()] == [5, 7]


def test_the_same_seed_gives_the_same_starts_and_each_environment_and_episode_its_own():
    env = user("Counter", 2, stagger=False)

    def starts(seed: int) -> list[float]:
        env.reset(seed)
        first = env.obs[:, 1].tolist()
        env.restart()
        return first + env.obs[:, 1].tolist()

    assert starts(1) == starts(1)
    assert len({*starts(1), *starts(2)}) == 8


@pytest.mark.parametrize("name", ["CartPoleCost-v0", "Ant"])
def test_a_restored_environment_goes_on_to_the_same_bits(name):
    import gymnasium

    if name == "Ant":  # lagging MuJoCo fields are part of its state, and come back only by replaying
        name = "AntWithCost-v0"
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point="focops.envs.task_env:TaskEnv", kwargs={"task": "AntSpeed-v0"})
    else:
        user("CartPoleCost")

    def new():
        return make(name, 3, limits=[1.0])

    env, rng = new(), np.random.default_rng(0)
    env.reset(4)

    def actions(n: int) -> list[np.ndarray]:
        spec = env.spec
        return [rng.integers(0, 2, 3) if spec.discrete else rng.normal(size=(3, spec.action_size)) for _ in range(n)]

    for a in actions(30):
        env.step(a)
    saved, more = env.state(), actions(40)
    other = new()
    other.restore(saved)
    for a in more:
        for mine, theirs in zip(other.step(a), env.step(a), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(other.obs, env.obs)
        np.testing.assert_array_equal(other.age, env.age)


def test_an_environment_that_cannot_be_replayed_says_so(caplog):
    env = user("Forgetful", 2)
    env.restore(env.state())
    assert "environment 0 (and 1 more) did not come back to its saved observation" in caplog.text


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        (
            "user_envs:Costless-v0",
            {},
            r'returns no cost.*info\["cost"\].*third of six.*--cost my_module:my_cost.*--algo ppo',
        ),
        ("user_envs:Counter-v0", {"limits": None}, r"1 cost\(s\) and no limit.*--cost-limit B"),
        ("user_envs:TwoCosts-v0", {}, r"2 cost\(s\) \(cost_0, cost_1\), but 1 limit\(s\).*--cost-limit"),
        ("user_envs:Counter-v0", {"limits": [-3.0]}, "limit of cost is -3.0.*at least 0"),
        ("user_envs:Endless-v0", {"discounts": [1.0]}, "no time limit.*below 1.*max_episode_steps"),
        ("user_envs:DictAction-v0", {}, "action space Dict.*only Discrete, MultiDiscrete, .*gymnasium.ActionWrapper"),
        ("user_envs:WholeAction-v0", {}, "action space Box.*int32.*Box of floats.*gymnasium.ActionWrapper"),
        ("user_envs:SequenceObs-v0", {}, "observation space Sequence.*no fixed size"),
        (
            "user_envs:OldApi-v0",
            {},
            r"environment 0 of .*OldApi-v0 returned 4 values from step at step 0: it must return 5 .* or 6",
        ),
        ("user_envs:EarlyCostWord-v0", {}, "returned 'dear' as its cost"),
        ("no_such_module:Id-v0", {}, "module 'no_such_module' cannot be imported"),
        ("HalfCheetaSpeed", {}, "'HalfCheetaSpeed'.*did you mean HalfCheetahSpeed"),
        ("CartPol-v1", {}, "did you mean .*CartPole-v1"),
        ("user_envs:Countr", {}, "did you mean .*user_envs:Counter-v0"),
        ("tests.envs.faulty:Falty", {}, r"did you mean tests.envs.faulty:Faulty, tests.envs.faulty:Faulty-v0"),
        ("zzzzzzzzzzzz", {}, "focops tasks.*run that has the id alone, import that module in Python"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_a_way_out(name, kwargs, message):
    with pytest.raises(UsageError, match=f"(?s){message}"):
        make(name, 2, **{"limits": [1.0], **kwargs})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NanObs", r"environment 0 of .*NanObs-v0 returned nan in its observation \(index \(0,\)\) at step 2"),
        ("InfReward", "environment 0 .* returned inf in its reward .* at step 2, age 2"),
        ("NanCost", "environment 0 .* returned nan in its cost .* at step 2"),
        ("NoCostLater", "environment 0 .* returned no cost at step 2.*0 where nothing was paid"),
        ("CostShape", r"environment 0 .* returned \[1.0, 2.0, 3.0\] as its cost at step 2.*shape \(1,\)"),
        ("CostWord", "environment 0 .* returned 'dear' as its cost at step 2.*a number"),
        ("RewardShape", r"environment 0 .* returned array\(\[0., 0.\]\) as its reward at step 2.*a number"),
        ("ObsShape", r"environment 0 .* not of its observation space .* at step 2 \(shape \(3,\)\)"),
    ],
)
def test_what_goes_wrong_later_names_the_environment_the_array_and_the_step(name, message):
    env = user(name, 2)
    env.step(zeros(env))
    env.step(zeros(env))
    with pytest.raises(UsageError, match=message):
        env.step(zeros(env))
