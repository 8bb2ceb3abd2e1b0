"""A run's directory on another machine: what travels there, and what comes back as it changes.

The run writes metrics, checkpoint, policy and summary in this order (`Recorder`). The files are read in the opposite
order and written in the same, so a copy is at any instant one that can be resumed.
"""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import IO, NamedTuple

from focops.runs.files import make_own_folder, open_own, write_atomically

_SENT = ("config.json", "metrics.jsonl", "summary.json", "output.txt", "wandb.id", "checkpoint/*", "policy/*")
"""What a run needs to go on."""
_ORDER = ("config.json", "metrics.jsonl", "checkpoint", "policy", "summary.json")
_GROW = ("metrics.jsonl", "events.")
"""How the names of files begin to which the run appends; a run that is resumed first cuts them back."""
_ATTEMPTS = 10
_NAME_THEMSELVES = ("config.json", "summary.json", "output.txt")
"""Files in which the directory's path stands."""


class Piece(NamedTuple):
    """A file, or what was appended to it since the last time."""

    name: str
    offset: int
    data: bytes


class Changes(NamedTuple):
    pieces: list[Piece]
    """In the order in which they are to be written."""
    names: set[str]
    """All files that there are."""


def pack(directory: Path) -> list[Piece]:
    """The files that a run needs to go on elsewhere; none of a run that is not begun."""
    files = [file for pattern in _SENT for file in directory.glob(pattern) if _counts(file)]
    return [Piece(str(file.relative_to(directory)), 0, file.read_bytes()) for file in files]


def write(directory: Path, changes: Changes, had: set[str] | None = None) -> None:
    """Write what has changed; remove those of `had` that are gone."""
    directory.mkdir(exist_ok=True)
    if changes.pieces:
        make_own_folder(directory / "checkpoint")  # a run that is begun has it, if only empty
    for name, offset, data in changes.pieces:
        path = directory / name
        for folder in reversed(Path(name).parents[:-1]):
            make_own_folder(directory / folder)
        if offset:
            with open_own(path, "ab") as file:
                file.truncate(offset)
                file.write(data)
        else:
            write_atomically(path, data)
    for name in (had or set()) - changes.names:
        (directory / name).unlink(missing_ok=True)


class _Stamp(NamedTuple):
    """What tells that a file has changed, or that there is another of its name."""

    inode: int
    modified: int
    size: int


class Source:
    """The directory that a run writes to, `here`, which is a copy of `there` on another machine."""

    def __init__(self, here: Path, there: str) -> None:
        self._here, self._there = here, there
        self._seen: dict[str, _Stamp] = {}
        self._hashes: dict[str, bytes] = {}
        """Of files that grow, as they were then."""

    def local(self, text: str) -> str:
        return text.replace(self._there, str(self._here))

    def remote(self, text: str) -> str:
        return text.replace(str(self._here), self._there)

    def changes(self) -> Changes:
        """Since the last time. If a checkpoint is written meanwhile, all is read again: records beyond a checkpoint
        that is not there look as if it were lost."""
        for _ in range(_ATTEMPTS):
            names, seen, pieces = self._names(), dict[str, _Stamp](), list[Piece]()
            hashes = dict(self._hashes)
            with contextlib.suppress(FileNotFoundError):
                for name in sorted(names, key=_rank, reverse=True):
                    with open(self._here / name, "rb") as file:  # stays the same file if another takes its name
                        seen[name] = _stamp(file)
                        if seen[name] != self._seen.get(name):
                            pieces.append(self._piece(name, file.read(seen[name].size), hashes))
                if self._names() == names:
                    self._seen, self._hashes = seen, hashes
                    return Changes(pieces[::-1], names)
        return Changes([], set(self._seen))  # another time

    def _names(self) -> set[str]:
        return {str(file.relative_to(self._here)) for file in self._here.rglob("*") if _counts(file)}

    def _piece(self, name: str, data: bytes, hashes: dict[str, bytes]) -> Piece:
        """The file, and its hash into `hashes` if it grows."""
        if name in _NAME_THEMSELVES:
            here, there = (json.dumps(each, ensure_ascii=False)[1:-1] for each in (str(self._here), self._there))
            data = data.replace(here.encode(), there.encode())
        if not name.startswith(_GROW):
            return Piece(name, 0, data)
        before = self._seen[name].size if name in self._seen else 0
        # not so if it was cut back, even if it has become longer again since
        begins_the_same = hashlib.sha256(data[:before]).digest() == self._hashes.get(name)
        hashes[name] = hashlib.sha256(data).digest()
        return Piece(name, before, data[before:]) if begins_the_same else Piece(name, 0, data)


def _stamp(file: IO[bytes]) -> _Stamp:
    found = os.fstat(file.fileno())
    return _Stamp(found.st_ino, found.st_mtime_ns, found.st_size)


def _counts(file: Path) -> bool:
    return file.is_file() and not file.is_symlink() and file.suffix != ".tmp" and file.name != ".lock"


def _rank(name: str) -> tuple[int, str]:
    first = name.partition("/")[0]
    return (_ORDER.index(first) if first in _ORDER else len(_ORDER)), name
