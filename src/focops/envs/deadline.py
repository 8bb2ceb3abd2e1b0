"""A limit on how long somebody else's code may take."""

import signal
import threading
from collections.abc import Callable
from typing import Any

from focops.errors import RunError


class _Expired(BaseException):
    """Not an Exception: code that catches all of those must not swallow it."""


class Deadline:
    """A context that RunError(`message()`) ends after `seconds`; 0 for none. Costs about 3 µs.

    It works in the main thread alone, where Python handles signals, and interrupts sleeping, waiting and Python code;
    compiled code that never returns to Python is beyond it.
    """

    def __init__(self, seconds: float, message: Callable[[], str]) -> None:
        self._seconds, self._message = seconds, message
        self._previous: Any = None

    def __enter__(self) -> None:
        self._armed = self._inside = self._seconds > 0 and threading.current_thread() is threading.main_thread()
        if self._armed:
            self._previous = signal.signal(signal.SIGALRM, self._expire)
            signal.setitimer(signal.ITIMER_REAL, self._seconds, 1.0)  # once more each second, if it was swallowed

    def __exit__(self, kind: type | None, *_: object) -> None:
        self._inside = False
        if self._armed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._previous)
        if kind is _Expired:
            raise RunError(f"{self._message()} within {self._seconds:g} s (--env-timeout)") from None

    def _expire(self, *_: object) -> None:
        if self._inside:
            raise _Expired
