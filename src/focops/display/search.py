"""What a search shows while it runs: how many trials have ended and how, the best so far, and the runs under way."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from focops.display.grid import table
from focops.display.numbers import clock, number
from focops.display.progress import against

STYLES = {"running": "cyan", "done": "green", "pruned": "yellow", "failed": "bold red"}


def choose_display(base: Path, total: int, ranked: Callable[[], Sequence[Any]], quiet: bool) -> "SearchLines":
    """The display that suits the output. `ranked` gives all trials with the best first."""
    console = Console(highlight=False)
    live = not quiet and console.is_terminal and not console.is_dumb_terminal
    return SearchTable(base, total, ranked, console) if live else SearchLines(base, total, ranked)


class SearchLines:
    """A line for each trial that ends."""

    def __init__(self, base: Path, total: int, ranked: Callable[[], Sequence[Any]]) -> None:
        self.base, self.total, self.ranked = base, total, ranked
        self._ended, self._began = 0, time.monotonic()

    def __enter__(self) -> Self:
        print(self.heading().plain, flush=True)
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, running: Sequence[Any]) -> None:
        """Time has passed; `running` are runs."""

    def ended(self, attempt: Any) -> None:
        """A trial has ended."""
        self._ended += 1
        found = "" if attempt.outcome is None else f"return {number(attempt.outcome.reward)}  {costs(attempt.outcome)}"
        what = f"{attempt.state:<8} trial {attempt.trial.number}  {attempt.why or found.rstrip()}"
        print(f"{what}  ({settings(attempt.trial.values)})  left {clock(self.left)}", flush=True)

    @property
    def left(self) -> float | None:
        """Seconds, if the other trials take as long as those that have ended meanwhile."""
        states = Counter(trial.state for trial in self.ranked())
        waiting = self.total - sum(states.values()) + states["running"]
        return waiting * (time.monotonic() - self._began) / self._ended if self._ended else None

    def heading(self) -> Text:
        states = Counter(trial.state for trial in self.ranked())
        parts = [(f"{states[state]} {state}", style) for state, style in STYLES.items() if states[state]]
        separated = [part for each in parts for part in (", ", each)][1:] or ["none yet"]
        return Text.assemble((f"{self.total} trials: ", "bold"), *separated, (f" → {self.base}", "dim"))


class SearchTable(SearchLines):
    """Redrawn in place."""

    def __init__(self, base: Path, total: int, ranked: Callable[[], Sequence[Any]], console: Console) -> None:
        super().__init__(base, total, ranked)
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.update(self.heading(), refresh=True)
        self._live.stop()

    def update(self, running: Sequence[Any]) -> None:
        self._live.update(self._render(running), refresh=True)

    def ended(self, attempt: Any) -> None:
        self._ended += 1

    def _render(self, running: Sequence[Any]) -> RenderableType:
        left = Text(f"left {clock(self.left)}", style="dim")
        return Group(Text("  ").join([self.heading(), left]), best_line(self.ranked()), table(running))


def best_line(ranked: Sequence[Any]) -> Text:
    """The best trial so far that keeps its limits, or the nearest to that."""
    done = [trial for trial in ranked if trial.outcome is not None]
    if not done:
        return Text("no trial has ended yet", style="dim")
    first = done[0]
    what = "best so far" if first.outcome.worst == 0 else "none within its limits yet; nearest"
    found = [f"{what}: trial {first.number}, return {number(first.outcome.reward)}  ", costs(first.outcome)]
    return Text.assemble(*found, (f"  ({settings(first.values)})", "dim"), overflow="ellipsis", no_wrap=True)


def costs(outcome: Any) -> Text:
    """speed 78.1 / 82.7"""
    each = (
        Text.assemble(f"{name} ", against(cost, outcome.limits[name]), f" / {number(outcome.limits[name])}")
        for name, cost in outcome.costs.items()
    )
    return Text("  ").join(each)


def settings(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in values.items())


def best_table(ranked: Sequence[Any], most: int) -> Table:
    """The best trials, and the one that the search started from."""
    done = [trial for trial in ranked if trial.outcome is not None]
    shown = done[:most] + [trial for trial in done[most:] if trial.number == 0]
    rows = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    names = list(shown[0].values)
    for title in ("trial", "return", "cost / limit", *(name.rpartition(".")[2] for name in names)):
        rows.add_column(title, justify="right", no_wrap=True)
    for trial in shown:
        values = [str(trial.values[name]) for name in names]
        rows.add_row(str(trial.number), number(trial.outcome.reward), costs(trial.outcome), *values)
    return rows
