"""A time limit for code that is not ours."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from focops.display.say import say
from focops.errors import RunError

REPEAT_SECONDS = 1.0
"""Seconds between two attempts to interrupt code that catches what is raised in it."""
_ATTEMPTS = 5
"""Attempts after which the process is ended."""
_last_actions: list[Callable[[RunError], RunError]] = []


@contextmanager
def before_giving_up(action: Callable[[RunError], RunError]) -> Iterator[None]:
    """A context in which `action` is called before the process is ended because an environment cannot be interrupted.
    `action` saves the last valid state and returns the error to show."""
    _last_actions.append(action)
    try:
        yield
    finally:
        _last_actions.remove(action)


class _Expired(BaseException):
    """Not an Exception, so that `except Exception` does not catch it."""


class Deadline:
    """A context that raises RunError(`message()`) after `seconds`; 0 for no limit. Costs about 3 µs.

    It works only in the main thread, where Python handles signals, and not on Windows, which has no timer that sends
    one. It interrupts sleeping, waiting and Python code, but not compiled code that never returns to Python. Code that
    catches every interruption ends the process.
    """

    def __init__(self, seconds: float, message: Callable[[], str]) -> None:
        self._seconds, self._message = seconds, message
        self._previous: Any = None

    def __enter__(self) -> None:
        possible = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        self._armed = self._inside = possible and self._seconds > 0
        self._attempts = 0
        if self._armed:
            self._previous = signal.signal(signal.SIGALRM, self._expire)
            signal.setitimer(signal.ITIMER_REAL, self._seconds, REPEAT_SECONDS)  # again, if it was caught

    def __exit__(self, kind: type | None, *_: object) -> None:
        self._inside = False
        if self._armed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._previous)
        if kind is _Expired:
            raise RunError(f"{self._message()} within {self._seconds:g} s (--env-timeout)") from None

    def _expire(self, *_: object) -> None:
        if self._inside:
            self._attempts += 1
            if self._attempts > _ATTEMPTS:
                self._give_up()
            raise _Expired

    def _give_up(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        error = RunError(
            f"{self._message()} within {self._seconds:g} s (--env-timeout) and swallows every interruption"
        )
        try:
            for action in list(_last_actions):
                error = action(error)
        except BaseException as problem:  # it would be caught as well
            error = RunError(f"{error}; {problem}")
        say("error:", str(error), "bold red")
        os._exit(1)
