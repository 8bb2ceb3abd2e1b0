"""Run directories as plain data. Runs in progress, torn last lines and failed runs are read as far as they go."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from focops.core.spec import Constraint
from focops.display.progress import constraint_names
from focops.errors import UsageError

Status = Literal["finished", "not finished", "failed"]
_BOOKKEEPING = ("format", "versions", "changes", "run_id", "task", "algorithm", "seed", "out")
_PER_CONSTRAINT = ("discounted_cost_mean", "nu")
_PER_RUN = ("samples", "elapsed_s", "return_mean", "kl")


class Delivered(NamedTuple):
    """What an evaluation on unseen episodes found of a run's policy, with sampled actions."""

    episodes: int
    reward: float
    costs: dict[str, float]
    verdicts: dict[str, str]


@dataclass(frozen=True, eq=False)
class RunResult:
    """One run."""

    path: Path
    task: str
    algorithm: str
    seed: int
    settings: dict[str, Any]
    """Everything else in its config, flat: `algo.temperature`."""
    versions: dict[str, str]
    status: Status
    constraints: tuple[Constraint, ...]
    """None are known before the first record."""
    curves: dict[str, np.ndarray]
    """By metric, one number per iteration; NaN where there is none. `cost/NAME` is the cost that the limit is on."""
    steps: int
    """Samples in all, when it is finished."""
    delivered: Delivered | None

    @property
    def samples(self) -> int:
        return int(self.curves["samples"][-1]) if len(self.curves["samples"]) else 0

    def final(self, metric: str) -> float:
        """The mean over the last 100 training episodes; NaN if no episode has ended."""
        values = self.curves.get(metric, np.empty(0))
        return float(values[-1]) if len(values) else np.nan


class Unreadable(NamedTuple):
    """A directory that holds a run which cannot be read."""

    path: Path
    why: str


class Results(NamedTuple):
    runs: list[RunResult]
    unreadable: list[Unreadable]
    not_begun: int = 0
    """Runs that a grid lists and that have no directory yet."""
    evaluated: Mapping[Path, dict[str, Any]] = MappingProxyType({})
    """By run, what the evaluation of a whole grid found: that of the best seeds of a study."""


def read(paths: Sequence[Path]) -> Results:
    """The runs at or below the paths: of a run, a grid, or a folder of grids."""
    directories = {run.resolve(): run for path in paths for run in _found(path)}
    runs, unreadable = [], []
    for directory in directories.values():
        try:
            runs.append(_run(directory))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            unreadable.append(Unreadable(directory, f"{type(error).__name__}: {error}"))
    by_name = {run.path.name: run.path for run in runs}
    evaluated = {by_name[name]: each for path in paths for name, each in _evaluations(path) if name in by_name}
    return Results(runs, unreadable, sum(map(_not_begun, paths)), evaluated)


def title(paths: Sequence[Path]) -> str:
    """The study's own title, or the names of the directories."""
    file = paths[0] / "study.json"
    own = _optional_json(file).get("title") if len(paths) == 1 and file.is_file() else None
    return str(own or ", ".join(path.resolve().name for path in paths))


def _not_begun(path: Path) -> int:
    """Runs in grid.json without a directory of their own."""
    listed = _optional_json(path / "grid.json").get("runs", [])
    names = [str(run.get("name")) for run in listed if isinstance(run, dict)]
    return sum(not (path / name / "config.json").is_file() for name in names)


def _evaluations(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The list in a grid's evaluation.json: a run's name, and what was found of it."""
    try:
        found = json.loads((path / "evaluation.json").read_bytes())
        return [(Path(each["run"]).name, each) for each in found] if isinstance(found, list) else []
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _found(path: Path) -> list[Path]:
    if not path.is_dir():
        raise UsageError(f"{path} is no directory; give that of a run, of a grid, or of several grids")
    found = []
    for folder, below, files in os.walk(path):
        if "config.json" in files:
            found.append(Path(folder))
            below.clear()
        below[:] = sorted(name for name in below if not name.startswith("."))
    if not found:
        raise UsageError(
            f"{path} holds no run (no config.json in it or below it); give a directory that `focops train` made"
        )
    return found


def _run(path: Path) -> RunResult:
    config = json.loads((path / "config.json").read_bytes())
    summary = _optional_json(path / "summary.json")
    records = _records(path / "metrics.jsonl")
    algo = {f"algo.{name}": value for name, value in config["algo"].items()}
    settings = {k: v for k, v in config.items() if k not in _BOOKKEEPING and k != "algo"} | algo
    constraints = _constraints(config, summary, records)
    return RunResult(
        path=path,
        task=str(config["task"]),
        algorithm=str(config["algorithm"]),
        seed=int(config["seed"]),
        settings=settings,
        versions={str(name): str(version) for name, version in config.get("versions", {}).items()},
        status=_status(path, summary),
        constraints=constraints,
        curves=_curves(records, [c.name for c in constraints]),
        steps=int(records[-1]["steps"] if records else config["steps"]),
        delivered=_delivered(summary, _evaluation(path, records)),
    )


def _optional_json(file: Path) -> dict[str, Any]:
    """A file that may be missing, or half written by somebody else's program."""
    try:
        value = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _records(file: Path) -> list[dict[str, Any]]:
    """The whole records of a metrics.jsonl. What follows the last newline is being written."""
    try:
        lines = file.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    records, last = [], -1
    for line in lines:
        record = _record(line)
        if record is not None and record["samples"] > last:
            records.append(record)
            last = record["samples"]
    return records


def _record(line: bytes) -> dict[str, Any] | None:
    """A record; None for a line that a power cut or a full disk has damaged."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("samples"), int) else None


def _curves(records: Sequence[dict[str, Any]], names: Iterable[str]) -> dict[str, np.ndarray]:
    keys = {metric: metric for metric in _PER_RUN}
    for name in names:
        keys |= {f"{metric}/{name}": f"{metric}/{name}" for metric in _PER_CONSTRAINT}
        # with γ_C = 1 the discounted cost is the plain one: it always is the one that the limit is on
        keys[f"cost/{name}"] = keys.pop(f"discounted_cost_mean/{name}")
    return {metric: np.array([_number(record.get(key)) for record in records]) for metric, key in keys.items()}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else np.nan


def _constraints(
    config: dict[str, Any], summary: dict[str, Any], records: Sequence[dict[str, Any]]
) -> tuple[Constraint, ...]:
    """With their limits as the run recorded them."""
    if not records:
        return ()
    last = records[-1]
    names = constraint_names(last)
    discounts = summary.get("cost_discount") or dict(zip(names, _discounts(config), strict=False))
    return tuple(Constraint(name, _number(last[f"cost_limit/{name}"]), _number(discounts.get(name))) for name in names)


def _discounts(config: dict[str, Any]) -> Sequence[float]:
    """Of a run that has no summary yet: its own, or those of its task."""
    from focops.envs import tasks

    task = tasks.find(config["task"])
    return config.get("cost_discount") or ([c.discount for c in task.constraints] if task else [])


def _status(path: Path, summary: dict[str, Any]) -> Status:
    if summary.get("finished") is True:
        return "finished"
    failure, metrics = path / "failure.safetensors", path / "metrics.jsonl"
    if failure.exists() and (not metrics.exists() or failure.stat().st_mtime >= metrics.stat().st_mtime):
        return "failed"  # and has not gone on since
    return "not finished"


def _evaluation(path: Path, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What `focops evaluate` found of the policy as it is now, with sampled actions; {} if nothing."""
    found = _optional_json(path / "evaluation.json")
    is_newest = bool(records) and found.get("iteration") == records[-1].get("iteration")
    return found if is_newest and not found["deterministic"] else {}


def _delivered(summary: dict[str, Any], evaluation: dict[str, Any]) -> Delivered | None:
    """From the evaluation at the run's end, or from `focops evaluate` if that ran more episodes."""
    found = (summary.get("policy") or {}).get("sampled")
    if evaluation and (found is None or evaluation["episodes"] > found["episodes"]):
        costs = evaluation["constraints"]
        return Delivered(
            evaluation["episodes"],
            evaluation["reward"]["mean"],
            {name: each["discounted_cost"]["mean"] for name, each in costs.items()},
            {name: each["verdict"] for name, each in costs.items()},
        )
    if found is None:
        return None
    return Delivered(found["episodes"], found["reward"], found["discounted_cost"], found["verdict"])
