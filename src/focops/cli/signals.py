"""What stops a run: signals, and a standard output whose reader has gone."""

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from focops.display.say import say

HANG_UP: int | None = getattr(signal, "SIGHUP", None)
"""The terminal was closed; Windows has no such signal."""
BROKEN_PIPE = 13
"""SIGPIPE, in the exit status; Windows does not name it."""
STOPS = tuple(number for number in (signal.SIGINT, signal.SIGTERM, HANG_UP) if number is not None)
"""Signals that end a run after the iteration that it is in."""


def conclude(again: str, failures: Sequence[str], total: int, stopped: Sequence[int]) -> int:
    """Say how a grid of runs ended, and the command that resumes it; the exit status."""
    for failure in failures:
        say("failed:", failure, "bold red")
    if stopped:
        say("stopped.", f"Resume:  {again}")
        return 128 + stopped[0]
    if failures:
        say("failed:", f"{len(failures)} of {total}. Try them again with:  {again}", "bold red")
    return 1 if failures else 0


@contextmanager
def stop_on_signals(at_once: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """A list that the first of STOPS is put into; a second one calls `at_once` and ends the process.

    A second SIGHUP does not: a closed terminal sends several. Where it is ignored (nohup), it stays so."""
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received and number == HANG_UP:
            return
        if received:
            at_once()
            if sys.stdout.isatty():
                os.write(1, b"\x1b[?25h\n")  # a live display hides the cursor
            os._exit(128 + number)
        received.append(number)
        say("stopping", "after this iteration; once more stops at once, without a checkpoint")

    heeded = [number for number in STOPS if number != HANG_UP or signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, handle) for number in heeded}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def while_heard(display: Any, stopped: list[int]) -> Any:
    """The display, until its stream fails. A reader that has gone (`| head`) puts SIGPIPE into `stopped`, which ends
    the run as STOPS do; any other failure, such as a full disk, is reported once and the run continues."""
    return _WhileHeard(display, stopped)


class _WhileHeard:
    def __init__(self, display: Any, stopped: list[int]) -> None:
        self._display, self._stopped, self._failed = display, stopped, False

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._call, getattr(self._display, name))

    def __enter__(self) -> Any:
        self._call(self._display.__enter__)
        return self

    def __exit__(self, *raised: object) -> None:
        self._call(self._display.__exit__, *raised)

    def _call(self, method: Callable[..., Any], *args: Any) -> None:
        if self._failed:
            return
        try:
            method(*args)
        except BrokenPipeError:
            self._failed = True
            self._stopped.append(BROKEN_PIPE)
        except OSError as error:
            self._failed = True
            say("warning:", f"standard output cannot be written to ({error.strerror}); the run continues without it")
