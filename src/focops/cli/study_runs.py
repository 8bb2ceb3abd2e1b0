"""`focops study` and `focops studies`: a study's runs are a grid, and are trained, stopped and resumed as one."""

import dataclasses
import functools
import math
import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from focops import envs
from focops.cli import arguments, grid, grid_runs, study_limits
from focops.cli.arguments import Address, Count, ResumeOptions
from focops.config import default_config
from focops.display.numbers import clock, count
from focops.display.say import say
from focops.errors import UsageError
from focops.runs.directory import RunDirectory
from focops.runs.files import write_json
from focops.studies import definition
from focops.studies.definition import Point, Study

_BACKENDS = {"local": "cpu", "ray": "cpu", "gpu": "mjx"}
_ACTING_SECONDS, _LEARNING_SECONDS = 70e-6, 30e-6
"""About: a call of the policy for all environments of a run, and what a sample takes beside that and its physics
(`results/speed.md`)."""
_MEASURED_SECONDS = 0.05
_STOPPED = 128
"""Above this an exit status is that of a signal."""


@dataclass(frozen=True)
class StudyOptions:
    """Train all runs of a study, resume it where it was left, and evaluate what it asks for.

    The same command resumes a study that was stopped; runs that are finished are not repeated.
    """

    study: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="STUDY")]
    """A name that `focops studies` lists, or a file of your own, my-study.toml."""
    tasks: tuple[str, ...] = ()
    """Only these tasks."""
    algos: tuple[str, ...] = ()
    """Only these algorithms."""
    seeds: str = ""
    """Other seeds: their number (3 is 0..2), or which, as 0..9 or 1,2,5."""
    steps: Annotated[Count | None, tyro.conf.arg(metavar="N")] = None
    """Other samples for each run."""
    preset: Literal["", "fast", "paper"] = ""
    """Another preset."""
    engine: Literal["local", "gpu", "ray"] = "local"
    """local: one process per run, one run per core at a time. gpu: all runs of one shape as one program. ray: the
    machines of a Ray cluster. A study can be gone on with by another engine."""
    address: Address = None
    """ray: the cluster."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/study-NAME)")] = None
    """The study's directory."""
    jobs: int = 0
    """Runs at once; with --engine gpu programs at once. 0: a run per core, one program."""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print only the result, at the end."""


def study(words: list[str]) -> int:
    """`focops study`: its exit status."""
    options = tyro.cli(StudyOptions, args=words, prog="focops study")
    seeds = f"0..{int(options.seeds) - 1}" if options.seeds.isdecimal() else options.seeds
    if seeds == "0..-1":
        raise UsageError("--seeds is 0; give their number, ≥ 1, or which, as 0..9 or 1,2,5 (0..0 is seed 0 alone)")
    found = definition.narrowed(
        definition.load(options.study), tasks=options.tasks, algorithms=options.algos, seeds=seeds,
        steps=None if options.steps is None else str(options.steps), preset=options.preset,
    )  # fmt: skip
    how = ResumeOptions(
        options.out or Path("runs") / f"study-{found.name}", jobs=options.jobs, quiet=options.quiet,
        engine="ray" if options.engine == "ray" else "local", address=options.address,
    )  # fmt: skip
    arguments.check_engine(how)
    again = shlex.join(["focops", "study", *words])
    return _train(found, how, _BACKENDS[options.engine], again)


def _train(found: Study, how: ResumeOptions, backend: str, again: str) -> int:
    """First the runs that limits are taken from, if it has such, then its own."""
    points, before, status = points_of(found, backend), definition.measured(found), 0
    if before is not None:
        for name, words in points:  # with the tasks' own limits in place of those to come
            if not RunDirectory(how.run / name).config_file.is_file():
                grid_runs.check(how.run, name, grid_runs.parse(words))
        of = points_of(before, backend)
        _describe(how.run, found, of)
        status = grid_runs.resume(how, {name for name, _ in of}, again)
        if status > _STOPPED:
            return status
        costs = study_limits.measured(how.run, found, {t: [n for n, w in of if w[0] == t] for t in found.tasks})
        if not costs:
            return 1
        print(study_limits.told(found, costs))
        status = status or int(len(costs) < len(found.tasks))
        points = points_of(dataclasses.replace(found, tasks=tuple(costs)), backend, costs)
    _describe(how.run, found, points)
    status = grid_runs.resume(how, {name for name, _ in points}, again) or status
    if status < _STOPPED and found.evaluate_best:
        _evaluate_best(how.run, found, points)
    return status


def points_of(found: Study, backend: str, costs: study_limits.Costs | None = None) -> list[Point]:
    """Every run of a study, checked for its tasks. Limits are shares of `costs`, or of the tasks' own limits."""
    limits = {}
    for name in found.tasks:
        task = envs.find(name)
        if task is None and (found.limit_shares or found.limits_of):
            envs.make(name, 1, needs_cost=False).close()  # if there is none, it says what there is
            raise UsageError(f"{name} is no task of ours, so it has no limit of its own to take limit_shares of")
        limits[name] = [c.limit for c in task.constraints] if task else []
    try:
        arguments.parse_count(found.steps)
    except ValueError as error:
        raise UsageError(f"{found.name}: steps: {error}") from None
    return definition.points(found, grid.seeds(found.seeds), costs or limits, backend)


def _describe(base: Path, found: Study, points: list[Point]) -> None:
    """Write grid.json, with the runs that it already had and those that are new, each checked before the first starts;
    and study.json, the study as it was asked for."""
    known = grid_runs.read(base) if (base / "grid.json").is_file() else {}
    elsewhere = []
    for name, words in points:
        if not RunDirectory(base / name).config_file.is_file():
            grid_runs.check(base, name, grid_runs.parse(words))
            known[name] = ["train", *words]
            continue
        before, now = (_settings(each) for each in (known.setdefault(name, ["train", *words])[1:], words))
        if before.pop("--backend") != now.pop("--backend") and not RunDirectory(base / name).is_complete():
            elsewhere.append(name)
        if before != now:
            _refuse(base / name, before, now)
    grid_runs.write(base, known)
    try:
        write_json(base / "study.json", dataclasses.asdict(found))
    except OSError as error:
        raise UsageError(f"cannot write in {base}: {error.strerror}; choose another --out") from error
    if elsewhere:
        others = f" and {len(elsewhere) - 1} more" * (len(elsewhere) > 1)
        say("note:", f"{elsewhere[0]}{others} began on another backend, whose physics differs, and will end on it")


def _settings(words: Sequence[str]) -> dict[str, str]:
    """The flags of a run and their values, without the seed, which its name tells; 1M is 1000000."""
    found = {"--backend": "cpu"}
    for text, owner in grid.split(words):
        if owner == "--steps":
            found[owner] = str(arguments.parse_count(text))
        elif owner == "--backend":
            found[owner] = text
        elif owner and owner not in ("--out", "--seed"):
            found[owner] = f"{found.get(owner, '')} {text}".strip()
    return found


def _refuse(run: Path, before: dict[str, str], now: dict[str, str]) -> None:
    flag = next(flag for flag in before | now if before.get(flag) != now.get(flag))
    was, asked = (each.get(flag, "at its default") for each in (before, now))
    raise UsageError(f"{run} was begun with {flag} {was}, now it is {asked}: ask for the same, or choose another --out")


def _evaluate_best(base: Path, found: Study, points: list[Point]) -> None:
    """Evaluate, for each task, algorithm and setting, the seed with the highest return in training among those that
    kept their limits there; write and print it."""
    from rich.console import Console

    from focops import evaluation
    from focops.cli import evaluation_table

    best: dict[str, tuple[float, Path]] = {}
    for name, _ in points:
        summary: dict[str, Any] = RunDirectory(base / name).summary or {}
        group, reward = name.rpartition(",seed=")[0], summary.get("return_mean")
        if reward is not None and summary.get("training_within_limits") is not False:
            best[group] = max(best.get(group, (-math.inf, base)), (reward, base / name))
    missing = sorted({name.rpartition(",seed=")[0] for name, _ in points} - set(best))
    if best:
        how = evaluation.PROTOCOLS[found.evaluate_best]
        results = evaluation.evaluate_all([path for _, path in best.values()], **how)
        evaluation.save_all(results, base / "evaluation.json")
        Console(highlight=False, width=160).print(evaluation_table.many(results))
        print(f"written to {base / 'evaluation.json'}")
    if missing:
        print(f"no seed kept its limits in training: {', '.join(missing)}")


def studies(words: list[str]) -> int:
    """`focops studies`: what there is, how large, and about how long it takes here."""
    from rich.console import Console
    from rich.table import Table

    from focops.cli import arguments
    from focops.cli.list_commands import no_arguments

    no_arguments("studies", words)
    table = Table("study", "runs", "samples", "time here", "", box=None, header_style="dim", pad_edge=False)
    for name in definition.builtin():
        found = definition.load(name)
        before = definition.measured(found)
        points = [*(points_of(before, "cpu") if before else []), *points_of(found, "cpu")]
        steps = arguments.parse_count(found.steps)
        seconds = steps * sum(_seconds_per_sample(point.words[:-1]) for point in points) / (os.cpu_count() or 1)
        table.add_row(name, str(len(points)), count(float(steps * len(points))), _duration(seconds), found.title)
    Console(highlight=False, width=None).print(table)
    print("\nfocops study NAME runs one; times are estimates for all cores of this machine, from its physics now")
    return 0


@functools.cache
def _seconds_per_sample(words: tuple[str, ...]) -> float:
    """Of training on one core, about. The words are those of a run, without the number of its seed."""
    found = grid.split(words)
    task, algorithm = (grid.value_of(found, flag, "") for flag in (grid.TASK, "--algo"))
    preset: Any = grid.value_of(found, "--preset", "")
    default = default_config(task, algorithm, preset).num_envs
    number = int(grid.value_of(found, "--num-envs", str(default)))
    return _physics_seconds(task, number) / number + _ACTING_SECONDS / number + _LEARNING_SECONDS


@functools.cache
def _physics_seconds(task: str, number: int) -> float:
    """Of a step of so many environments."""
    import numpy as np

    env = envs.make(task, number)
    action = np.zeros((number, env.spec.action_size), np.float32)
    env.step(action)
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < _MEASURED_SECONDS:
        env.step(action)
        steps += 1
    return (time.perf_counter() - began) / steps


def _duration(seconds: float) -> str:
    return clock(seconds) if seconds < 3600 else f"{seconds / 3600:.2g} h"
