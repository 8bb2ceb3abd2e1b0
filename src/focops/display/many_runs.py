"""What is shown while many runs train as one program: a summary of all, and a row each for some of them."""

import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from focops.display.grid import cost_against_limit
from focops.display.numbers import clock, count, number
from focops.display.progress import PLAIN_SECONDS, ManyDisplay, Pace, Record, constraint_names

_ROWS = 12
"""Runs that have a row of their own."""


def choose_display(program: int, programs: int, quiet: bool) -> ManyDisplay:
    """The display that suits the output: a terminal, or a file or pipe."""
    console = Console(highlight=False)
    which = f"program {program} of {programs}: " if programs > 1 else ""
    if quiet or not console.is_terminal or console.is_dumb_terminal:
        return ManyRunsLines(which, sys.stdout, np.inf if quiet else PLAIN_SECONDS)
    return ManyRunsTable(which, console)


class ManyRunsLines:
    """The first and the last iteration, and one every few seconds, as lines."""

    def __init__(self, which: str, stream: TextIO, every_s: float) -> None:
        self._which, self._stream, self._every = which, stream, every_s
        self._records: dict[str, Record] = {}
        self._printed, self._pace = -np.inf, Pace()
        self._title, self._names = "", list[str]()
        self._began = time.monotonic()

    def start(self, configs: Sequence[Any], spec: Any) -> None:
        self._title = title(self._which, configs)
        self._names = [config.out.name for config in configs]
        self._began = time.monotonic()
        self._open()

    def update(self, records: Sequence[Record | None]) -> None:
        self._records = {name: r for name, r in zip(self._names, records, strict=True) if r is not None}
        self._pace.update(next(iter(self._records.values()), {}))  # all have the same rate
        if self._records and time.monotonic() - self._printed >= self._every:
            self._print()

    def note(self, message: str) -> None:
        if self._records:
            self._print()
        if self._every < np.inf:  # not if quiet
            print(message, file=self._stream, flush=True)

    def stop(self) -> None:
        if self._records:
            self._print()

    def _open(self) -> None:
        print(self._title, file=self._stream, flush=True)

    def _print(self) -> None:
        print(_overview(list(self._records.values()), self._pace).plain, file=self._stream, flush=True)
        self._records, self._printed = {}, time.monotonic()


class ManyRunsTable(ManyRunsLines):
    """The same in place, with a bar and a row for the first runs."""

    def __init__(self, which: str, console: Console) -> None:
        super().__init__(which, console.file, np.inf)  # type: ignore[arg-type]
        self._note = ""
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._render)

    def note(self, message: str) -> None:
        self._note = message

    def stop(self) -> None:
        self._note = ""
        self._live.stop()

    def _open(self) -> None:
        self._live.start()

    def _print(self) -> None: ...

    def _render(self) -> RenderableType:
        head = Text(self._title, style="bold", no_wrap=True, overflow="ellipsis")
        if not self._records:
            doing = self._note or "compiling and collecting the first batch"
            return Group(head, Text(f" {doing}  {clock(time.monotonic() - self._began)}"))
        records = list(self._records.values())
        bar = Table.grid(expand=True)  # a bar alone does not end its line
        bar.add_row(ProgressBar(total=records[0]["steps"], completed=records[0]["samples"]))
        notes = [Text(self._note)] if self._note else []
        return Group(head, bar, _overview(records, self._pace), rows(self._records), *notes)


def title(which: str, configs: Sequence[Any]) -> str:
    first = configs[0]
    return (
        f"{which}{plural(len(configs), 'run')} · {first.task} · {first.algorithm} · {first.preset} → {first.out.parent}"
    )


def _overview(records: Sequence[Record], pace: Pace) -> Text:
    """All runs of an iteration in one line: how far, how fast, mean return, costs against limits, runs beyond them."""
    first = records[0]
    parts = [
        f"{count(first['samples'])}/{count(first['steps'])} each",
        f"{count(pace.rate and pace.rate * len(records))}/s",
        f"left {clock(pace.left(first))}",
        f"return {spread([record['return_mean'] for record in records])}",
    ]
    for name in constraint_names(first):
        costs = [_cost(record, name) for record in records]
        limits = [record[f"cost_limit/{name}"] for record in records]
        over = sum(cost > limit for cost, limit in zip(costs, limits, strict=True))
        same = number(limits[0]) if len(set(limits)) == 1 else "their limits"
        nu = spread([record.get(f"nu/{name}") for record in records])
        parts.append(f"{name} {spread(costs)} (limit {same}, {over} of {len(records)} over, ν {nu})")
    return Text("  ".join(parts))


def spread(values: Sequence[float | None]) -> str:
    """mean ± standard deviation of the values that are not None."""
    known = [value for value in values if value is not None]
    return f"{number(float(np.mean(known)))} ± {number(float(np.std(known)))}" if known else "–"


def rows(records: dict[str, Record]) -> RenderableType:
    """A row for each of the first runs."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for heading in ("run", "return", "cost / limit", "ν"):
        table.add_column(heading, no_wrap=True, justify="left" if heading == "run" else "right")
    for name, record in list(records.items())[:_ROWS]:
        constraints = constraint_names(record)
        cells = [cost_against_limit(record, constraint) for constraint in constraints]
        nus = "  ".join(number(record.get(f"nu/{constraint}")) for constraint in constraints)
        table.add_row(name, number(record["return_mean"]), Text("  ").join(cells), nus)
    if len(records) > _ROWS:
        table.add_row(Text(f"and {len(records) - _ROWS} more", style="dim"))
    return table


def plural(number: int, what: str) -> str:
    """3 runs, 1 run."""
    return f"{number} {what}{'s' if number != 1 else ''}"


def _cost(record: Record, name: str) -> float:
    """The discounted cost of recent episodes, or its estimate until one has ended."""
    mean = record.get(f"discounted_cost_mean/{name}")
    return record[f"cost_return_estimate/{name}"] if mean is None else mean
