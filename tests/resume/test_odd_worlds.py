"""What else an environment can do: fail or hang while it is made, and answer with things that are no step."""

import time
from typing import Any

import gymnasium
import pytest

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

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        if self.t == 2:
            terminated = [True, False] if self.way == "two ends" else terminated
            truncated = "perhaps" if self.way == "a word" else truncated
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


def test_one_that_hangs_while_it_is_made_is_given_up() -> None:
    with pytest.raises(RunError, match=r"did not answer .* within 0\.2 s"):
        make(odd("hangs"), 2, limits=[1.0], timeout=0.2)


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("two ends", r"environment 0 .* returned \[True, False\] as its terminated at step 1: it must be a number"),
        ("a word", r"environment 0 .* returned 'perhaps' as its truncated"),
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
