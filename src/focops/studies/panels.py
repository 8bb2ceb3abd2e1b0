"""What is drawn of the runs of a task, and how groups are told apart, on screen and on paper alike."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from focops.studies.groups import Group, XAxis, is_limited

_TIMES = {"hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, which the colour-blind can tell apart, without the yellow, which is too pale for a line."""
_DASHES = ("solid", "dash", "dashdot", "longdash", "dot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "star", "triangle-down", "pentagon", "triangle-left")
"""One more than colours. No crosses: those are the published figures."""
NO_EPISODE = "no training episode has ended"


class Style(NamedTuple):
    """By Plotly's names."""

    colour: str
    dash: str
    symbol: str


class Scale(NamedTuple):
    """Of a horizontal axis."""

    title: str
    unit: float
    """What a curve's x is divided by."""


class Panel(NamedTuple):
    """One plot."""

    metric: str
    title: str
    limits: tuple[float, ...]
    """One, unless the groups have different ones."""
    missing: str = "no iteration has ended yet"
    """What is said in a plot without a curve."""


def scales(groups: Sequence[Group]) -> dict[XAxis, Scale]:
    """Time is in the largest unit of which the longest run has two."""
    times = (each for group in groups for run in group.runs for each in run.curves["elapsed_s"])
    longest = max((each for each in times if not math.isnan(each)), default=0.0)
    name = next((name for name, seconds in _TIMES.items() if longest >= 2 * seconds), "seconds")
    return {"samples": Scale("samples", 1.0), "time": Scale(f"wall-clock {name}", _TIMES[name])}


def styles(labels: Sequence[str]) -> dict[str, Style]:
    """Colours, dashes and symbols have different periods: 35 lines and 56 dots differ in one of them at least."""
    return {
        label: Style(_COLOURS[i % len(_COLOURS)], _DASHES[i % len(_DASHES)], _SYMBOLS[i % len(_SYMBOLS)])
        for i, label in enumerate(labels)
    }


def panels(groups: Sequence[Group]) -> list[Panel]:
    """Of one task: return, cost and multiplier of each constraint, KL."""
    constraints = {c.name: c for group in groups for c in group.constraints}
    limited = [group for group in groups if is_limited(group)] or groups  # those of the others mean nothing beside them
    limits = {
        name: tuple(dict.fromkeys(c.limit for group in limited for c in group.constraints if c.name == name))
        for name in constraints
    }
    return [
        Panel("return_mean", "Return", (), NO_EPISODE),
        *[
            Panel(f"cost/{c.name}", cost_title(c.name, c.discount), limits[c.name], NO_EPISODE)
            for c in constraints.values()
        ],
        *[Panel(f"nu/{name}", f"Multiplier ν, {name}", ()) for name in constraints],
        Panel("kl", "KL to the previous policy", ()),
    ]


def cost_title(name: str, discount: float) -> str:
    """Says which cost: the discounted one, or the plain sum."""
    kind = "" if discount == 1 else "Discounted cost" if math.isnan(discount) else f"Discounted cost (γ = {discount:g})"
    return f"{kind or 'Cost per episode'}, {name}"


def seeds_text(groups: Sequence[Group]) -> str:
    """How many seeds the groups have: "1 seed", "5 seeds", "5 to 10 seeds"."""
    fewest, most = (function(len(group.runs) for group in groups) for function in (min, max))
    return f"{most} seed{'s' * (most > 1)}" if fewest == most else f"{fewest} to {most} seeds"
