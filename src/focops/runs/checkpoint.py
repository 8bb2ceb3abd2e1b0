"""Checkpoints: one safetensors file each, written atomically and checked by a digest. Nothing is unpickled.

The file's only metadata entry, `focops`, is a JSON object: `format` (version), `sha256` and `meta` (the caller's). The
SHA-256 is that of the whole file with the digest's own 64 characters set to zeros.
"""

import contextlib
import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from focops.errors import RunError
from focops.runs.files import make_own_folder, write_atomically
from focops.runs.identity import Identity, difference

FORMAT = 1
_NUMBER_KEPT = 2
_DTYPES = ("bool", "int8", "int32", "int64", "uint8", "uint32", "uint64", "float16", "float32", "float64")
_NAME = re.compile(r"(\d+)\.safetensors")
_NO_DIGEST = "0" * 64

Arrays = dict[str, np.ndarray]
Meta = dict[str, Any]


class CheckpointError(RunError):
    """A checkpoint that cannot be written or must not be loaded."""


class CheckpointWarning(UserWarning):
    """The newest checkpoint was unusable and an older one is in use."""


def save(folder: Path, number: int, arrays: Arrays, meta: Meta) -> Path:
    """Write checkpoint `number` (the iteration) and keep the one before it; others and stale temporaries are removed.

    Files with greater numbers are removed as well: the run was resumed from before them. On CheckpointError all earlier
    checkpoints are unchanged.
    """
    path = _path(folder, number)
    data = serialize(arrays, meta)
    with explained(f"could not write the checkpoint {path}", ". Earlier checkpoints are untouched"):
        make_own_folder(folder)
        write_atomically(path, data)
    _tidy(folder, number)
    return path


def load(path: Path) -> tuple[Arrays, Meta]:
    """The arrays and meta of one file; CheckpointError says what is wrong with it."""
    with explained(f"could not read the checkpoint {path}"):
        data = path.read_bytes()
    return deserialize(data, str(path))


def _load_own(path: Path, run: Identity) -> tuple[Arrays, Meta]:
    """`load`; CheckpointError also if the file is of another run."""
    arrays, meta = load(path)
    other = difference(meta.get("run") if isinstance(meta, dict) else None, run)
    if other:
        raise CheckpointError(f"{path} is of another run ({other})")
    return arrays, meta


def load_newest(folder: Path, run: Identity | None = None) -> tuple[Arrays, Meta] | None:
    """The newest valid checkpoint of `run`, with a CheckpointWarning if a newer one is unusable; None if there are no
    files."""
    problems: list[str] = []
    for _, path in reversed(_numbered(folder)):
        try:
            loaded = _load_own(path, run or {})
        except CheckpointError as error:
            problems.append(str(error))
            continue
        if problems:
            warnings.warn(f"{'; '.join(problems)}. Going on from {path}", CheckpointWarning, stacklevel=2)
        return loaded
    if problems:
        raise CheckpointError("no usable checkpoint: " + "; ".join(problems))
    return None


def load_common(folders: Sequence[Path], runs: Sequence[Identity]) -> list[Arrays] | None:
    """Each run's checkpoint of the newest iteration of which all have a valid one; None if one run has no files."""
    if len(folders) == 1:
        newest = load_newest(folders[0], runs[0])
        return None if newest is None else [newest[0]]
    for number in sorted(set.intersection(*map(numbers, folders)), reverse=True):
        try:
            return [_load_own(_path(folder, number), run)[0] for folder, run in zip(folders, runs, strict=True)]
        except CheckpointError as error:
            warnings.warn(f"{error}. Going on from an earlier one", CheckpointWarning, stacklevel=2)
    if all(_numbered(folder) for folder in folders):
        raise CheckpointError("the runs have no checkpoint of one iteration in common; resume them one by one")
    return None


def serialize(arrays: Arrays, meta: Meta) -> bytes:
    """The file's bytes; the same arrays and meta give the same bytes."""
    contiguous = {name: np.array(array, order="C", copy=None) for name, array in arrays.items()}
    for name, array in contiguous.items():
        if array.dtype.name not in _DTYPES:
            raise TypeError(f"array {name!r} has dtype {array.dtype}; a checkpoint holds {', '.join(_DTYPES)}")
    header = json.dumps({"format": FORMAT, "sha256": _NO_DIGEST, "meta": meta})
    data = safetensors.numpy.save(contiguous, {"focops": header})
    return data.replace(_NO_DIGEST.encode(), hashlib.sha256(data).hexdigest().encode(), 1)


def deserialize(data: bytes, name: str, kind: str = "checkpoint") -> tuple[Arrays, Meta]:
    """Inverse of `serialize`; `name` is what messages call the data, `kind` what it should be."""
    damaged = f"{name} is damaged"
    try:
        size = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + size])["__metadata__"]
        header = json.loads(metadata["focops"])
        version, digest = header["format"], header["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(f"{name} is not a focops {kind}, or is damaged at its head") from None
    if version != FORMAT:
        raise CheckpointError(
            f"{name} has format {version!r}; this focops reads format {FORMAT}. Use the version that wrote it"
        )
    if not isinstance(digest, str) or len(digest) != len(_NO_DIGEST):
        raise CheckpointError(f"{damaged}: it has no checksum")
    unsigned = data.replace(digest.encode(errors="replace"), _NO_DIGEST.encode(), 1)
    if hashlib.sha256(unsigned).hexdigest() != digest:
        raise CheckpointError(f"{damaged}: its checksum does not match its contents")
    try:
        return {key: np.array(array) for key, array in safetensors.numpy.load(data).items()}, header["meta"]
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{damaged}: {error}") from None


@contextlib.contextmanager
def explained(what: str, then: str = "") -> Iterator[None]:
    """Turn an OSError into a CheckpointError."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{what}: {error.strerror or error}{then}") from error


def numbers(folder: Path) -> set[int]:
    """The iterations that have a checkpoint."""
    return {number for number, _ in _numbered(folder)}


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:08d}.safetensors"


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """Checkpoints by number, oldest first."""
    if not folder.is_dir():
        return []
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in matches if match)


def _tidy(folder: Path, newest: int) -> None:
    """Remove all but the newest two checkpoints; files that cannot be removed are left."""
    numbered = _numbered(folder)
    newest_paths = [path for number, path in numbered if number <= newest][-_NUMBER_KEPT:]
    stale = [path for _, path in numbered if path not in newest_paths]
    for path in [*stale, *folder.glob("*.safetensors.tmp")]:
        with contextlib.suppress(OSError):
            path.unlink()
