"""The report of a study: one HTML page that needs no network, with figures and tables beside it.

The page holds Plotly's program once and all data as one JSON; page/report.js draws from it.
"""

import html
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from focops.algorithms import ALGORITHMS
from focops.core.description import NO_DESCRIPTION
from focops.errors import UsageError
from focops.runs.files import jsonable, write_atomically
from focops.studies import figures, tables
from focops.studies.comparison import Figures, sensitivity
from focops.studies.comparison import figures as figures_of
from focops.studies.groups import Curve, Group, XAxis, common_settings, grouped
from focops.studies.panels import NO_EPISODE, Scale, panels, scales, styles
from focops.studies.results import Results


class Study:
    """Results, and what is computed of them once."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.groups = grouped(results.runs)
        self.by_task: dict[str, list[Group]] = {}
        for group in self.groups:
            self.by_task.setdefault(group.task, []).append(group)
        self.styles = styles(list(dict.fromkeys(group.label for group in self.groups)))
        self.figures = {group: found for group in self.groups if (found := figures_of(group))}
        self.tables = {
            task: tables.tables([self.figures[group] for group in own if group in self.figures])
            + tables.unseen(own, results.evaluated)
            for task, own in self.by_task.items()
        }
        self.overall = tables.all_tasks(self.groups)

    def left_out(self, task: str) -> str:
        """Which groups are not in the task's tables, as a sentence; "" if all are."""
        labels = [group.label for group in self.by_task[task] if group not in self.figures]
        return f"Not in the tables: {', '.join(labels)}: {NO_EPISODE}." if labels and self.tables[task] else ""

    @property
    def is_in_progress(self) -> bool:
        return self.results.not_begun > 0 or any(run.status == "not finished" for run in self.results.runs)

    @property
    def status(self) -> str:
        """13 runs: 10 finished, 1 not finished, 1 failed, 1 not begun"""
        found = Counter(run.status for run in self.results.runs)
        counts = [f"{found[name]} {name}" for name in ("finished", "not finished", "failed") if found[name]]
        others = {"unreadable": len(self.results.unreadable), "not begun": self.results.not_begun}
        counts += [f"{number} {what}" for what, number in others.items() if number]
        number = len(self.results.runs) + sum(others.values())
        return f"{number} run{'s' * (number > 1)}: {', '.join(counts)}"


def write_page(
    study: Study, file: Path, title: str, *, x_axis: XAxis = "samples", refresh_s: float | None = None
) -> None:
    """With `refresh_s` a browser loads it again and again."""
    _write(file, page(study, title, x_axis=x_axis, refresh_s=refresh_s))


def write_files(study: Study, folder: Path, title: str) -> None:
    """Each task's figure, and all tables."""
    for task, own in study.by_task.items():
        figure = figures.draw(own, look=study.styles)
        for suffix in (".png", ".svg"):
            figures.save(figure, folder / (re.sub(r"[^\w.+-]", "_", task) + suffix))
    _write(folder / "tables.md", _in_one_file(study, f"# {title}", "## ", tables.to_markdown))
    _write(folder / "tables.tex", _in_one_file(study, f"% {title}", "% ", tables.to_latex))


def _in_one_file(study: Study, title: str, heading: str, render: Callable[[tables.Table], str]) -> str:
    parts = [title]
    for task, made in study.tables.items():
        parts += [heading + task, *map(render, made)]
    return "\n\n".join([*parts, *map(render, study.overall)]) + "\n"


def _write(file: Path, text: str) -> None:
    """Replaced as a whole: a browser never sees half a page."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text.encode())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}; give another --out") from error


def page(study: Study, title: str, *, x_axis: XAxis = "samples", refresh_s: float | None = None) -> str:
    """The whole page as text."""
    drawn = json.dumps(data(study, x_axis, refresh_s), ensure_ascii=False, allow_nan=False)
    parts = {
        "TITLE": html.escape(title),
        "STATUS": html.escape(study.status),
        "MADE": time.strftime("%Y-%m-%d %H:%M"),
        "TABLES": "".join(_tables(task, made, study.left_out(task)) for task, made in study.tables.items()),
        "OVERALL": "".join(map(tables.to_html, study.overall)),
        "RUNS": _runs(study.results),
        "SETTINGS": _settings(study),
        "STYLE": _asset("report.css"),
        "SCRIPT": _asset("report.js"),
        "DATA": drawn.replace("</", "<\\/"),
        "PLOTLY": _plotly(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("report.html"))


def data(study: Study, x_axis: XAxis = "samples", refresh_s: float | None = None) -> dict[str, Any]:
    """What report.js draws."""
    of_axis = scales(study.groups)
    tasks = [
        {
            "name": task,
            "panels": [panel._asdict() for panel in panels(own)],
            "groups": [_group(group, study.figures.get(group), of_axis) for group in own],
            "sensitivity": [each._asdict() for each in sensitivity(own)],
        }
        for task, own in study.by_task.items()
    ]
    return jsonable(
        {
            "tasks": tasks,
            "styles": {label: style._asdict() for label, style in study.styles.items()},
            "xTitles": {name: scale.title for name, scale in of_axis.items()},
            "xAxis": x_axis,
            "refreshSeconds": refresh_s,
        }
    )


def _group(group: Group, found: Figures | None, of_axis: dict[XAxis, Scale]) -> dict[str, Any]:
    known = found.published if found else None
    curves = {
        x_axis: {panel.metric: _curve(group.curve(panel.metric, x_axis), scale.unit) for panel in panels([group])}
        for x_axis, scale in of_axis.items()
    }
    return {
        "label": group.label,
        "algorithm": group.algorithm,
        "seeds": len(group.runs),
        "curves": curves,
        "dots": [
            {
                "seed": run.seed,
                "reward": run.final("return_mean"),
                "costs": {c.name: run.final(f"cost/{c.name}") for c in run.constraints},
            }
            for run in group.compared
        ],
        "published": known._asdict() if known and len(group.constraints) == 1 else None,
    }


def _curve(curve: Curve | None, unit: float) -> dict[str, Any] | None:
    if curve is None:
        return None
    x = curve.x / unit
    has_band = not np.isnan(curve.low).all()
    return {
        "x": _short(x, 7),
        "mean": _short(curve.mean),
        "low": _short(curve.low) if has_band else None,
        "high": _short(curve.high) if has_band else None,
        "seeds": curve.seeds,
        "range": [curve.lowest, curve.highest],
    }


def _short(values: np.ndarray, digits: int = 5) -> list[float]:
    """As many digits as a screen can show: a third of the size."""
    return [float(f"{value:.{digits}g}") for value in values]


def _tables(task: str, made: Sequence[tables.Table], left_out: str) -> str:
    note = left_out if made else f"{NO_EPISODE.capitalize()}."
    shown = "".join(map(tables.to_html, made)) + (f'<p class="note">{html.escape(note)}</p>' if note else "")
    return f'<div data-task="{html.escape(task)}">{shown}</div>'


def _runs(results: Results) -> str:
    rows = []
    for run in sorted(results.runs, key=lambda run: (run.status == "finished", run.task, str(run.path))):
        progress = f"{run.samples:,} of {run.steps:,}"
        rows.append([run.status, run.task, run.algorithm, str(run.seed), progress, str(run.path)])
    rows = [["unreadable", "", "", "", each.why, str(each.path)] for each in results.unreadable] + rows
    return _plain_table(["status", "task", "algorithm", "seed", "samples", "directory"], rows)


def _settings(study: Study) -> str:
    parts = []
    for task, groups in study.by_task.items():
        for algorithm in dict.fromkeys(group.algorithm for group in groups):
            runs = [run for group in groups if group.algorithm == algorithm for run in group.runs]
            rows = [[name, json.dumps(value)] for name, value in common_settings(runs).items()]
            parts.append(f'<div data-task="{html.escape(task)}"><h4>{_named(algorithm)}</h4>')
            parts.append(_plain_table(["setting of every run", "value"], rows) + "</div>")
    versions: dict[str, set[str]] = {}
    for run in study.results.runs:
        for name, version in run.versions.items():
            versions.setdefault(name, set()).add(version)
    rows = [[name, ", ".join(sorted(found))] for name, found in versions.items()]
    return "".join(parts) + "<h4>Versions</h4>" + _plain_table(["package", "version"], rows)


def _named(algorithm: str) -> str:
    """With where it was published."""
    reference = getattr(ALGORITHMS.get(algorithm), "DESCRIPTION", NO_DESCRIPTION).reference
    return html.escape(algorithm) + (f" ({html.escape(reference)})" if reference != NO_DESCRIPTION.reference else "")


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    return f'<div class="scroll"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _asset(name: str) -> str:
    return resources.files("focops.studies").joinpath("page", name).read_text()


def _plotly() -> str:
    """Plotly's program, from the package's own file: to import the package would take a second."""
    try:
        return resources.files("plotly").joinpath("package_data/plotly.min.js").read_text()
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise UsageError("a report in HTML needs plotly: pip install 'focops[plot]'") from error
