"""What a grid shows while it runs: one table for all its runs, or a line for each that ends."""

from collections import Counter
from pathlib import Path
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from focops.display.numbers import count, number
from focops.display.progress import Pace, against, constraint_names, line
from focops.display.summary import policy_line, shares, verdicts

STYLES = {"running": "cyan", "done": "green", "failed": "bold red", "stopped": "yellow", "waiting": "dim"}
_BAR_WIDTH = 12


def choose_display(base: Path, jobs: list[Any], quiet: bool) -> "GridLines":
    """The display that suits the output: a terminal, or a file or pipe."""
    console = Console(highlight=False)
    live = not quiet and console.is_terminal and not console.is_dumb_terminal
    return GridTable(base, jobs, console) if live else GridLines(base, jobs)


class GridLines:
    """A line for each run that ends."""

    def __init__(self, base: Path, jobs: list[Any]) -> None:
        self.base, self.jobs = base, jobs

    def __enter__(self) -> Self:
        print(f"{len(self.jobs)} runs → {self.base}", flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        print(heading(self.jobs).plain, flush=True)
        found = _shares(self.jobs)
        if found:
            print(found, flush=True)

    def update(self) -> None: ...

    def ended(self, job: Any) -> None:
        record = job.record
        said = line(record, Pace(record.get("samples_per_second"))) if record else job.error
        summary = job.summary or {}
        policy = f"  {policy_line(summary)}" if summary.get("policy") else ""
        print(f"{job.state:<8} {job.name}  {said}{policy}", flush=True)


class GridTable(GridLines):
    """A row for each run under way, redrawn in place; in the end, one for every run."""

    def __init__(self, base: Path, jobs: list[Any], console: Console) -> None:
        super().__init__(base, jobs)
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._show(self.jobs, _shares(self.jobs))
        self._live.stop()

    def update(self) -> None:
        self._show([job for job in self.jobs if job.state in ("running", "failed")])

    def ended(self, job: Any) -> None: ...

    def _show(self, jobs: list[Any], foot: str = "") -> None:
        title = Text.assemble(heading(self.jobs), (f" → {self.base}", "dim"), overflow="ellipsis", no_wrap=True)
        self._live.update(Group(title, table(jobs), *[Text(foot)] * bool(foot)), refresh=True)


def _shares(jobs: list[Any]) -> str:
    return shares([summary for summary in (job.summary for job in jobs if job.state == "done") if summary])


def heading(jobs: list[Any]) -> Text:
    """The number of runs in each state."""
    states = Counter(job.state for job in jobs)
    parts = [(f"{states[state]} {state}", style) for state, style in STYLES.items() if states[state]]
    separated = [part for each in parts for part in (", ", each)][1:]
    return Text.assemble((f"{len(jobs)} runs: ", "bold"), *separated)


def table(jobs: list[Any]) -> RenderableType:
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
    """The discounted cost of recent episodes, or its estimate until one has ended."""
    limit, mean = record[f"cost_limit/{name}"], record.get(f"discounted_cost_mean/{name}")
    cost = record.get(f"cost_return_estimate/{name}") if mean is None else mean
    return Text.assemble(against(cost, limit), f" / {number(limit)}")
