"""`focops plot` and `focops report`: what runs and studies show, as pictures, pages and tables."""

import os
import signal
import sys
import time
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from focops.display.say import say
from focops.errors import UsageError
from focops.studies import report
from focops.studies.groups import XAxis
from focops.studies.panels import NO_EPISODE
from focops.studies.plot import drawn, require_suffix
from focops.studies.results import Results, read, title
from focops.studies.tables import Table

REFRESH_S = 10.0
"""Between two pages of --watch."""
_COMPARED = ("training", "robust")
"""The tables that `focops plot` prints."""


def _file(default: str) -> Any:
    return tyro.conf.arg(metavar="FILE", help_behavior_hint=default)


@dataclass(frozen=True)
class PlotOptions:
    """Draw return, cost against its limit, ν and KL of any runs, also of runs in progress, and compare them in a table.

    Runs that differ only in their seed are drawn as their mean, with a 95% band.
    """

    runs: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="(required)")
    ]
    """The directory of a run, of a grid, or of several grids; or several of them."""
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: plot.png there, shown)")
    ] = None
    """Where it is drawn: .png, .svg, .pdf, or .html for a page to zoom in."""
    x: XAxis = "samples"
    """The horizontal axis: samples, or wall-clock time."""


@dataclass(frozen=True)
class ReportOptions:
    """Write a study's report: one HTML page that needs no network, with figures and tables in a folder beside it."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The directory of a grid, or of several grids."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: report.html in DIR)")] = (
        None
    )
    """The page; the folder beside it has the same name without .html."""
    watch: tyro.conf.FlagCreatePairsOff[bool] = False
    """Write the page anew every few seconds until no run is in progress; an open browser shows it."""


def plot(words: list[str]) -> int:
    options = tyro.cli(PlotOptions, args=words, prog="focops plot")
    if not options.runs:
        raise UsageError("RUN is missing; give the directory of a run or of a grid, or several")
    runs = [run for run in options.runs if not run.is_file()] or options.runs  # the shell's runs/* has files as well
    file = options.out or runs[0] / "plot.png"
    require_suffix(file, "--out")
    study = report.Study(_read(runs))
    drawn(study, file, title(runs), options.x)
    _print_tables(study)
    is_shown = options.out is None and _show(file)
    print(f"{study.status}; drawn in {file}" + ", which is shown" * is_shown)
    return 0


def make_report(words: list[str]) -> int:
    options = tyro.cli(ReportOptions, args=words, prog="focops report")
    file, name = options.out or options.directory / "report.html", title([options.directory])
    if file.suffix != ".html":
        raise UsageError(f"--out is {file}; its ending must be .html")
    status = 0
    try:
        while options.watch and (study := report.Study(_read([options.directory]))).is_in_progress:
            report.write_page(study, file, name, refresh_s=REFRESH_S)
            print(f"{time.strftime('%H:%M:%S')}  {study.status} → {file}; Ctrl-C ends", flush=True)
            time.sleep(REFRESH_S)
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    study = report.Study(_read([options.directory]))
    report.write_page(study, file, name)  # one that does not wait for another
    report.write_files(study, file.with_suffix(""), name)
    print(f"{study.status}\n{file}\nfigures and tables in {file.with_suffix('')}")
    return status


def _read(paths: Sequence[Path]) -> Results:
    results = read(paths)
    for path, why in results.unreadable:
        say("warning:", f"{path} cannot be read and is left out ({why})")
    if not results.runs:
        raise UsageError(f"no run can be read in {', '.join(map(str, paths))}; mend their config.json, or name others")
    return results


def _show(file: Path) -> bool:
    """Open it with the screen's own viewer; False where there is no screen."""
    has_screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(has_screen) and webbrowser.open(file.resolve().as_uri())


def _print_tables(study: report.Study) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    for task, made in study.tables.items():
        if not made:
            console.print(Text.assemble((task, "bold"), f": {NO_EPISODE}, so there is nothing to compare"), end="\n\n")
        for table in made:
            if table.name in _COMPARED:
                console.print(Text(f"{task}: {table.title.lower()}", "bold"))
                console.print(_rich(table))
                console.print(Text(table.note, "dim"), end="\n\n")
        if left_out := study.left_out(task):
            console.print(left_out, end="\n\n")


def _rich(table: Table) -> RichTable:
    made = RichTable(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for i, column in enumerate(table.columns):
        made.add_column(column, justify="right" if i else "left")
    for row in table.rows:
        made.add_row(*[Text(cell.text, "bold red" if cell.bad else "") for cell in row])
    return made
