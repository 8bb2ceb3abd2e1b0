"""Runs that differ only in their seed, and their mean curves."""

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from focops.algorithms import ALGORITHMS, is_constrained
from focops.config import TrainConfig
from focops.core.spec import Constraint
from focops.runs.config_json import config_to_flat_json
from focops.studies import statistics
from focops.studies.results import RunResult

XAxis = Literal["samples", "time"]
_X_METRIC = {"samples": "samples", "time": "elapsed_s"}
_NO_EFFECT = ("threads", "checkpoint_every", "final_episodes", "env_timeout", "algo.limits", "algo.cost_discounts")
"""Settings that change no number of a run, and those that it fills in itself."""
_POINTS = 200
"""Of a curve: more cannot be seen."""


class Curve(NamedTuple):
    """The mean over seeds and its 95% band, on a grid that the seeds have in common."""

    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: np.ndarray
    """How many have come this far."""
    lowest: float
    highest: float
    """Of all seeds, at all points."""


@dataclass(frozen=True, eq=False)
class Group:
    """Runs of one task, algorithm and settings; their seeds are the sample."""

    task: str
    algorithm: str
    settings: dict[str, Any]
    """Those that differ among the runs of the task and the algorithm."""
    runs: tuple[RunResult, ...]

    @property
    def label(self) -> str:
        parts = [f"{name.removeprefix('algo.')} {text(value)}" for name, value in self.settings.items()]
        return " · ".join([self.algorithm, *parts])

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return max((run.constraints for run in self.runs), key=len)

    @property
    def compared(self) -> tuple[RunResult, ...]:
        """The finished runs; before there is one, those of which an episode has ended."""
        begun = tuple(run for run in self.runs if not np.isnan(run.final("return_mean")))
        return tuple(run for run in begun if run.status == "finished") or begun

    @property
    def samples(self) -> int:
        return max(run.samples for run in self.compared)

    def final(self, metric: str) -> np.ndarray:
        """Per seed that is compared, the mean over the last 100 training episodes."""
        return np.array([run.final(metric) for run in self.compared])

    def curve(self, metric: str, x_axis: XAxis = "samples") -> Curve | None:
        """None before there is anything to draw. It ends where only half of the seeds, or fewer, go on."""
        drawn = [pair for run in self.runs if len((pair := _known(run, metric, x_axis))[0])]
        if not drawn:
            return None
        end = sorted(x[-1] for x, _ in drawn)[(len(drawn) - 1) // 2]
        grid = np.linspace(min(x[0] for x, _ in drawn), end, min(_POINTS, max(len(x) for x, _ in drawn)))
        values = np.array([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in drawn])
        seeds = (~np.isnan(values)).sum(0)
        middle = np.where(np.isnan(values), 0, values).sum(0) / np.maximum(seeds, 1)
        low, high = statistics.band(values)
        return Curve(
            grid, np.where(seeds > 0, middle, np.nan), low, high, seeds,
            float(np.nanmin(values)), float(np.nanmax(values)),
        )  # fmt: skip


def is_limited(group: Group) -> bool:
    """Whether its algorithm looks at the limits; one that is not known here does."""
    return group.algorithm not in ALGORITHMS or is_constrained(group.algorithm)


def grouped(runs: Sequence[RunResult]) -> list[Group]:
    """The runs by task, algorithm and the settings that differ; in the order of these."""
    families: dict[tuple[str, str], list[RunResult]] = {}
    for run in runs:
        families.setdefault((run.task, run.algorithm), []).append(run)
    return [group for _, family in sorted(families.items()) for group in _family(family)]


def common_settings(runs: Sequence[RunResult]) -> dict[str, Any]:
    """What all runs agree on."""
    first, *others = (run.settings for run in runs)
    return {k: v for k, v in first.items() if k not in _NO_EFFECT and all(each.get(k) == v for each in others)}


def _family(runs: Sequence[RunResult]) -> list[Group]:
    varied = _varied(runs)
    chosen = [{name: _setting(run, name) for name in varied} for run in runs]
    if _repeats_a_seed(runs, chosen):  # the same twice, as with another version: apart, by where they are
        places = [run.path.parent.name for run in runs]
        if _repeats_a_seed(runs, places):
            places = [run.path.name for run in runs]
        chosen = [each | {"in": place} for each, place in zip(chosen, places, strict=True)]
    found: dict[str, tuple[dict[str, Any], list[RunResult]]] = {}
    for settings, run in zip(chosen, runs, strict=True):
        found.setdefault(json.dumps(settings), (settings, []))[1].append(run)
    groups = [
        Group(alike[0].task, alike[0].algorithm, settings, tuple(sorted(alike, key=lambda run: run.seed)))
        for settings, alike in found.values()
    ]
    return sorted(groups, key=lambda group: [order(value) for value in group.settings.values()])


def _varied(runs: Sequence[RunResult]) -> list[str]:
    """A setting that newer runs do not have any more counts among those that have it."""
    names = dict.fromkeys(name for run in runs for name in run.settings if name not in _NO_EFFECT)
    has = lambda run, name: name in run.settings or name in _defaults(run.algorithm)
    values = {name: {json.dumps(_setting(run, name)) for run in runs if has(run, name)} for name in names}
    return [name for name in names if len(values[name]) > 1]


def _setting(run: RunResult, name: str) -> Any:
    """As in the run's config. What did not exist yet when it was written has its default, which is as published."""
    return run.settings.get(name, _defaults(run.algorithm).get(name))


@functools.cache
def _defaults(algorithm: str) -> dict[str, Any]:
    """Of all settings, as config.json writes them; {} of an algorithm that is not known here."""
    own = ALGORITHMS[algorithm].Config() if algorithm in ALGORITHMS else None
    return config_to_flat_json(TrainConfig(own, algorithm)) if own is not None else {}


def _repeats_a_seed(runs: Sequence[RunResult], settings: Sequence[Any]) -> bool:
    return len({(json.dumps(each), run.seed) for each, run in zip(settings, runs, strict=True)}) < len(runs)


def _known(run: RunResult, metric: str, x_axis: XAxis) -> tuple[np.ndarray, np.ndarray]:
    """Where a metric has a value, and the value."""
    x, y = run.curves[_X_METRIC[x_axis]], run.curves.get(metric)
    if y is None:
        return np.empty(0), np.empty(0)
    known = ~np.isnan(x) & ~np.isnan(y)
    return x[known], y[known]


def order(value: Any) -> tuple[int, float, str]:
    """Numbers by size, before everything else by name. A list is ordered by its first entry, as limits are."""
    if isinstance(value, list) and value:
        return (*order(value[0])[:2], json.dumps(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0, float(value), ""
    return 1, 0.0, json.dumps(value)


def text(value: Any) -> str:
    """A setting's value, for people."""
    if isinstance(value, list):
        return "×".join(map(text, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "default" if value is None else str(value)
