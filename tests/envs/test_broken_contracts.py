"""Environments that break Gymnasium's contract: each is named with what it returned, and nothing is a traceback."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from focops.envs import make
from focops.envs.gymnasium import GymnasiumVector
from focops.errors import RunError, UsageError

BOX = spaces.Box(-1.0, 1.0, (2,))


class Broken(gymnasium.Env):
    """Returns `answers[t]`, fields of a step that replace the right ones, at step t of an episode."""

    def __init__(self, answers=None, obs=BOX, action=BOX, six=False):
        self.answers, self.six = answers or {}, six
        self.observation_space, self.action_space = obs, action
        self.t, self.closed = 0, 0

    def reset(self, *, seed=None, options=None):
        self.t = 0
        self.observation_space.seed(0)
        return self.observation_space.sample(), {}

    def step(self, action):
        self.t += 1
        if "step" in self.answers.get(self.t, {}):
            return self.answers[self.t]["step"]
        right = {"obs": self.observation_space.sample(), "reward": 0.0, "info": {"cost": 1.0}}
        given = right | self.answers.get(self.t, {})
        cost = (2.0,) if self.six else ()
        return given["obs"], given["reward"], *cost, False, False, given["info"]


class Unclosable(Broken):
    closed = 0

    def close(self):
        Unclosable.closed += 1
        raise OSError("the window is gone")


class Resetless(Broken):
    """Returns `first` from its reset number `at` and later."""

    resets = 0

    def __init__(self, first, at):
        super().__init__()
        self.first, self.at = first, at

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        right = super().reset(seed=seed)
        return right if self.resets < self.at else self.first


for _name, _entry in {"Broken": Broken, "Unclosable": Unclosable, "Resetless": Resetless}.items():
    if f"{_name}-v0" not in gymnasium.registry:
        gymnasium.register(f"{_name}-v0", entry_point=_entry)


def broken(name: str = "Broken", limits=(1.0,), **kwargs):
    spec = gymnasium.spec(f"{name}-v0")
    spec.kwargs = kwargs
    return make(f"{name}-v0", 2, limits=limits)


def step(env):
    return env.step(np.zeros((2, 2), np.float32))


PARTS = spaces.Dict({"a": spaces.Box(-1.0, 1.0, (2,)), "b": spaces.Box(-1.0, 1.0, (1,))})


@pytest.mark.parametrize(
    "obs",
    [
        {"a": np.zeros(3), "b": np.zeros(1)},
        {"a": np.zeros(1), "b": np.zeros(2)},  # as many numbers in all
        {"a": [[0.0], [0.0, 1.0]], "b": np.zeros(1)},
        {"a": np.zeros(2)},
        None,
    ],
)
def test_parts_of_an_observation_keep_their_shapes(obs) -> None:
    env = broken(answers={2: {"obs": obs}}, obs=PARTS)
    step(env)
    with pytest.raises(RunError, match=r"environment 0 of Broken-v0 .* not of its observation space Dict.* at step 1"):
        step(env)


def test_a_tuple_of_too_many_numbers_is_no_observation() -> None:
    space = spaces.Tuple([spaces.MultiBinary(2)])
    env = broken(answers={1: {"obs": (np.zeros(2, np.int8),)}, 2: {"obs": (np.zeros(3, np.int8),)}}, obs=space)
    step(env)
    with pytest.raises(RunError, match="3 numbers instead of 2"):
        step(env)


def test_no_info_is_no_cost_and_with_six_values_none_is_needed() -> None:
    with pytest.raises(UsageError, match="Broken-v0 returns no cost"):
        broken(answers={1: {"info": None}})
    assert step(broken(answers={1: {"info": None}}, six=True)).cost.tolist() == [[2.0], [2.0]]


@pytest.mark.parametrize("cost", [[[1.0], [1.0, 2.0]], [], np.zeros((2, 2)), 10**400])
def test_a_cost_that_is_no_vector_is_refused_at_once_and_later(cost) -> None:
    with pytest.raises(UsageError, match=r"(?s)as its cost.*it must be a number"):
        broken(answers={1: {"info": {"cost": cost}}})
    env = broken(answers={2: {"info": {"cost": cost}}})
    step(env)
    with pytest.raises(RunError, match=r"(?s)environment 0 .* as its cost at step 1: it must be a number or an array"):
        step(env)


@pytest.mark.parametrize(("result", "called"), [(None, "None"), ((0, 0.0, False, {}), "4 values"), (7, "7")])
def test_what_is_no_step_is_an_error_of_the_run(result, called) -> None:
    env = broken(answers={2: {"step": result}})
    step(env)
    message = rf"environment 0 of Broken-v0 returned {called} from step at step 1: it must return 5 .*its episode"
    with pytest.raises(RunError, match=message):
        step(env)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"reward": None}, "returned None as its reward"),
        ({"reward": "1"}, "returned '1' as its reward"),
        ({"info": {"cost": "1"}}, "returned '1' as its cost"),
        ({"info": {"cost": None}}, "returned no cost"),
    ],
)
def test_what_numpy_would_take_for_a_number_is_named(answer, message) -> None:
    env = broken(answers={2: answer})
    step(env)
    with pytest.raises(RunError, match=f"environment 0 of Broken-v0 {message} at step 1"):
        step(env)


class Seedless(Broken):
    def reset(self):
        return super().reset()


class Optionless(Broken):
    def reset(self, seed=None):
        return super().reset()


@pytest.mark.parametrize("kind", [Seedless, Optionless])
def test_a_reset_without_seed_or_options_is_refused_with_how_to_write_it(kind) -> None:
    message = r"cannot be reset .* '(seed|options)'\): write def reset\(self, \*, seed=None, options=None\)"
    with pytest.raises(UsageError, match=message):
        GymnasiumVector(kind, 2, limits=[1.0])


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.OneOf([BOX]), spaces.Tuple([spaces.Text(5)])])
def test_a_space_that_is_not_supported_is_refused_with_those_that_are(space) -> None:
    with pytest.raises(UsageError, match=r"observation space .* only Box, Discrete, .* can be observed; wrap"):
        broken(obs=space)


@pytest.mark.parametrize("space", [spaces.Box(-1.0, 1.0, (0,)), spaces.Dict({}), spaces.Box(-1.0, 1.0, (3, 0))])
def test_an_empty_space_is_refused(space) -> None:
    with pytest.raises(UsageError, match=r"observation space .* is empty"):
        broken(obs=space)
    if isinstance(space, spaces.Box):
        with pytest.raises(UsageError, match=r"action space .* that are not empty"):
            broken(action=space)


@pytest.mark.parametrize("first", [None, 0.5, {"obs": 1}, np.zeros(3), (np.zeros(2),), np.zeros((2, 2))])
@pytest.mark.parametrize("at", [1, 2])  # when the environment is tried, and when the run begins
def test_a_reset_that_does_not_return_two_things_is_named_with_what_it_returned(first, at) -> None:
    message = (
        r"(?s)environment 0 of Resetless-v0 returned .* from reset at step 0: it must return \(observation, info\)"
    )
    with pytest.raises(RunError, match=message):
        broken("Resetless", first=first, at=at)


def test_what_close_raises_is_a_warning_and_the_others_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    env = broken("Unclosable")
    before = Unclosable.closed
    env.close()
    assert Unclosable.closed == before + 2
    assert "environment 0 of Unclosable-v0 raised OSError: the window is gone" in caplog.text
