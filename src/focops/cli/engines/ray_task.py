"""What a machine of a Ray cluster does: it trains a run in a folder of its own, and reports what changes there."""

import contextlib
import itertools
import shutil
import socket
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from focops.cli.engines import Job, State, mirror
from focops.cli.engines.local import KILL, POLL_SECONDS, Process, own_cores
from focops.errors import UsageError
from focops.runs.lock import Lock

_ANSWER_SECONDS = 5.0
"""That an actor may take."""


class Order(NamedTuple):
    """What a task is to do."""

    name: str
    directory: str
    """On the machine that asks for it."""
    words: list[str]
    cores: int
    pieces: list[mirror.Piece]
    version: str
    """Of focops."""
    report_s: float


class Report(NamedTuple):
    """What has become of a task's run since its last report."""

    changes: mirror.Changes
    state: State
    error: str = ""


class Stops:
    """An actor: the runs that are to stop. Tasks ask it, since a task that is cancelled cannot report any more."""

    def __init__(self) -> None:
        self._names = set[str]()

    def ask(self, name: str) -> None:
        self._names.add(name)

    def asked(self, name: str) -> bool:
        return name in self._names


def work(order: Order, stops: Any) -> Iterator[Report]:
    """A task: train the run in a folder of this machine, and report."""
    here = metadata.version("focops")
    if here != order.version:
        raise UsageError(f"focops is {here} on {socket.gethostname()}, and {order.version} where the study was started")
    with _place() as (folder, core):
        directory = folder / order.name
        source = mirror.Source(directory, order.directory)
        mirror.write(directory, mirror.Changes(order.pieces, set()))
        job = Job(order.name, directory, [source.local(word) for word in order.words])
        process = Process(job, core if order.cores == 1 else None)
        try:
            yield Report(source.changes(), "running")
            reported = time.monotonic()
            while not process.ending:
                time.sleep(POLL_SECONDS)
                if time.monotonic() - reported >= order.report_s:
                    yield Report(source.changes(), "running")
                    reported = time.monotonic()
                    if _is_to_stop(stops, order.name):
                        process.stop()
            state, error = process.end()
            yield Report(source.changes(), state, source.remote(error))
        finally:
            process.signal(KILL)  # it was cancelled


@contextlib.contextmanager
def _place() -> Iterator[tuple[Path, int | None]]:
    """An empty folder of this machine, and the core of the same number if there is one. What a killed task has left in
    the folder is removed."""
    import ray

    context, cores = ray.get_runtime_context(), own_cores()
    base = Path(context.get_temp_dir()) / context.get_session_name() / "focops"
    base.mkdir(exist_ok=True)
    number, lock = next(_free(base))
    folder = base / str(number)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield folder, cores[number] if number < len(cores) else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def _free(base: Path) -> Iterator[tuple[int, Lock]]:
    """The numbers that no other task of this machine has."""
    for number in itertools.count():
        with contextlib.suppress(UsageError):
            yield number, Lock(base / f"{number}.lock")


def _is_to_stop(stops: Any, name: str) -> bool:
    import ray

    with contextlib.suppress(ray.exceptions.RayError):
        return ray.get(stops.asked.remote(name), timeout=_ANSWER_SECONDS)
    return False
