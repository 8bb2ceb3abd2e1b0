"""The sinks and callbacks that get the record of each iteration of a run."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from focops.errors import RunError, UsageError
from focops.runs.files import jsonable, resume_command
from focops.runs.sinks import ALWAYS, OpenSink, Record, Sink, name_of

Callback = Callable[[Record], bool | None]
"""Called with each record after the sinks have it; True stops the run after a checkpoint."""


class Observers:
    """The sinks and callbacks of one run. One that raises is dropped and the run asked to stop: `error` says which."""

    def __init__(
        self,
        directory: Path,
        sinks: Sequence[OpenSink] = (),
        callbacks: Sequence[Callback] = (),
        iteration: int = 0,
    ) -> None:
        self.stop = False
        """Whether the run should stop after a checkpoint."""
        self.error: RunError | None = None
        self._sinks: list[Sink] = []
        self._callbacks = list(callbacks)
        for open_sink in (*ALWAYS, *sinks):
            try:
                self._sinks.append(open_sink(directory, iteration))
            except Exception as error:
                self.close()
                if isinstance(error, RunError):
                    raise
                raise RunError(
                    f"the sink {name_of(open_sink)} could not be opened: {_said(error)}. Mend it and call"
                    f" focops.resume({str(directory)!r}, sinks=[…]), or resume without it: {resume_command(directory)}"
                ) from error

    def write(self, record: Record) -> None:
        """Hand an iteration to all; NaN and infinities become None."""
        clean = jsonable(record)
        self._each_sink(lambda sink: sink.write(clean))
        for callback in list(self._callbacks):
            try:
                self.stop |= bool(callback(clean))
            except Exception as error:
                self._callbacks.remove(callback)
                self._fail(f"the callback {name_of(callback)}", error)

    def sync(self) -> None:
        """Flush what was written to the disk: a checkpoint relies on it."""
        self._each_sink(lambda sink: sink.sync())

    def close(self) -> None:
        self._each_sink(lambda sink: sink.close())
        self._sinks = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _each_sink(self, action: Callable[[Sink], None]) -> None:
        for sink in list(self._sinks):
            try:
                action(sink)
            except RunError:  # of metrics.jsonl, without which there is no checkpoint
                raise
            except Exception as error:
                self._sinks.remove(sink)
                with contextlib.suppress(Exception):
                    sink.close()
                self._fail(f"the sink {name_of(sink)}", error)

    def _fail(self, who: str, error: Exception) -> None:
        self.stop = True
        if self.error is None:
            self.error = RunError(f"{who} failed: {_said(error)}")
            self.error.__cause__ = error


def require_callable(sinks: Sequence[Any], callbacks: Sequence[Any]) -> None:
    """Refuse what could not be called later."""
    for name, given in (("sinks", sinks), ("callbacks", callbacks)):
        if not isinstance(given, Sequence):
            raise UsageError(f"{name} is {given!r}; it must be a list, {name}=[…]")
    for sink in sinks:
        if not callable(sink):
            raise UsageError(
                f"sinks holds {sink!r}, which cannot be called; give a class, or a function, of (directory, iteration)"
            )
    for callback in callbacks:
        if not callable(callback):
            raise UsageError(f"callbacks holds {callback!r}, which cannot be called; give a function of the record")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
