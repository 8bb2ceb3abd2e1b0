"""The commands' flags, made by tyro from the configs' own fields, defaults and docstrings."""

import dataclasses
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from focops import envs
from focops.cli import grid
from focops.config import DEFAULT_TASK, TrainConfig, default_config, validate, where_environments_run
from focops.core.base import FILLED
from focops.core.fields import field_types
from focops.envs.names import GIVEN_NOTHING, Given
from focops.errors import UsageError
from focops.runs.directory import RunDirectory
from focops.runs.paths import out_path
from focops.runs.sinks import OpenSink, asked_for

NOT_FLAGS = (*FILLED, "network")
"""Fields of an algorithm's Config that are not flags: filled by the run, or set from Python."""
_COUNT = re.compile(r"(\d+)(?:\.(\d+))?(?:([kmg])|e\+?(\d{1,2}))?", re.IGNORECASE)
_POWERS = {"k": 3, "m": 6, "g": 9}


def parse_count(text: str) -> int:
    """250k, 1M, 1.5M, 1e6, 1_000_000 or 1000000."""
    match = _COUNT.fullmatch(text.replace("_", ""))
    whole, fraction, unit, exponent = match.groups() if match else ("", "", "", "")
    power = _POWERS[unit.lower()] if unit else int(exponent or 0)
    places = power - len(fraction or "")
    if not match or places < 0:
        raise ValueError(f"{text!r} is not a whole number; write it as 250k, 1M, 1e6 or 1_000_000")
    return int(whole + (fraction or "")) * 10**places


Count = Annotated[
    int,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=lambda words: parse_count(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [f"{value:_}"],
    ),
]


def parse_per_cost(words: Sequence[str]) -> tuple[float, ...] | dict[str, float]:
    """25 3, or speed=25 torque=3."""
    pairs = [word.rpartition("=") for word in words]
    values = [_number(value, word) for (_, _, value), word in zip(pairs, words, strict=True)]
    names = [name for name, equals, _ in pairs if equals]
    if not names:
        return tuple(values)
    if len(set(names)) < len(words):
        raise ValueError(f"{' '.join(words)} is neither a number for each cost nor NAME=NUMBER for each, once")
    return dict(zip(names, values, strict=True))


def _number(text: str, word: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{word!r} is neither a number nor NAME=NUMBER") from None


def per_cost_words(value: tuple[float, ...] | dict[str, float]) -> list[str]:
    """The inverse of `parse_per_cost`."""
    if isinstance(value, dict):
        return [f"{name}={number!r}" for name, number in value.items()]
    return [repr(number) for number in value]


PerCost = Annotated[
    tuple[float, ...] | dict[str, float],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar="[B [B ...]]",
        instance_from_str=lambda words: parse_per_cost(words),
        is_instance=lambda value: isinstance(value, tuple | dict),
        str_from_instance=lambda value: per_cost_words(value),
    ),
]


def hint(metavar: str, default: str) -> Any:
    """How a flag's help shows its value, and its default in words."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=default)


Workers = Annotated[int | None, hint("N", "(default: the run's own)")]
Address = Annotated[
    str | None, hint("HOST:PORT", "(default: that of RAY_ADDRESS, else one is started on this machine)")
]
Python = Annotated[Path | None, hint("PATH", "(default: the run's own)")]


@dataclass(frozen=True)
class Options:
    """What `focops train` was asked to do."""

    config: TrainConfig
    quiet: bool
    sinks: tuple[OpenSink, ...]
    jobs: int


@dataclass(frozen=True)
class ResumeOptions:
    """Resume a run, or all runs of a grid, from the last checkpoint.

    The algorithm's numbers can be changed from there on: --algo.policy-rate 1e-4 (`focops train --help` lists them).
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The directory that `focops train` made."""
    steps: Annotated[Count | None, hint("N", "(default: the run's own)")] = None
    """Total samples to train for (250k, 1M, 1e6)."""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print only the result, at the end."""
    wandb: tyro.conf.FlagCreatePairsOff[bool] = False
    """Log to Weights & Biases as well."""
    jobs: int = 0
    """Runs of a grid at once; of one with --backend mjx, programs. 0: a run per core, one program."""
    engine: Literal["local", "ray"] = "local"
    """What resumes the runs of a grid on CPUs: processes of this machine, or a Ray cluster."""
    address: Address = None
    """The Ray cluster."""
    env_workers: Workers = None
    """Processes that step environments that are not ours; results do not depend on it."""
    env_python: Python = None
    """Interpreter, or virtual environment's folder, that such environments run under."""
    changes: Annotated[dict[str, str], tyro.conf.Fixed, tyro.conf.Suppress] = dataclasses.field(default_factory=dict)
    """New values of the algorithm's numbers."""
    sinks: Annotated[tuple[OpenSink, ...], tyro.conf.Fixed, tyro.conf.Suppress] = ()
    """Made of the flags."""


@dataclass(frozen=True)
class _TrainArguments(TrainConfig):
    """Train a policy that keeps its costs within their limits.

    A flag may be given several values with commas between them (--algo.temperature 1,1.5,2): every combination is
    trained, one directory per run; one process per core, or with --backend mjx all as one program.
    """

    algo: tyro.conf.FlagConversionOff[Any] = None
    """The algorithm's own hyper-parameters, with the paper's symbols."""
    algorithm: Annotated[str, tyro.conf.arg(name="algo", metavar="NAME")] = "focops"
    """The algorithm; `focops algos` lists them."""
    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[TASK]")] = DEFAULT_TASK
    steps: Count = 0
    """Samples to train for (250k, 1M, 1e6); rounded up to whole batches."""
    cost_limit: PerCost = ()
    cost_discount: PerCost = ()
    cost: Annotated[str | None, hint("MODULE:FUNCTION", "")] = None
    fresh_episodes: tyro.conf.FlagConversionOff[bool] = False
    exact: tyro.conf.FlagCreatePairsOff[bool] = False
    env_workers: Annotated[int | None, hint("N", "(default: by a short measurement)")] = None
    env_python: Annotated[Path | None, hint("PATH", "(default: this one)")] = None
    init_from: Annotated[Path | None, tyro.conf.arg(name="from", metavar="RUN", help_behavior_hint="")] = None
    out: Annotated[Path | None, hint("DIR", "(default: runs/TASK-ALGO-SEED-TIME)")] = None
    """The run's directory."""
    layout: Annotated[str, tyro.conf.Fixed, tyro.conf.Suppress] = ""
    given: Annotated[Given, tyro.conf.Fixed, tyro.conf.Suppress] = GIVEN_NOTHING
    seeds: Annotated[str, hint("SEEDS", "")] = ""
    """Several seeds, as 0..3 or 0,2,5: one run each."""
    jobs: int = 0
    """Runs of a grid at once; with --backend mjx programs at once. 0: a run per core, one program."""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print only the result, at the end."""
    wandb: tyro.conf.FlagCreatePairsOff[bool] = False
    """Log to Weights & Biases as well."""


def parse(words: Sequence[str]) -> Options:
    """The options of one run; the task, the algorithm and the preset decide what the defaults are."""
    found = grid.split(words)
    _require_values(found)
    known = [("--algo", "focops"), ("--preset", "fast"), ("--backend", "cpu")]
    chosen: list[Any] = [grid.value_of(found, flag, default) for flag, default in known]
    defaults = default_config(grid.value_of(found, grid.TASK, DEFAULT_TASK), *chosen)
    task = envs.find(defaults.task)
    own: dict[str, Any] = {
        "cost_limit": tuple(c.limit for c in task.constraints) if task else (),
        "cost_discount": tuple(c.discount for c in task.constraints) if task else (),
    }
    fields: dict[str, Any] = _fields(defaults)
    shown: Any = _TrainArguments(**fields | own | {"algo": _shown(type(defaults.algo))(**_fields(defaults.algo))})
    # the task goes first, where no flag with many values can swallow it
    ordered = [w.text for w in found if w.owner == grid.TASK] + [w.text for w in found if w.owner != grid.TASK]
    given = tyro.cli(_TrainArguments, args=ordered, default=shown, prog="focops train")
    fields = {name: getattr(given, name) for name in fields}
    fields |= {name: None for name in own if fields[name] in (own[name], ())}
    algo = {name: getattr(given.algo, name) for name in _fields(defaults.algo) if name not in NOT_FLAGS}
    fields |= where_environments_run(given.env_workers, given.env_python)
    fields |= {"task": defaults.task, "algo": dataclasses.replace(defaults.algo, **algo)}
    return Options(TrainConfig(**fields), given.quiet, asked_for(given.wandb), given.jobs)


def _require_values(words: Sequence[grid.Word]) -> None:
    """Refuse values that tyro would read as the default: a limit without numbers, a directory without a name."""
    for flag in ("--cost-limit", "--cost-discount"):
        if grid.Word(flag, None) in words and all(word.owner != flag for word in words):
            raise UsageError(f"{flag} has no value; give one number for each cost, or leave it out for the task's own")
    out_path(grid.value_of(words, "--out", "default"))


def parse_resume(words: Sequence[str]) -> ResumeOptions:
    found = grid.split(words)
    changed = {word.owner: word.text for word in found if word.owner and word.owner.startswith("--algo.")}
    rest = [word.text for word in found if not (word.owner in changed or word.text in changed)]
    options = tyro.cli(ResumeOptions, args=rest, prog="focops resume")
    check_engine(options)
    changes = {flag.removeprefix("--algo.").replace("-", "_"): value for flag, value in changed.items()}
    return dataclasses.replace(options, changes=changes, sinks=asked_for(options.wandb))


def check_engine(options: ResumeOptions) -> None:
    """Refuse an engine that is not installed or does not answer, and what it does not take."""
    _require_jobs(options.jobs)
    if options.engine == "ray":
        from focops.cli.engines import ray_cluster

        ray_cluster.check(options.address)
    elif options.address is not None:
        raise UsageError(f"--address is {options.address}, of a Ray cluster: add --engine ray, or leave it out")


def check(options: Options) -> None:
    """Refuse what cannot work before anything is compiled or written: values, the directory, the environment."""
    config = options.config
    validate(config)
    _require_jobs(options.jobs)
    if config.out is not None:
        RunDirectory(config.out).require_free()
    _check_environment(config)


def _require_jobs(jobs: int) -> None:
    if jobs < 0:
        raise UsageError(f"--jobs is {jobs}; it must be a whole number ≥ 0 (0: one per core)")


def _check_environment(config: TrainConfig) -> None:
    """Make one where the run makes its own, once for all runs of a grid that have the same."""
    from focops.training.host import make_envs

    fields = ("task", "algorithm", "cost", "cost_limit", "cost_discount", "env_timeout", "env_python")
    asked = repr([getattr(config, name) for name in fields])
    if asked not in _checked:
        make_envs(dataclasses.replace(config, env_workers=min(config.env_workers or 0, 1)), 1).close()
        _checked.add(asked)


_checked: set[str] = set()


def _fields(config: Any) -> dict[str, Any]:
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


@functools.cache  # tyro remembers types by identity: a grid's points must share them
def _shown(kind: type) -> type:
    """An algorithm's Config with the fields hidden that are not flags."""
    hints = field_types(kind)
    hidden = {name: Annotated[hints[name], tyro.conf.Fixed, tyro.conf.Suppress] for name in NOT_FLAGS if name in hints}
    namespace = {"__annotations__": hints | hidden, "__no_type_check__": False, "__module__": kind.__module__}
    return dataclass(frozen=True)(type("Config", (kind,), namespace))
