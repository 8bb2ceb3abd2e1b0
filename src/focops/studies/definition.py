"""A study: tasks × algorithms × settings × seeds, declared in a TOML file, as the command lines of its runs.

    title = "How much FOCOPS depends on its temperature"
    tasks = ["AntSpeed", "HopperSpeed"]
    algorithms = ["focops"]
    preset = "paper"               # or fast
    steps = "1M"
    seeds = 3                      # or which: "0..2", "1,2,5"
    limit_shares = [0.5, 1.0]      # of the task's own limits; left out: these
    limits_of = "ppo"              # limit_shares are of what this algorithm costs, whose runs are trained first
    evaluate_best = "paper"        # evaluate the best seed that kept its limit, by this protocol; left out: no

    [set]                          # flags of `focops train`, the same for all runs of algorithms that have them
    "batch-size" = 20_000
    "algo.hidden" = [64, 64]       # several numbers of one flag
    [vary]                         # and such of which every combination is run, of algorithms that have them
    "algo.temperature" = [1.0, 1.5]

The files in `builtin/` are those of the paper and of the field.
"""

import dataclasses
import itertools
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from focops.algorithms import ALGORITHMS
from focops.errors import UsageError
from focops.evaluation.protocol import PROTOCOLS

_BUILTIN = resources.files("focops.studies") / "builtin"
_LISTS = ("tasks", "algorithms")
_TABLES = ("set", "vary")
_KINDS: tuple[tuple[str, Any, str], ...] = (
    *((key, str, "a text in quotes") for key in ("title", "preset", "limits_of", "evaluate_best")),
    *((key, list, "a list, as [1, 2]") for key in (*_LISTS, "limit_shares")),
    *((key, dict, f"a table, [{key}]") for key in _TABLES),
    ("seeds", int | str, 'their number, or which, as "0..9" or "1,2,5"'),
    ("steps", int | float | str, 'a number of samples, as "1M"'),
)
_OTHERWISE = {key: f"{key} is an entry of its own" for key in ("preset", "steps", "seeds")} | {
    "seed": "seeds is an entry of its own", "algo": "algorithms is an entry of its own",
    "backend": "--engine of `focops study` says it", "out": "--out of `focops study` says it",
    "jobs": "--jobs of `focops study` says it", "quiet": "--quiet of `focops study` says it",
}  # fmt: skip


@dataclass(frozen=True)
class Study:
    """The fields are those of the file."""

    name: str
    title: str
    tasks: tuple[str, ...]
    algorithms: tuple[str, ...]
    preset: str = "fast"
    steps: str = "1M"
    seeds: str = "0"
    limit_shares: tuple[float, ...] = ()
    limits_of: str = ""
    evaluate_best: str = ""
    set: dict[str, Any] = field(default_factory=dict)
    vary: dict[str, list[Any]] = field(default_factory=dict)


class Point(NamedTuple):
    """One run: its name, after what varies, and the words of its `focops train` command."""

    name: str
    words: tuple[str, ...]


def builtin() -> list[str]:
    """The names of the studies that come with focops."""
    return sorted(file.name.removesuffix(".toml") for file in _BUILTIN.iterdir() if file.name.endswith(".toml"))


def load(name: str) -> Study:
    """A built-in study by its name, or one of a file."""
    if name in builtin():
        return parse(name, (_BUILTIN / f"{name}.toml").read_text(encoding="utf-8"))
    path = Path(name)
    if not name.endswith(".toml"):
        raise UsageError(
            f"there is no study {name!r}; there are: {', '.join(builtin())}, or give a file, my-study.toml"
        )
    try:
        return parse(path.stem, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def parse(name: str, text: str) -> Study:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}.toml is no TOML: {error}") from error
    known = {each.name for each in dataclasses.fields(Study)} - {"name"}
    for key in data:
        if key not in known:
            raise UsageError(f"{name}.toml: unknown entry {key!r}; there are: {', '.join(sorted(known))}")
    for key in ("title", *_LISTS):
        if not data.get(key):
            raise UsageError(f"{name}.toml lacks {key}, or it is empty")
    for key, kinds, what in _KINDS:
        value = data.get(key)
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise UsageError(f"{name}.toml: {key} is {value!r}; it must be {what}")
    _check_flags(name, data)
    for share in data.get("limit_shares", []):
        if not isinstance(share, int | float) or isinstance(share, bool) or not share > 0:
            raise UsageError(f"{name}.toml: limit_shares has {share!r}; it must be a positive number")
    if data.get("limits_of") and not data.get("limit_shares"):
        raise UsageError(f"{name}.toml has limits_of without limit_shares; give the shares, as limit_shares = [0.5]")
    if data.get("evaluate_best", "paper") not in PROTOCOLS:
        raise UsageError(f"{name}.toml: evaluate_best is {data['evaluate_best']!r}; there is: {', '.join(PROTOCOLS)}")
    values: dict[str, Any] = {k: tuple(v) if k in (*_LISTS, "limit_shares") else v for k, v in data.items()}
    values["limit_shares"] = tuple(map(float, values.get("limit_shares", ())))
    seeds = values.get("seeds", Study.seeds)
    if isinstance(seeds, int) and seeds < 1:
        raise UsageError(f'{name}.toml: seeds is {seeds}; give their number, ≥ 1, or which, as "0..9" or "1,2,5"')
    values["seeds"] = f"0..{seeds - 1}" if isinstance(seeds, int) else str(seeds)
    values["steps"] = str(values.get("steps", Study.steps))
    return Study(name, **values)


def _check_flags(name: str, data: dict[str, Any]) -> None:
    """Refuse flags that say again what an entry says, and those that no algorithm of the study has."""
    for flag, values in data.get("vary", {}).items():
        if not isinstance(values, list) or not values:
            raise UsageError(f"{name}.toml: {flag} in [vary] is {values!r}; it must be a list of values")
    algorithms = [*data["algorithms"], *filter(None, [data.get("limits_of")])]
    for table, flag in ((each, flag) for each in _TABLES for flag in data.get(each, {})):
        if flag in _OTHERWISE:
            raise UsageError(f"{name}.toml: [{table}] has {flag!r}; leave it out: {_OTHERWISE[flag]}")
        if flag == "cost-limit" and data.get("limit_shares"):
            raise UsageError(f"{name}.toml: [{table}] has cost-limit beside limit_shares; leave one of them out")
        if not any(_has(algorithm, flag) for algorithm in algorithms):
            raise UsageError(f"{name}.toml: [{table}] has {flag!r}, a flag that none of {', '.join(algorithms)} has")


def narrowed(study: Study, **changes: Any) -> Study:
    """The study with other values of some fields, where they are given."""
    return dataclasses.replace(study, **{name: value for name, value in changes.items() if value})


def measured(study: Study) -> Study | None:
    """The runs that the limits of a study are taken from, as a study; None if it has none. They are named as those of
    any study of that algorithm."""
    if not study.limits_of:
        return None
    return dataclasses.replace(study, algorithms=(study.limits_of,), limits_of="", limit_shares=(), vary={})


def points(study: Study, seeds: Sequence[int], limits: Mapping[str, Sequence[float]], backend: str) -> list[Point]:
    """Every run of the study: task by task, seeds fastest. `limits` are the tasks' own."""
    found = []
    for task, algorithm in itertools.product(study.tasks, study.algorithms):
        own = {flag: values for flag, values in study.vary.items() if _has(algorithm, flag)}
        for share, values in itertools.product(study.limit_shares or (None,), itertools.product(*own.values())):
            varied = dict(zip(own, values, strict=True))
            for seed in seeds:
                chosen = {flag: value for flag, value in study.set.items() if _has(algorithm, flag)} | varied
                words = [task, "--algo", algorithm, "--preset", study.preset, "--steps", study.steps]
                words += [word for flag, value in chosen.items() for word in (f"--{flag}", *_texts(value))]
                label = [
                    task,
                    algorithm,
                    *(f"{flag.rpartition('.')[2]}={'+'.join(_texts(v))}" for flag, v in varied.items()),
                ]
                if share is not None:
                    words += ["--cost-limit", *(repr(float(f"{share * limit:.9g}")) for limit in limits[task])]
                    label.append(f"limit={share:g}")
                words += ["--backend", backend] * (backend != "cpu")
                name = ",".join([*label, f"seed={seed}"])
                found.append(Point(re.sub(r"[^\w.,=+-]", "_", name), (*words, "--seed", str(seed))))
    return found


def _has(algorithm: str, flag: str) -> bool:
    """Whether it is a flag of all runs, or one of this algorithm's."""
    if not flag.startswith("algo.") or algorithm not in ALGORITHMS:  # one that does not exist is refused later
        return True
    return flag[5:].replace("-", "_") in {each.name for each in dataclasses.fields(ALGORITHMS[algorithm].Config)}


def _texts(value: Any) -> list[str]:
    """As words of a command: of a list several."""
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    if isinstance(value, float):
        short = f"{value:g}"
        return [short if float(short) == value else repr(value)]
    return [str(value)]
