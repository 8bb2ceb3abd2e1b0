"""What a search varies: ranges and lists of values, by the name of their flag.

algo.temperature=0.3..10:log       a range, searched on a logarithmic scale
algo.nu-lead=0..20                 a range
algo.minibatch-size=64,128,256     a list
"""

import dataclasses
import difflib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

from focops.config import TrainConfig, validate
from focops.core.base import FILLED
from focops.core.fields import field_types, ranges
from focops.errors import UsageError

DEFAULTS = {
    "temperature": "0.3..30:log",
    "trust-region": "0.003..0.1:log",
    "clip": "0.05..0.5",
    "policy-rate": "3e-05..0.003:log",
    "nu-rate": "0.001..0.1:log",
    "nu-lead": "0..20",
    "k-p": "0.01..1:log",
    "k-i": "0.001..0.1:log",
    "k-d": "0.001..0.1:log",
}
"""What is searched if nothing is said, each where the algorithm has it. To these come minibatches of half, once, twice
and four times the task's own."""
_FACTORS = (0.5, 1, 2, 4)
_IDLE = ("nu-rate", "nu-lead")
"""What changes nothing where ν is solved for."""
_OF_RUN: dict[str, type] = {"batch-size": int, "num-envs": int, "margin": float}
"""Flags that are not the algorithm's. Others change the problem or nothing: the task, limits, steps, seeds."""
_DIVIDE = ("batch-size", "num-envs", "algo.minibatch-size")
"""One must divide another, which the values of a range seldom do."""
_DIGITS = 4
"""Significant digits of a proposed number: no result depends on more, and commands stay readable."""
_SYNTAX = "write NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=A,B,C"


class Interval(NamedTuple):
    """From low to high, both included."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low!r}..{self.high!r}" + ":log" * self.log

    @property
    def size(self) -> float:
        return self.high - self.low + 1 if self.whole else math.inf

    def rounded(self, value: float) -> float:
        return value if self.whole else min(self.high, max(self.low, float(f"{value:.{_DIGITS}g}")))


class Choices(NamedTuple):
    """One of these."""

    values: tuple[Any, ...]

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return ",".join(map(str, self.values))

    @property
    def size(self) -> float:
        return len(self.values)

    def rounded(self, value: Any) -> Any:
        return value


Space = dict[str, Interval | Choices]
"""By flag, without its dashes: `algo.nu-rate`."""


def parse(texts: Sequence[str], config: TrainConfig) -> Space:
    """The space of `--search`; every value that it holds is one that `focops train` takes."""
    space: Space = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.removeprefix("--").replace("_", "-")
        if not equals or not values:
            raise UsageError(f"--search {text} has no values; {_SYNTAX}")
        if name in space:
            raise UsageError(f"--search names {name} twice; give it once")
        try:
            space[name] = _dimension(name, values, _kind(name, config))
        except ValueError as error:
            raise UsageError(f"--search {text}: {error}") from None
    _require_allowed(space, config)
    return space


def default(config: TrainConfig) -> list[str]:
    """The texts of the space for this algorithm; `config` has the task's own settings."""
    idle = _IDLE if getattr(config.algo, "solve_dual", False) else ()
    names = [name for name in DEFAULTS if hasattr(config.algo, _field(name)) and name not in idle]
    found = [f"algo.{name}={DEFAULTS[name]}" for name in names]
    own = getattr(config.algo, "minibatch_size", None)
    if own is not None:
        sizes = [int(own * factor) for factor in _FACTORS]
        sizes = [size for size in sizes if size >= 1 and config.batch_size % size == 0]
        found += [f"algo.minibatch-size={','.join(map(str, sizes))}"] * (len(sizes) > 1)
    if not found:
        raise UsageError(
            f"for {config.algorithm} there is no usual search; say what to search, as --search algo.x=1..2"
        )
    return found


def points(space: Space) -> float:
    """How many settings it holds."""
    return math.prod(values.size for values in space.values())


def listed(values: Interval | Choices) -> str:
    """A finite dimension as `focops train` takes it."""
    return str(values if isinstance(values, Choices) else Choices(tuple(range(int(values.low), int(values.high) + 1))))


def start(space: Space, config: TrainConfig, given: Callable[[str], bool]) -> dict[str, Any] | None:
    """Where a search begins: the config's own values. None if one of them lies outside; a value that was `given` must
    not."""
    own = {name: _own(config, name) for name in space}
    for name, value in own.items():
        if value not in space[name] and given(name):
            raise UsageError(
                f"--{name} is {value}, where the search would start, but it searches {space[name]}; give --search"
                f" {name} values that have it among them, or leave --{name} out"
            )
    return own if all(value in space[name] for name, value in own.items()) else None


def a_point(space: Space, config: TrainConfig) -> TrainConfig:
    """The config with its own values, where the space has them, or with others that it has."""
    some = {name: values.low if isinstance(values, Interval) else values.values[0] for name, values in space.items()}
    return applied(config, {name: own if (own := _own(config, name)) in space[name] else some[name] for name in space})


def require_runs(space: Space, config: TrainConfig) -> None:
    """Refuse lists of sizes of which some do not go together."""
    lists = {name: values.values for name in _DIVIDE if isinstance(values := space.get(name), Choices)}
    point = a_point(space, config)
    for sizes in itertools.product(*lists.values()):
        try:
            validate(applied(point, dict(zip(lists, sizes, strict=True))))
        except UsageError as error:
            raise UsageError(f"--search proposes what no run takes: {error}") from None


def applied(config: TrainConfig, values: Mapping[str, Any]) -> TrainConfig:
    """The config with other values."""
    algo = {_field(name[5:]): value for name, value in values.items() if name.startswith("algo.")}
    run = {_field(name): value for name, value in values.items() if not name.startswith("algo.")}
    return dataclasses.replace(config, algo=dataclasses.replace(config.algo, **algo), **run)


def _field(name: str) -> str:
    return name.replace("-", "_")


def _own(config: TrainConfig, name: str) -> Any:
    """The value that a config has of it."""
    owner = config.algo if name.startswith("algo.") else config
    return getattr(owner, _field(name.removeprefix("algo.")))


def _kind(name: str, config: TrainConfig) -> Any:
    """The type of a field that can be searched."""
    fields = {field: kind for field, kind in field_types(type(config.algo)).items() if field not in FILLED}
    kinds: dict[str, Any] = _OF_RUN | {f"algo.{field.replace('_', '-')}": kind for field, kind in fields.items()}
    can = [each for each, kind in kinds.items() if kind in (float, int, bool) or get_origin(kind) is Literal]
    if name in can:
        return kinds[name]
    close = difflib.get_close_matches(name, can, n=3)
    those = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(sorted(can))}"
    if name in kinds:
        raise ValueError(f"{name} is not one number and cannot be searched; run a search for each of its values")
    why = "cannot be searched" if hasattr(config, _field(name)) else f"is no number of {config.algorithm}"
    raise ValueError(f"{name} {why}; {those}")


def _dimension(name: str, text: str, kind: Any) -> Interval | Choices:
    if ".." in text:
        return _interval(name, text, kind)
    if ":" in text:
        raise ValueError(f"a list has no scale; {_SYNTAX}")
    values = tuple(_value(part, kind) for part in text.split(","))
    if len(values) < 2:
        raise ValueError(
            f"one value leaves nothing to search; {_SYNTAX}, or fix it for all trials with --{name} {text}"
        )
    if len(set(values)) < len(values):
        raise ValueError("a value is there twice; give each once")
    return Choices(values)


def _interval(name: str, text: str, kind: Any) -> Interval:
    ends, colon, scale = text.partition(":")
    if kind not in (float, int):
        raise ValueError(f"{name} is no number, so it has no range; list its values, as A,B")
    if colon and scale != "log":
        raise ValueError(f"unknown scale {scale!r}; write LOW..HIGH:log, or LOW..HIGH for a linear one")
    if name in _DIVIDE:
        raise ValueError("of its values one must divide another, which few in a range do; list them, as 64,128,256")
    low, high = (_value(end, kind) for end in ends.split("..", 1))
    if not low < high:
        raise ValueError(f"the range is empty: {low} is not below {high}; {_SYNTAX}")
    if not math.isfinite(high - low):
        raise ValueError("a range has finite ends; list infinity as one of several values, as 1,2,inf")
    if scale and low <= 0:
        raise ValueError(f"a logarithmic range must begin above 0, and this one begins at {low}")
    return Interval(low, high, bool(scale), kind is int)


def _value(text: str, kind: Any) -> Any:
    if kind in (float, int):
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a {'whole ' * (kind is int)}number; {_SYNTAX}") from None
    names = {str(value): value for value in ((True, False) if kind is bool else get_args(kind))}
    if text not in names:
        raise ValueError(f"{text!r} is not one of {', '.join(names)}")
    return names[text]


def _require_allowed(space: Space, config: TrainConfig) -> None:
    """Refuse values that a run would refuse; the ends stand for all that is between them."""
    allowed = {f"algo.{name.replace('_', '-')}": kind for name, kind in ranges(type(config.algo)).items()}
    for name, values in space.items():
        extremes = (values.low, values.high) if isinstance(values, Interval) else values.values
        for value in extremes:
            if name in allowed and not allowed[name].holds(value):
                raise UsageError(f"--search {name}={values}: {value} is outside; it must be {allowed[name].text}")
            if name == "margin" and not 0 <= value < 1:
                raise UsageError(f"--search {name}={values}: {value} is outside; it must be in [0, 1)")
