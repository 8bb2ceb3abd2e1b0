"""Grids of runs: any flag given several comma-separated values; every combination is a run."""

import itertools
import math
import re
import reprlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from focops.errors import UsageError

_SWITCHES = ("-h", "--help", "--quiet", "--wandb", "--exact")
"""Flags without a value."""
LISTS = ("--cost-limit", "--cost-discount", "--algo.hidden")
"""Flags with any number of values, all numbers, with or without a name."""
SEEDS = ("--seed", "--seeds")
_MOST_RUNS = 10_000
"""Largest number of runs or seeds of a grid."""
_NEVER_VARIES = ("--out", "--jobs", "--from")
TASK = "TASK"
_NUMBERS = re.compile(r"[\d.,eE+-]+|inf|[^\s=]+=\S*")
"""25, 1,2,inf and speed=25; also speed=fast, which is refused as such a value rather than as a task."""
_RANGE = re.compile(r"(\d{1,19})\.\.(\d{1,19})")


class Word(NamedTuple):
    """A word of a command line and the flag whose value it is: TASK for the task, None for a flag itself."""

    text: str
    owner: str | None


class Point(NamedTuple):
    """One run of a grid: its name, after what varies, and its command line."""

    name: str
    words: tuple[str, ...]


def split(words: Sequence[str]) -> list[Word]:
    """Separate flags, their values and the task. `--flag=value` is `--flag value`; `_` in a flag is `-`."""
    found: list[Word] = []
    flag, wants_more = None, False
    for word in words:
        if word.startswith("--") or word in _SWITCHES:
            name, equals, value = word.partition("=")
            flag = name.replace("_", "-")
            found.append(Word(flag, None))
            if equals:
                found.append(Word(value, flag))
            wants_more = flag in LISTS or not (equals or flag in _SWITCHES)
        elif wants_more and (found[-1].owner is None or _NUMBERS.fullmatch(word)):
            found.append(Word(word, flag))
            wants_more = flag in LISTS
        else:
            found.append(Word(word, TASK))
    return found


def value_of(words: Sequence[Word], owner: str, default: str) -> str:
    """A flag's last value, or the task."""
    return next((word.text for word in reversed(words) if word.owner == owner), default)


def expand(words: Sequence[Word]) -> list[Point]:
    """Every combination of the values that vary, seeds fastest; [] if none does and `--seeds` is absent."""
    words = [Word("--seed", None) if word == Word("--seeds", None) else word for word in words]
    options = [_options(word) for word in words]
    axes = [i for i, word in enumerate(words) if len(options[i]) > 1 or word.owner == "--seeds"]
    axes.sort(key=lambda i: words[i].owner in SEEDS)
    if not axes:
        return []
    runs = math.prod(len(options[i]) for i in axes)
    if runs > _MOST_RUNS:
        raise UsageError(
            f"the grid has {runs} runs; it can have at most {_MOST_RUNS}: give fewer values, or several grids"
        )
    labels = _labels([str(words[i].owner) for i in axes])
    points = []
    for values in itertools.product(*(options[i] for i in axes)):
        chosen = dict(zip(axes, values, strict=True))
        name = ",".join(f"{label}={_safe(value)}" for label, value in zip(labels, values, strict=True))
        points.append(Point(name, tuple(chosen.get(i, word.text) for i, word in enumerate(words))))
    repeated = [name for name, times in Counter(point.name for point in points).items() if times > 1]
    if repeated:
        raise UsageError(f"the grid holds {repeated[0]} twice; give each value once")
    return points


def _options(word: Word) -> list[str]:
    if word.owner is None or word.owner in _NEVER_VARIES:
        return [word.text]
    name, equals, values = word.text.rpartition("=") if word.owner in LISTS else ("", "", word.text)
    parts = [name + equals + value if value else "" for value in values.split(",")]
    if "" in parts and len(parts) > 1:
        raise UsageError(f"{word.owner} is {word.text!r}; give values with single commas between them, as 1,2,3")
    if word.owner not in SEEDS:
        return parts
    return [seed for part in parts for seed in _seeds(part, word.owner)]


def seeds(text: str) -> list[int]:
    """0..3 or 0,2,5 as numbers."""
    found = _options(Word(text, "--seeds"))
    if not all(seed.isdecimal() and len(seed) < 20 for seed in found):
        raise UsageError(f"--seeds is {reprlib.repr(text)}; give whole numbers, as 0..9 or 1,2,5")
    return [int(seed) for seed in found]


def _seeds(part: str, flag: str) -> list[str]:
    """0..3 as 0 1 2 3."""
    match = _RANGE.fullmatch(part)
    if match is None:
        return [part]
    first, last = int(match[1]), int(match[2])
    if first > last:
        raise UsageError(f"{flag} is {part}; a range goes upwards, as {last}..{first}")
    if last - first >= _MOST_RUNS:
        raise UsageError(f"{flag} is {part}, {last - first + 1} seeds; give at most {_MOST_RUNS} at once")
    return [str(seed) for seed in range(first, last + 1)]


def _labels(flags: list[str]) -> list[str]:
    """The flags' last parts, or more where that is ambiguous."""
    whole = ["seed" if flag == "--seeds" else flag.removeprefix("--").lower() for flag in flags]
    short = [flag.rpartition(".")[2] for flag in whole]
    labels = [s if short.count(s) == whole.count(w) else w for s, w in zip(short, whole, strict=True)]
    return [
        f"{label}.{labels[:i].count(label) + 1}" if labels.count(label) > 1 else label for i, label in enumerate(labels)
    ]


def _safe(value: str) -> str:
    """For a file name."""
    return re.sub(r"[^\w.+-]", "_", value)
