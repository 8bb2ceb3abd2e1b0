"""The display of a run in a notebook, and the display that `focops.train` shows by itself."""

import io
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.spinner import Spinner

from focops.display.progress import Display, LiveDisplay, Record, choose_display
from focops.errors import UsageError

_SECONDS = 0.5
"""Between two drawings, at least."""
_WIDTH = 100
_FORMAT = '<pre style="line-height: normal; font-family: monospace">{code}</pre>'


def display_for(asked: Display | bool | None) -> Display | None:
    """True: the display that suits the output; None: the same, but only in a terminal or a notebook; False: none."""
    if asked is None:
        asked = in_notebook() or (sys.stdout is not None and sys.stdout.isatty())
    if isinstance(asked, bool):
        return (NotebookDisplay() if in_notebook() else choose_display()) if asked else None
    missing = [name for name in ("start", "update", "stop") if not callable(getattr(asked, name, None))]
    if missing:
        raise UsageError(
            f"display is {asked!r}, which has no {missing[0]}(); it must be True, False, None for the default, or an"
            " object with start(config, spec), update(record) and stop()"
        )
    return asked


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    return "IPython" in sys.modules and Console(file=io.StringIO()).is_jupyter


class NotebookDisplay(LiveDisplay):
    """What a terminal shows, as one output of a cell that is replaced while the run goes on."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO(), record=True, width=_WIDTH, highlight=False, force_jupyter=False))
        self._live: Any = _Cell(self._bundle)

    def update(self, record: Record) -> None:
        super().update(record)
        if time.monotonic() - self._live.drawn >= _SECONDS:
            self._live.draw()

    def note(self, message: str) -> None:
        self._note = Spinner("dots", f" {message}")
        self._live.draw()

    def _bundle(self) -> dict[str, str]:
        """HTML, and plain text for what cannot show it."""
        self._console.print(self._render())
        html = self._console.export_html(inline_styles=True, code_format=_FORMAT, clear=False)
        return {"text/html": html, "text/plain": self._console.export_text()}


class _Cell:
    """An output of the cell that is run, in the place of Rich's Live, which needs ipywidgets."""

    def __init__(self, content: Callable[[], dict[str, str]]) -> None:
        self._content, self._handle, self.drawn = content, None, 0.0

    def start(self) -> None:
        from IPython.display import display

        self._handle = display(self._content(), raw=True, display_id=True)

    def draw(self) -> None:
        self.drawn = time.monotonic()
        if self._handle is not None:
            self._handle.update(self._content(), raw=True)

    stop = draw
