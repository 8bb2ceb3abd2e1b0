"""`predict` returns the action alone. Who expects a pair, as of Stable-Baselines3, is told so where it is unpacked."""

import inspect
import sys
from typing import Any

import numpy as np
import pytest

from focops.errors import UsageError
from focops.runs import unpacking


class Policy:
    """One whose action is the observation."""

    def predict(self, obs: Any) -> np.ndarray:
        action = np.asarray(obs)
        unpacking.refuse_pair(action)
        return action


policy = Policy()
SHAPES = [(), (1,), (2,), (3,), (2, 3), (5, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_habit_of_sb3_is_refused_for_every_shape_of_action(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"the action alone.* write `action = policy.predict\(obs\)`"):
        _action, _states = policy.predict(np.zeros(shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_action_itself_may_be_kept_looped_over_and_indexed(shape: tuple[int, ...]) -> None:
    action = policy.predict(np.zeros(shape))
    looped = [entry for entry in policy.predict(np.zeros(shape))] if shape else []
    assert action.shape == shape
    assert len(looped) == (shape[0] if shape else 0)
    assert policy.predict(np.arange(3.0))[1] == 1


def test_two_entries_are_unpacked_in_a_statement_of_their_own() -> None:
    with pytest.raises(UsageError, match="in a statement of its own"):
        left, right = policy.predict([0.5, -1.0])
    action = policy.predict([0.5, -1.0])
    left, right = action
    assert (left, right) == (0.5, -1.0)
    first, *rest = policy.predict([1.0, 2.0, 3.0])
    assert (first, rest) == (1.0, [2.0, 3.0])


def test_the_habit_is_refused_with_keywords_in_methods_and_under_a_debugger() -> None:
    class Robot:
        def act(self, obs: Any) -> None:
            self.action, self.state = policy.predict(obs=obs)

    before, seen = sys.gettrace(), []
    sys.settrace(lambda *event: seen.append(event))
    try:
        with pytest.raises(UsageError):
            Robot().act([1.0, 2.0, 3.0])
    finally:
        sys.settrace(before)
    assert seen


def test_a_corrected_cell_of_a_notebook_runs() -> None:
    source = "action{} = policy.predict([1.0, 2.0])"
    with pytest.raises(UsageError):
        exec(source.format(", _"), {"policy": policy})
    exec(source.format(""), {"policy": policy})


def test_a_pair_made_of_an_action_and_something_else_is_unpacked() -> None:
    action, step = policy.predict([1.0, 2.0]), 3
    assert (action.shape, step) == ((2,), 3)


def test_another_python_without_frames_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "currentframe", lambda: None)
    action, _ = policy.predict([1.0, 2.0])
    assert action == 1.0
