"""`focops.plot`: the curves of runs, from Python."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from focops.errors import UsageError
from focops.studies import figures, report
from focops.studies.groups import XAxis
from focops.studies.results import read, title

_SUFFIXES = (*figures.SUFFIXES, ".html")


def plot(runs: Path | str | Sequence[Path | str], *, out: Path | str | None = None, x: XAxis = "samples") -> Any:
    """Draw return, cost against its limit, ν and KL of runs, also in progress: of a run, a grid, or several of them.

    Runs that differ only in their seed are drawn as their mean, with a 95% band. `x` is "samples" or "time". Returns
    matplotlib's Figure, which a notebook shows; `out` is a file to write as well: .png, .svg, .pdf, or .html for a
    page to zoom in.
    """
    file, paths = None if out is None else Path(out), [runs] if isinstance(runs, Path | str) else list(runs)
    require_suffix(file, "out")
    if x not in ("samples", "time"):
        raise UsageError(f"x is {x!r}; it must be 'samples' or 'time'")
    if not paths:
        raise UsageError("runs is empty; give the directory of a run or of a grid, or several")
    study = report.Study(read([Path(path) for path in paths]))
    if not study.groups:
        raise UsageError(f"no run can be read in {', '.join(map(str, paths))}; mend their config.json, or name others")
    return drawn(study, file, title([Path(path) for path in paths]), x)


def drawn(study: report.Study, file: Path | None, heading: str, x: XAxis) -> Any:
    """The figure of a study, which is also written to a file."""
    figure = figures.draw(study.groups, x)
    if file is not None and file.suffix == ".html":
        report.write_page(study, file, heading, x_axis=x)
    elif file is not None:
        figures.save(figure, file)
    return figure


def require_suffix(file: Path | None, name: str) -> None:
    if file is not None and file.suffix not in _SUFFIXES:
        raise UsageError(f"{name} is {file}; its ending must be .png, .svg, .pdf or .html")
