"""Another interpreter for environments that do not run under this one (`--env-python`), checked before it is used."""

import functools
import json
import os
import subprocess
from pathlib import Path

from focops.errors import UsageError

OLDEST = (3, 8)
_ANSWER_SECONDS = 120
_ASK = """
import importlib, json, platform
found = {"python": platform.python_version()}
for name in ("numpy", "gymnasium", "gym"):
    if name == "gym" and "gymnasium" in found:
        break  # Gymnasium is used where there are both
    try:
        found[name] = importlib.import_module(name).__version__
    except ImportError as error:
        if error.name != name:
            raise
print(json.dumps(found))
"""


def interpreter(path: Path) -> str:
    """The interpreter at `path`, or that of the virtual environment in the folder `path`; checked."""
    versions(path)
    return str(_file(path))


@functools.cache
def versions(path: Path) -> dict[str, str]:
    """The versions of `python`, `numpy`, and `gymnasium` or `gym` that it has; UsageError where one is missing."""
    file = _file(path)
    try:
        answer = subprocess.run(
            [file, "-c", _ASK], capture_output=True, text=True, timeout=_ANSWER_SECONDS, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--env-python is {path}, but {file} cannot be run: {error}; {_WAY_OUT}") from error
    if answer.returncode != 0:
        said = answer.stderr.strip().splitlines()[-1:] or [f"exit status {answer.returncode}"]
        raise UsageError(f"--env-python is {path}, but {file} fails when asked for its packages: {said[0]}; {_WAY_OUT}")
    try:
        found = json.loads(answer.stdout.splitlines()[-1])
        release = tuple(int(number) for number in found["python"].split(".")[:2])
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UsageError(f"--env-python is {path}, but {file} is no Python interpreter; {_WAY_OUT}") from None
    missing = [] if "numpy" in found else ["numpy"]
    missing += [] if {"gymnasium", "gym"} & found.keys() else ["gymnasium (or gym)"]
    if release < OLDEST:
        raise UsageError(f"--env-python is {path}, which is Python {found['python']}; it must be 3.8 or newer")
    if missing:
        raise UsageError(
            f"--env-python is {path}, but {' and '.join(missing)} cannot be imported there; install it with:"
            f"  {file} -m pip install {' '.join(name.split()[0] for name in missing)}"
        )
    return found


_WAY_OUT = "give an interpreter, or the folder of a virtual environment (python3 -m venv FOLDER)"


def _file(path: Path) -> Path:
    file = path / "bin" / "python" if path.is_dir() else path
    if not file.is_file():
        what = "has no bin/python" if path.is_dir() else "does not exist"
        raise UsageError(f"--env-python is {path}, which {what}; {_WAY_OUT}")
    if not os.access(file, os.X_OK):
        raise UsageError(f"--env-python is {path}, but {file} is not executable; {_WAY_OUT}")
    return file.absolute()  # not resolved: a link in a virtual environment's folder leads out of it
