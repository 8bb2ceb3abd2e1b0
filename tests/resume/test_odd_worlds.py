"""What else an environment can do: fail or hang while it is made, and answer with things that are no step."""

import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from focops.envs import make
from focops.errors import RunError, UsageError
from tests.resume.worlds import Drift


class Odd(Drift):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        if way == "raises":
            raise ZeroDivisionError("no world today")
        if way == "hangs":
            time.sleep(60)
        if way == "exits when made":
            sys.exit(0)

    def reset(self, **kwargs: Any) -> Any:
        if self.way == "exits in reset":
            sys.exit(0)
        return super().reset(**kwargs)

    def close(self) -> None:
        if self.way == "exits in close":
            sys.exit(0)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        if self.t == 2:
            terminated = [True, False] if self.way == "two ends" else terminated
            terminated = None if self.way == "no end" else terminated
            truncated = {"a word": "perhaps", "NaN": float("nan")}.get(self.way, truncated)
            info = None if self.way == "no info" else info
        return obs, reward, terminated, truncated, info


def odd(way: str) -> str:
    name = f"Odd-{way.replace(' ', '')}-v0"
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=Odd, kwargs={"way": way})
    return name


def test_one_that_cannot_be_made_says_why_and_where() -> None:
    with pytest.raises(
        UsageError, match=r"could not be made: ZeroDivisionError: no world today \(.*odd_worlds.py:\d+\)"
    ):
        make(odd("raises"), 2, limits=[1.0])


@pytest.mark.parametrize("where", ["when made", "in reset"])
def test_one_that_exits_does_not_end_the_program(where: str) -> None:
    with pytest.raises(UsageError, match=r"SystemExit: 0 \(.*odd_worlds.py:\d+\)"):
        make(odd(f"exits {where}"), 2, limits=[1.0])


def test_one_that_exits_when_it_is_closed_is_said_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    make(odd("exits in close"), 2, limits=[1.0]).close()
    said = [record.getMessage() for record in caplog.records]
    assert [f"environment {i} of " in message for i, message in enumerate(said)] == [True, True]
    assert all("raised SystemExit: 0" in message for message in said)


def test_a_module_that_exits_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "exits_at_import.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=r"'exits_at_import' called sys.exit\(0\)"):
        make("exits_at_import:Any-v0", 2, limits=[1.0])


class Classes(Drift):
    """Its third observation has a class that the space does not have."""

    def __init__(self, space: gymnasium.Space, wrong: Any) -> None:
        super().__init__()
        self.observation_space, self.wrong = space, wrong
        self.right = space.sample()

    def reset(self, **kwargs: Any) -> Any:
        return self.right, super().reset(**kwargs)[1]

    def step(self, action: Any) -> Any:
        return (self.wrong if self.t == 1 else self.right), *super().step(action)[1:]


@pytest.mark.parametrize(
    ("space", "wrong"),
    [
        (spaces.Discrete(3), -1),
        (spaces.Discrete(3, start=5), 4),
        (spaces.Discrete(3, start=5), 8),
        (spaces.MultiDiscrete([2, 3]), np.array([1, -1])),
        (spaces.Dict({"a": spaces.Discrete(3)}), {"a": -1}),
        (spaces.Tuple([spaces.Discrete(3)]), (-1,)),
    ],
)
def test_a_class_that_the_space_does_not_have_is_refused(space: gymnasium.Space, wrong: Any) -> None:
    gymnasium.register("Classes-v0", entry_point=Classes, kwargs={"space": space, "wrong": wrong})
    try:
        env = make("Classes-v0", 1, limits=[1.0])
        env.step(np.zeros((1, 1)))
        with pytest.raises(RunError, match=r"not of its observation space .* at step 1 \(.* is not within"):
            env.step(np.zeros((1, 1)))
    finally:
        del gymnasium.registry["Classes-v0"]


def test_one_that_hangs_while_it_is_made_is_given_up() -> None:
    with pytest.raises(RunError, match=r"did not answer .* within 0\.2 s"):
        make(odd("hangs"), 2, limits=[1.0], timeout=0.2)


@pytest.mark.parametrize(
    ("way", "message"),
    [
        (
            "two ends",
            r"environment 0 .* returned \[True, False\] as its terminated at step 1: it must be True or False",
        ),
        ("a word", r"environment 0 .* returned 'perhaps' as its truncated"),
        ("no end", r"environment 0 .* returned None as its terminated at step 1: it must be True or False"),
        ("NaN", r"environment 0 .* returned nan as its truncated at step 1: it must be True or False"),
        ("no info", r"environment 0 .* returned no cost"),
    ],
)
def test_answers_that_are_no_step_are_named(way: str, message: str) -> None:
    env = make(odd(way), 2, limits=[1.0])
    env.step(env.obs[:, :1])
    with pytest.raises(RunError, match=message):
        env.step(env.obs[:, :1])


def test_a_deadline_leaves_the_alarm_as_it_was() -> None:
    import signal

    before = signal.getsignal(signal.SIGALRM)
    env = make(odd("fine"), 2, limits=[1.0], timeout=5.0)
    env.step(env.obs[:, :1])
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
