"""Where a run's numbers go: metrics.jsonl, TensorBoard, Weights & Biases if asked, and sinks of the user's own."""

import contextlib
import functools
import importlib.util
import json
import os
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol

from focops.errors import RunError, UsageError
from focops.runs.files import open_own, resume_command, write_atomically

_METRICS = "metrics.jsonl"
_FLUSH_SECONDS = 10
Record = dict[str, Any]
"""One iteration: flat, plain JSON (NaN and infinities are None); `samples` is the step in every sink."""


class Sink(Protocol):
    """Receives the records of one run. `sinks` takes the function that opens one, such as its class.

    Examples:
        >>> class Best:
        ...     def __init__(self, directory: Path, iteration: int): ...  # the run's; 0, or where the run resumes
        ...     def write(self, record: dict): ...                        # one iteration
        ...     def sync(self): ...
        ...     def close(self): ...
        >>> focops.train("AntSpeed-v0", sinks=[Best])
    """

    def write(self, record: Record) -> None: ...

    def sync(self) -> None:
        """Flush what was written: a checkpoint of this iteration follows."""
        ...

    def close(self) -> None: ...


OpenSink = Callable[[Path, int], Sink]
"""Opens a sink, given the run's directory and the iteration that it resumes from, 0 for a new run. Records of
later iterations are obsolete: those iterations are repeated. metrics.jsonl is opened first and no longer has them."""


class JSONL:
    """metrics.jsonl, the numbers that all of focops reads."""

    def __init__(self, directory: Path, iteration: int = 0) -> None:
        self._path = directory / _METRICS
        self._file = _explained(self._path, lambda: open_own(self._path, "ab"))  # open as long as the run
        self._keep(iteration)

    def write(self, record: Record) -> None:
        line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        _explained(self._path, lambda: (self._file.write(line), self._file.flush()))

    def sync(self) -> None:
        _explained(self._path, lambda: (self._file.flush(), os.fsync(self._file.fileno())))

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written was reported when it was
            self._file.close()

    def _keep(self, records: int) -> None:
        """Remove all but the first `records`, one for each iteration."""
        with open(self._path, "rb") as file:
            lines = [line for line, _ in zip(file, range(records), strict=False) if line.endswith(b"\n")]
        if len(lines) < records:
            warnings.warn(f"{self._path} has lost records: {len(lines)} are left of {records}", stacklevel=3)
        self._file.truncate(sum(map(len, lines)))
        self._file.seek(0, os.SEEK_END)
        if lines and _record(lines[-1]) is None:
            warnings.warn(f"{self._path} is damaged at line {len(lines)}; the run itself is not", stacklevel=3)


class TensorBoard:
    """Scalars as TensorBoard events, written in this thread: tensorboardX's own would hang the run on a full disk."""

    def __init__(self, directory: Path, iteration: int = 0) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2, summary_pb2

        self._event: Any = vars(event_pb2)["Event"]  # made at run time: type checkers cannot see them
        self._summary: Any = vars(summary_pb2)["Summary"]
        self._flushed = time.monotonic()
        self._writer = EventsWriter(str(directory / "events"), f".{uuid.uuid4().hex[:8]}")
        last = read_last(directory / _METRICS)
        if last is not None:  # a resumed run: TensorBoard forgets what came after
            session = vars(event_pb2)["SessionLog"]
            start = session(status=session.START)
            self._writer.write_event(self._event(wall_time=time.time(), step=last["samples"] + 1, session_log=start))

    def write(self, record: Record) -> None:
        numbers = {k: v for k, v in record.items() if isinstance(v, int | float)}
        summary = self._summary(value=[self._summary.Value(tag=k, simple_value=v) for k, v in numbers.items()])
        self._writer.write_event(self._event(wall_time=time.time(), step=int(record["samples"]), summary=summary))
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.sync()

    def sync(self) -> None:
        self._writer.flush()
        self._flushed = time.monotonic()

    def close(self) -> None:
        self._writer.close()


class WandB:
    """Weights & Biases; a resumed run keeps its id. What the user's environment variables say is left to them."""

    VARIABLES: ClassVar = {
        "project": "WANDB_PROJECT", "name": "WANDB_NAME", "id": "WANDB_RUN_ID", "resume": "WANDB_RESUME",
        "dir": "WANDB_DIR",
    }  # fmt: skip
    """Of what is set here; wandb itself reads these and all others, such as WANDB_MODE, WANDB_ENTITY, WANDB_RUN_GROUP
    and WANDB_TAGS, but for arguments that it is given."""

    def __init__(self, directory: Path, iteration: int = 0) -> None:
        import wandb  # pyright: ignore[reportMissingImports]

        file = directory / "wandb.id"
        if not file.exists():
            write_atomically(file, uuid.uuid4().hex.encode())
        own = {"project": "focops", "name": directory.name, "id": file.read_text(), "resume": "allow"}
        own["dir"] = str(directory)
        unset = {name: value for name, value in own.items() if not os.environ.get(self.VARIABLES[name])}
        config = json.loads((directory / "config.json").read_text())
        self._run: Any = wandb.init(config=config, **unset)

    def write(self, record: Record) -> None:
        self._run.log({k: v for k, v in record.items() if v is not None}, step=int(record["samples"]))

    def sync(self) -> None: ...

    def close(self) -> None:
        self._run.finish()


class _Optional:
    def __init__(self, open_sink: OpenSink, directory: Path, iteration: int) -> None:
        self._name, self._sink = name_of(open_sink), None
        try:
            self._sink = open_sink(directory, iteration)
        except Exception as error:
            warnings.warn(f"no metrics to {self._name}: {error}", stacklevel=2)

    def write(self, record: Record) -> None:
        self._try(lambda sink: sink.write(record))

    def sync(self) -> None:
        self._try(lambda sink: sink.sync())

    def close(self) -> None:
        self._try(lambda sink: sink.close())

    def _try(self, action: Callable[[Sink], None]) -> None:
        if self._sink is None:
            return
        try:
            action(self._sink)
        except Exception as error:
            with contextlib.suppress(Exception):
                self._sink.close()
            self._sink = None
            warnings.warn(f"no more metrics to {self._name}: {error}", stacklevel=3)


def optional(open_sink: OpenSink) -> OpenSink:
    """The same sink, but one that fails is dropped with a warning and the run continues without it."""
    return functools.partial(_Optional, open_sink)


def asked_for(wandb: bool) -> tuple[OpenSink, ...]:
    """The sinks that the command line asks for."""
    if wandb and importlib.util.find_spec("wandb") is None:
        raise UsageError("--wandb needs Weights & Biases, which is not installed: pip install 'focops[wandb]'")
    return (optional(WandB),) if wandb else ()


ALWAYS: tuple[OpenSink, ...] = (JSONL, optional(TensorBoard))
"""Of every run, before those that are asked for."""


def name_of(given: Any) -> str:
    """Of a class, a function or an object, for messages."""
    return getattr(given, "__name__", type(given).__name__)


def read_last(path: Path) -> Record | None:
    """The last whole record of a metrics.jsonl, read from its end; None if there is none yet."""
    try:
        with open(path, "rb") as file:
            size, block = file.seek(0, os.SEEK_END), 1 << 14
            while True:
                file.seek(max(0, size - block))
                lines = file.read().split(b"\n")[:-1]  # what follows the last newline is half a record
                if len(lines) > 1 or block >= size:
                    return _record(lines[-1]) if lines else None
                block *= 2
    except FileNotFoundError:
        return None


def read_all(path: Path) -> list[Record]:
    """The records of a metrics.jsonl; none where there is no file."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    return [record for record in map(_record, lines) if record is not None]


def _record(line: bytes) -> Record | None:
    """A line of metrics.jsonl as a record; None if it is something else."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    samples = value.get("samples") if isinstance(value, dict) else None
    return value if isinstance(samples, int) and 0 <= samples < 2**63 else None


def _explained(path: Path, action: Any) -> Any:
    """Turn an OSError into an error with a message."""
    try:
        return action()
    except OSError as error:
        raise RunError(
            f"could not write {path}: {error.strerror or error}. Mend that, then resume:  {resume_command(path.parent)}"
        ) from error
