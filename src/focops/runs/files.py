"""Files that are whole or absent, and that are never written through a symbolic link."""

import contextlib
import errno
import json
import math
import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from focops.errors import UsageError


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: a temporary beside it, fsynced and renamed. OSError leaves the old file as it was.

    A link is replaced, not its target. Devices and pipes (/dev/stdout, a FIFO) are written to as they are.
    """
    if _is_stream(path):
        _append_to_stream(path, data)
        return
    temporary = path.with_name(path.name + ".tmp")
    if os.path.lexists(temporary):  # of a run that was killed, or a link to somewhere else
        os.unlink(temporary)
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder survive a power cut."""
    if os.name == "nt":  # which opens no folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse_link(path: Path) -> None:
    """OSError if `path` is a link: one in a run's directory may lead anywhere."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed; replace it by what it points to")


def open_own(path: Path, mode: str) -> IO[Any]:
    """Open a file of a run to append to it ("ab", "a+"); OSError if it is a link."""
    refuse_link(path)
    return open(path, mode, opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666))


def make_own_folder(folder: Path) -> None:
    """Make a folder of a run if it is not there, but not the run's directory; OSError if it is a link."""
    refuse_link(folder)
    folder.mkdir(exist_ok=True)


def is_still_at(path: Path, descriptor: int) -> bool:
    """Whether `path` still leads to the opened file; not if the file or its folder was removed or renamed."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


@contextlib.contextmanager
def held_in_place(folder: Path) -> Iterator[Callable[[], None]]:
    """A function that raises OSError once `folder` has been removed or renamed."""
    if os.name == "nt":  # which opens no folders
        yield lambda: None
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"cannot look into {folder}: {error.strerror}; check its permissions") from error

    def require_in_place() -> None:
        if not is_still_at(folder, descriptor):
            raise OSError(errno.ENOENT, f"{folder} was removed or renamed meanwhile; resume it where it is now")

    try:
        yield require_in_place
    finally:
        os.close(descriptor)


def resume_command(run: Path | str) -> str:
    """What to type into a shell to resume a run or a grid."""
    return f"focops resume {shlex.quote(str(run))}"


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically; numbers that JSON cannot hold become null."""
    text = json.dumps(jsonable(value), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, text.encode() + b"\n")


def _is_stream(path: Path) -> bool:
    """Whether a rename to `path` would put a file in the place of a device or a pipe."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISLNK(mode):  # /dev/stdout and /dev/fd/3, whatever they lead to
        folder = path.parent.resolve()
        return folder == Path("/dev") or folder.is_relative_to("/proc")
    return not stat.S_ISREG(mode)


def _append_to_stream(path: Path, data: bytes) -> None:
    """Write to a device or a pipe; to standard output or error after what was printed there, also if it is a file."""
    found: int | Path = path
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or not a file
            stream.flush()
            if os.path.samestat(os.stat(path), os.fstat(stream.fileno())):
                found = os.dup(stream.fileno())  # which has the same position
                break
    with open(found, "ab") as file:
        file.write(data)


def jsonable(value: Any) -> Any:
    """Plain JSON data: NumPy and JAX scalars and arrays as numbers and lists, NaN and infinities as null."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    return str(value)
