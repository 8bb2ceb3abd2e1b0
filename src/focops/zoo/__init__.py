"""Trained policies that come with focops, one for each task: `focops.load("zoo:AntSpeed")`, `focops evaluate zoo:…`.

Each is a directory here: a run's without its metrics and checkpoints, and its card, README.md. `benchmarks/make_zoo.py`
makes them.
"""

import difflib
from pathlib import Path

from focops.errors import UsageError

PREFIX = "zoo:"
HOME = Path(__file__).parent


def names() -> list[str]:
    """What there is: tasks without their version."""
    return sorted(file.parent.name for file in HOME.glob("*/config.json"))


def is_named(path: Path | str) -> bool:
    """Whether it names a policy of the zoo rather than a path."""
    return str(path).startswith(PREFIX)


def located(path: Path | str) -> Path:
    """`zoo:NAME` as the directory that holds it, also with the task's version; any other path as it is."""
    if not is_named(path):
        return Path(path)
    name = str(path).removeprefix(PREFIX).removesuffix("-v0")
    if name not in names():
        close = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {PREFIX}{close[0]}? There are" if close else "there are"
        raise UsageError(f"the zoo has no {name!r}; {hint}: {', '.join(names()) or 'none'}")
    return HOME / name
