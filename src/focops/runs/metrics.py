"""Where a run's numbers go: metrics.jsonl (the truth), TensorBoard events, and Weights & Biases if asked."""

import contextlib
import importlib.util
import json
import os
import time
import uuid
import warnings
from pathlib import Path
from typing import Any, Protocol

from focops.errors import RunError, UsageError
from focops.runs.files import jsonable, open_own, write_atomically

FLUSH_SECONDS = 10
Record = dict[str, Any]
"""One iteration: flat, names self-explaining; `samples` is the step in every sink."""


class Sink(Protocol):
    """A copy of the numbers for other tools."""

    def write(self, record: Record) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class MetricsLog:
    """Appends records to metrics.jsonl and copies them to the sinks; a sink that fails is dropped with a warning."""

    def __init__(self, directory: Path, wandb: bool = False) -> None:
        if wandb:
            require_wandb()
        self.directory = Path(directory)
        self.path = self.directory / "metrics.jsonl"
        self._wandb = wandb
        self._sinks: list[Sink] | None = None
        self._file = _explained(self.path, lambda: open_own(self.path, "ab"))  # open as long as the run

    def write(self, record: Record) -> None:
        """Append one record; NaN and infinities become null."""
        clean = jsonable(record)
        if self._sinks is None:
            self._sinks = self._open_sinks()
        line = json.dumps(clean, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        _explained(self.path, lambda: (self._file.write(line), self._file.flush()))
        self._each_sink(lambda sink: sink.write(clean))

    def sync(self) -> None:
        """Put everything written so far on the disk, so that a checkpoint may rely on it."""
        _explained(self.path, lambda: (self._file.flush(), os.fsync(self._file.fileno())))
        self._each_sink(lambda sink: sink.flush())

    def keep(self, records: int) -> Record | None:
        """Forget all but the first `records`: later ones are of iterations that a resumed run does again. Returns the
        last one kept."""
        with open(self.path, "rb") as file:
            lines = [line for line, _ in zip(file, range(records), strict=False) if line.endswith(b"\n")]
        if len(lines) < records:
            warnings.warn(f"{self.path} has lost records: {len(lines)} are left of {records}", stacklevel=2)
        self._file.truncate(sum(map(len, lines)))
        self._file.seek(0, os.SEEK_END)
        last = _record(lines[-1]) if lines else None
        if lines and last is None:
            warnings.warn(f"{self.path} is damaged at line {len(lines)}; the run itself is not", stacklevel=2)
        return last

    def close(self) -> None:
        self._each_sink(lambda sink: sink.close())
        self._sinks = []
        with contextlib.suppress(OSError):  # what could not be written was reported when it was
            self._file.close()

    def _open_sinks(self) -> list[Sink]:
        last = read_last(self.path)
        purge_step = 0 if last is None else int(last["samples"]) + 1
        sinks: list[Sink] = []
        try:
            sinks.append(TensorBoard(self.directory, purge_step))
        except OSError as error:
            warnings.warn(f"no metrics to TensorBoard: {error}", stacklevel=3)
        return [*sinks, WandB(self.directory)] if self._wandb else sinks

    def _each_sink(self, action: Any) -> None:
        for sink in list(self._sinks or ()):
            try:
                action(sink)
            except Exception as error:
                assert self._sinks is not None
                self._sinks.remove(sink)
                with contextlib.suppress(Exception):
                    sink.close()
                warnings.warn(f"no more metrics to {type(sink).__name__}: {error}", stacklevel=3)


class TensorBoard:
    """Scalars as TensorBoard events, written here and now: tensorboardX's thread would hang the run on a full disk."""

    def __init__(self, directory: Path, purge_step: int = 0) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2, summary_pb2

        self._event: Any = vars(event_pb2)["Event"]  # made at run time: type checkers cannot see them
        self._summary: Any = vars(summary_pb2)["Summary"]
        self._flushed = time.monotonic()
        self._writer = EventsWriter(str(directory / "events"), f".{uuid.uuid4().hex[:8]}")
        if purge_step:  # a resumed run: TensorBoard forgets what came after
            session = vars(event_pb2)["SessionLog"]
            start = session(status=session.START)
            self._writer.write_event(self._event(wall_time=time.time(), step=purge_step, session_log=start))

    def write(self, record: Record) -> None:
        numbers = {k: v for k, v in record.items() if isinstance(v, int | float)}
        summary = self._summary(value=[self._summary.Value(tag=k, simple_value=v) for k, v in numbers.items()])
        self._writer.write_event(self._event(wall_time=time.time(), step=int(record["samples"]), summary=summary))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        self._writer.flush()
        self._flushed = time.monotonic()

    def close(self) -> None:
        self._writer.close()


class WandB:
    """Weights & Biases; a resumed run goes on under the same id."""

    def __init__(self, directory: Path) -> None:
        import wandb  # pyright: ignore[reportMissingImports]

        file = directory / "wandb.id"
        if not file.exists():
            write_atomically(file, uuid.uuid4().hex.encode())
        config, run_id = json.loads((directory / "config.json").read_text()), file.read_text()
        self._run: Any = wandb.init(
            project="focops", name=directory.name, id=run_id, resume="allow", config=config, dir=str(directory)
        )

    def write(self, record: Record) -> None:
        self._run.log({k: v for k, v in record.items() if v is not None}, step=int(record["samples"]))

    def flush(self) -> None: ...

    def close(self) -> None:
        self._run.finish()


def require_wandb() -> None:
    """Refuse early if Weights & Biases is not installed."""
    if importlib.util.find_spec("wandb") is None:
        raise UsageError("--wandb needs Weights & Biases, which is not installed: pip install 'focops[wandb]'")


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


def _record(line: bytes) -> Record | None:
    """A line of metrics.jsonl as a record; None if it is something else."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    samples = value.get("samples") if isinstance(value, dict) else None
    return value if isinstance(samples, int) and 0 <= samples < 2**63 else None


def _explained(path: Path, action: Any) -> Any:
    """Turn the system's refusal into a message."""
    try:
        return action()
    except OSError as error:
        raise RunError(
            f"could not write {path}: {error.strerror or error}. Mend that, then `focops resume {path.parent}` goes on"
        ) from error
