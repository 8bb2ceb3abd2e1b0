"""Curves as PNG, SVG or PDF."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from focops.errors import UsageError
from focops.studies.groups import Group, XAxis
from focops.studies.panels import Panel, Scale, Style, panels, scales, seeds_text, styles
from focops.tabular.plot import new_figure

SUFFIXES = (".png", ".svg", ".pdf")
_DASHES: dict[str, Any] = {
    "solid": "-", "dash": (0, (5, 2)), "dashdot": "-.", "longdash": (0, (9, 2)), "dot": (0, (1.5, 1.5))
}  # fmt: skip
_INK, _DIM, _OVER = "#24292f", "#57606a", "#D55E00"


def draw(groups: Sequence[Group], x_axis: XAxis = "samples", look: Mapping[str, Style] | None = None) -> Any:
    """A row of plots for each task. `look` is that of the labels, where other figures have it as well."""
    by_task = {group.task: [each for each in groups if each.task == group.task] for group in groups}
    width = max(len(panels(own)) for own in by_task.values())
    labels = list(dict.fromkeys(group.label for group in groups))
    columns = _columns(labels, 4.0 * width)
    figure = new_figure(4.0 * width, 3.1 * len(by_task) + 0.3 + 0.2 * -(-len(labels) // columns))
    rows = figure.subplots(len(by_task), width, squeeze=False, sharex="row")
    look, scale = look or styles(labels), scales(groups)[x_axis]
    for row, (task, own) in zip(rows, by_task.items(), strict=True):
        drawn = panels(own)
        for axes, panel in zip(row, drawn, strict=False):
            _panel(axes, panel, own, look, x_axis, scale)
        if not any(run.samples for group in own for run in group.runs):
            row[0].set_xticks([])  # of the whole row
        for axes in row[len(drawn) :]:
            axes.set_visible(False)
        row[0].set_title(f"{task}, {seeds_text(own)}\n", loc="left", fontsize=11, fontweight="bold", color=_INK)
    handles = {label: line for axes in rows.flat for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=columns, frameon=False, fontsize=9
    )
    return figure


def _columns(labels: Sequence[str], inches: float) -> int:
    """Of the legend: as many as the longest label leaves room for."""
    longest = 0.6 + 0.07 * max(map(len, labels), default=0)
    return max(1, min(5, len(labels), int(inches / longest)))


def save(figure: Any, file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=150)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be written ({error}); give a .png, .svg, .pdf or .html file") from error


def _panel(
    axes: Any, panel: Panel, groups: Sequence[Group], look: Mapping[str, Style], x_axis: XAxis, scale: Scale
) -> None:
    shown = list(panel.limits)
    curves = {group: curve for group in groups if (curve := group.curve(panel.metric, x_axis)) is not None}
    if not curves:
        axes.text(0.5, 0.5, panel.missing, transform=axes.transAxes, ha="center", fontsize=9, color=_DIM)
    if not shown and not curves:
        axes.set_yticks([])
    for group, curve in curves.items():
        style, x = look[group.label], curve.x / scale.unit
        dot = "o" if len(x) == 1 else ""  # a line of one point cannot be seen
        line = {"color": style.colour, "linestyle": _DASHES[style.dash], "linewidth": 1.6, "marker": dot}
        axes.plot(x, curve.mean, label=group.label, **line)
        axes.fill_between(x, curve.low, curve.high, color=style.colour, alpha=0.16, linewidth=0)
        shown += [curve.lowest, curve.highest]
    if shown:  # two seeds may have a band far wider than the plot
        axes.set_ylim(*_range(min(shown), max(shown)))
    for limit in panel.limits:
        axes.axhline(limit, color=_INK, linewidth=1.3)
        axes.annotate(
            f"limit {limit:.4g}", (0.01, limit), xycoords=("axes fraction", "data"), ha="left", va="bottom", fontsize=8,
            xytext=(0, 3), textcoords="offset points",
            bbox={"pad": 1.5, "color": "white", "alpha": 0.75, "linewidth": 0},
        )  # fmt: skip
    if panel.limits:
        axes.axhspan(max(panel.limits), np.max(axes.get_ylim()), color=_OVER, alpha=0.06, linewidth=0)
    _tidy(axes, panel, scale)


def _range(low: float, high: float) -> tuple[float, float]:
    """With a margin; what does not vary is shown against zero."""
    if low == high:
        low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.06 * (high - low)
    return (low - margin, high + margin) if margin else (-0.06, 1.06)


def _tidy(axes: Any, panel: Panel, scale: Scale) -> None:
    from matplotlib.ticker import EngFormatter

    axes.set_title(panel.title, fontsize=9, color=_INK)
    axes.set_xlabel(scale.title, fontsize=9)
    axes.tick_params(labelsize=8, colors=_DIM)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#d0d7de")
    axes.grid(axis="y", color="#eaeef2", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0)
    if scale.title == "samples":
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
