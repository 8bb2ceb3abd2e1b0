"""What a grid or a study shows while it runs: how far it is in all, and each run under way; where there is no terminal,
a line now and then, and one for each run that ends."""

import time
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from focops.display.numbers import clock, count, number
from focops.display.progress import Pace, against, constraint_names, line
from focops.display.summary import policy_line, shares, verdicts

STYLES = {"running": "cyan", "done": "green", "failed": "bold red", "stopped": "yellow", "waiting": "dim"}
_BAR_WIDTH = 12
_LINE_SECONDS = 10.0
"""Between two lines where there is no terminal."""
_WINDOW_SECONDS = 120.0
"""Over which the rate is measured."""
_OTHER_LINES = 6
"""Of the terminal's height, those without a run."""


def choose_display(base: Path, jobs: Sequence[Any], quiet: bool) -> "GridLines":
    """The display that suits the output: a terminal, or a file or pipe."""
    console = Console(highlight=False)
    live = not quiet and console.is_terminal and not console.is_dumb_terminal
    return GridTable(base, jobs, console) if live else GridLines(base, jobs, np.inf if quiet else _LINE_SECONDS)


class GridLines:
    """A line every few seconds, and one for each run that ends."""

    def __init__(self, base: Path, jobs: Sequence[Any], every_s: float = np.inf) -> None:
        self.base, self.jobs, self.every_s = base, jobs, every_s
        self.pace, self.note = TotalPace(jobs), ""
        self._printed = time.monotonic()

    def __enter__(self) -> Self:
        print(f"{plural(len(self.jobs), 'run')} → {self.base}", flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        print(heading(self.jobs).plain, flush=True)
        found = _shares(self.jobs)
        if found:
            print(found, flush=True)

    def update(self, note: str | None = None) -> None:
        """Time has passed; `note` says what is under way, if that has changed."""
        is_new = bool(note) and note != self.note and self.every_s < np.inf  # not if quiet
        self.note = self.note if note is None else note
        if is_new or time.monotonic() - self._printed >= self.every_s:
            self._printed = time.monotonic()
            self.pace.update(self._printed)
            parts = [heading(self.jobs, self.pace, self.note).plain, *overview(self.jobs)]
            print("  ".join(parts), flush=True)

    def ended(self, job: Any) -> None:
        record = job.record
        said = line(record, Pace(record.get("samples_per_second"))) if record else job.error
        summary = job.summary or {}
        policy = f"  {policy_line(summary)}" if summary.get("policy") else ""
        print(f"{job.state:<8} {job.name}  {said}{policy}", flush=True)


class GridTable(GridLines):
    """A row for each run under way, redrawn in place; in the end, one for every run."""

    def __init__(self, base: Path, jobs: Sequence[Any], console: Console) -> None:
        super().__init__(base, jobs)
        self._console, self._ended = console, False
        self._live = Live(console=console, refresh_per_second=2, get_renderable=self._render)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._live.stop()

    def ended(self, job: Any) -> None: ...

    def _render(self) -> RenderableType:
        self.pace.update(time.monotonic())
        if self._ended:
            foot = _shares(self.jobs)
            return Group(self._title(heading(self.jobs)), table(self.jobs), *[Text(foot)] * bool(foot))
        shown = [job for job in self.jobs if job.state in ("failed", "running")]
        fit = max(1, self._console.height - _OTHER_LINES)
        more = [Text(f"and {len(shown) - fit} more", style="dim")] * (len(shown) > fit)
        told = [Text("  ".join(overview(self.jobs)), overflow="ellipsis", no_wrap=True)]
        return Group(
            self._title(heading(self.jobs, self.pace, self.note)), self._bar(), *told, table(shown[:fit]), *more
        )

    def _title(self, said: Text) -> Text:
        return Text.assemble(said, (f" → {self.base}", "dim"), overflow="ellipsis", no_wrap=True)

    def _bar(self) -> RenderableType:
        bar = Table.grid(expand=True)  # a bar alone does not end its line
        bar.add_row(ProgressBar(total=self.pace.total or 1, completed=self.pace.total - self.pace.left_samples))
        return bar


class TotalPace:
    """The samples per second of all runs together, and the time that is left at that rate."""

    def __init__(self, jobs: Sequence[Any]) -> None:
        self._made = {job: _samples(job) for job in jobs}
        self._seen = deque[tuple[float, int]]()
        self.left_samples = self.total = 0

    def update(self, now: float) -> None:
        for job in self._made:
            if job.state in ("running", "done"):
                self._made[job] = _samples(job)
        going_on = [job for job in self._made if job.state not in ("failed", "stopped")]
        self.total = sum(job.steps for job in going_on)
        self.left_samples = sum(max(0, job.steps - self._made[job]) for job in going_on)
        made = sum(self._made.values())
        if len(self._seen) == 1 and self._seen[0][1] == made:
            self._seen.clear()  # the rate counts from the first progress: what compiles before says nothing of it
        self._seen.append((now, made))
        while now - self._seen[0][0] > _WINDOW_SECONDS and len(self._seen) > 2:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        if len(self._seen) < 2:
            return None
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        return (last - first) / (ended - began) if last > first and ended > began else None

    @property
    def left(self) -> float | None:
        return self.left_samples / self.rate if self.rate else None


def _samples(job: Any) -> int:
    if job.state == "done":
        return job.steps
    return (job.record or {}).get("samples", 0)


def _shares(jobs: Sequence[Any]) -> str:
    return shares([summary for summary in (job.summary for job in jobs if job.state == "done") if summary])


def heading(jobs: Sequence[Any], pace: TotalPace | None = None, note: str = "") -> Text:
    """The number of runs in each state, how fast they are together, and the time that is left."""
    states = Counter(job.state for job in jobs)
    parts = [(f"{states[state]} {state}", style) for state, style in STYLES.items() if states[state]]
    separated = [part for each in parts for part in (", ", each)][1:]
    rate = "" if pace is None else f" · {count(pace.rate)}/s · left {clock(pace.left)}"
    return Text.assemble((f"{plural(len(jobs), 'run')}: ", "bold"), *separated, rate, f" · {note}" if note else "")


def overview(jobs: Sequence[Any]) -> list[str]:
    """Of the runs under way, if several are of one task and algorithm: mean ± standard deviation of return, cost and
    multiplier, and how many are over their limit."""
    running = [job for job in jobs if job.state == "running"]
    records = [record for record in (job.record for job in running) if record]
    if len(records) < 2 or len({job.what for job in running}) > 1:
        return []
    parts = [running[0].what, f"return {spread([record.get('return_mean') for record in records])}"]
    for name in constraint_names(records[0]):
        costs = [_cost(record, name) for record in records]
        limits = [record[f"cost_limit/{name}"] for record in records]
        over = sum(cost is not None and cost > limit for cost, limit in zip(costs, limits, strict=True))
        same = number(limits[0]) if len(set(limits)) == 1 else "their limits"
        nu = spread([record.get(f"nu/{name}") for record in records])
        parts.append(f"{name} {spread(costs)} (limit {same}, {over} of {len(records)} over, ν {nu})")
    return parts


def table(jobs: Sequence[Any]) -> RenderableType:
    """A row per run: how far it is, its rate, return and costs against their limits in training; of runs that have
    ended, the verdicts on the policy and on its mean action."""
    rows = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    rows.add_column("run", no_wrap=True, overflow="ellipsis", ratio=1)
    any_ended = any(job.state == "done" for job in jobs)
    for title in ("", "samples", "rate", "return", "cost / limit", *["policy / mean action"] * any_ended):
        rows.add_column(title, no_wrap=True, justify="left" if not title else "right")
    for job in jobs:
        name = Text(job.name, style=STYLES[job.state])
        record = job.record
        if record is None:
            rows.add_row(name, Text("starting" if job.state == "running" else job.state, style="dim"))
            continue
        bar = ProgressBar(total=record["steps"], completed=record["samples"], width=_BAR_WIDTH)
        trained = job.state == "running" and record["samples"] >= record["steps"]
        rate = "evaluating" if trained else f"{count(record.get('samples_per_second'))}/s"
        cells = [cost_against_limit(record, constraint) for constraint in constraint_names(record)]
        numbers = count(record["samples"]), rate, number(record.get("return_mean"))
        found = [verdicts(job.summary if job.state == "done" else None)] * any_ended
        rows.add_row(name, bar, *numbers, Text("  ").join(cells), *found)
    return rows


def cost_against_limit(record: dict[str, Any], name: str) -> Text:
    limit = record[f"cost_limit/{name}"]
    return Text.assemble(against(_cost(record, name), limit), f" / {number(limit)}")


def _cost(record: dict[str, Any], name: str) -> float | None:
    """The discounted cost of recent episodes, or its estimate until one has ended."""
    mean = record.get(f"discounted_cost_mean/{name}")
    return record.get(f"cost_return_estimate/{name}") if mean is None else mean


def spread(values: Sequence[float | None]) -> str:
    """mean ± standard deviation of the values that are not None."""
    known = [value for value in values if value is not None]
    return f"{number(float(np.mean(known)))} ± {number(float(np.std(known)))}" if known else "–"


def plural(number: int, what: str) -> str:
    """3 runs, 1 run."""
    return f"{number} {what}{'s' if number != 1 else ''}"
