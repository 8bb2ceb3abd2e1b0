"""What is shown while something is counted, as runs that are evaluated or pictures that are drawn."""

import sys
import time
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from focops.display.numbers import clock
from focops.display.progress import PLAIN_SECONDS


class Counter:
    """A bar in a terminal, a line every few seconds elsewhere; on standard error, so that it is not in the result."""

    def __init__(self, title: str, unit: str) -> None:
        self._title, self._unit, self._console = title, unit, Console(stderr=True, highlight=False)
        self._done, self._total, self._note = 0, 0, ""
        self._began = self._printed = time.monotonic()
        is_live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live = Live(
            console=self._console, refresh_per_second=4, transient=True, get_renderable=self._render
        ) if is_live else None  # fmt: skip

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        else:
            print(self._title, file=sys.stderr, flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, done: int, total: int, note: str = "") -> None:
        """So many are done, of at most `total`; `note` says what is under way."""
        self._done, self._total, self._note = done, total, note
        if self._live is None and time.monotonic() - self._printed >= PLAIN_SECONDS:
            self._printed = time.monotonic()
            print("  ".join(filter(None, [self._numbers(), note])), file=sys.stderr, flush=True)

    def _numbers(self) -> str:
        elapsed = time.monotonic() - self._began
        if not self._total:
            return f"starting  {clock(elapsed)}"
        left = elapsed * (self._total / self._done - 1) if self._done else None
        return f"{self._done} of {self._total} {self._unit}  {clock(elapsed)}  left {clock(left)}"

    def _render(self) -> RenderableType:
        bar = Table.grid(padding=(0, 2), expand=True)
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True)
        bar.add_row(ProgressBar(total=max(self._total, 1), completed=self._done), self._numbers())
        notes = [Text(self._note, "dim", no_wrap=True, overflow="ellipsis")] if self._note else []
        return Group(Text(self._title, "bold", no_wrap=True, overflow="ellipsis"), bar, *notes)
