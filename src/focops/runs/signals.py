"""Messages on standard error, and signals that ask a run to stop."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


def say(what: str, message: str, style: str = "bold yellow") -> None:
    """A message on standard error, above a live display if there is one."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    with console.capture() as captured:
        console.print(Text.assemble((what, style), " ", message), soft_wrap=True)
    sys.stderr.write(captured.get())  # which a live display has replaced; the console would write past it
    sys.stderr.flush()


def conclude(base: Path, failures: Sequence[str], total: int, stopped: Sequence[int]) -> int:
    """Say how a grid of runs ended and how to go on with it; the exit status."""
    for failure in failures:
        say("failed:", failure, "bold red")
    if stopped:
        say("stopped.", f"Go on with:  focops resume {base}")
        return 128 + stopped[0]
    if failures:
        say("failed:", f"{len(failures)} of {total}. Try them again with:  focops resume {base}", "bold red")
    return 1 if failures else 0


@contextmanager
def stop_on_signals(at_once: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """A list that the first SIGINT or SIGTERM is put into; a second one calls `at_once` and ends the process."""
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received:
            at_once()
            if sys.stdout.isatty():
                os.write(1, b"\x1b[?25h\n")  # a live display hides the cursor
            os._exit(128 + number)
        received.append(number)
        say("stopping", "after this iteration; once more stops at once, without a checkpoint")

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
