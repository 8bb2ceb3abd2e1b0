"""Engines: how the runs of a grid or a study are trained. A run is a `Job`; an engine trains jobs and sets their state.

`local` starts a process for each, `gpu` trains all runs of one shape as one program, `ray_cluster` gives them to the
machines of a Ray cluster. All write the same directories, so that another engine can resume them.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from focops.cli.signals import conclude, stop_on_signals, while_heard
from focops.config import Backend, TrainConfig
from focops.display.grid import choose_display
from focops.errors import UsageError
from focops.runs.directory import RunDirectory
from focops.runs.sinks import read_last

State = Literal["waiting", "running", "done", "failed", "stopped"]


@dataclass(eq=False)
class Job:
    """One run of a grid and its state."""

    name: str
    directory: Path
    words: list[str]
    """The arguments of the `focops` command that trains it, or resumes it."""
    what: str = ""
    """Its task and algorithm."""
    steps: int = 0
    """Samples to train for."""
    cores: int = 1
    """How many it uses; 0 for all."""
    backend: Backend = "cpu"
    config: TrainConfig | None = None
    """Of one that is not begun, where the engine needs it."""
    state: State = "waiting"
    error: str = ""
    latest: dict[str, Any] | None = None
    """The record of its latest iteration, where the engine has it in memory."""

    @property
    def record(self) -> dict[str, Any] | None:
        """The record of its latest iteration."""
        return self.latest or read_last(self.directory / "metrics.jsonl")

    @property
    def summary(self) -> dict[str, Any] | None:
        """The summary of a run that has ended."""
        with contextlib.suppress(UsageError):
            return RunDirectory(self.directory).summary

    @property
    def output(self) -> Path:
        """The file that its process's output goes to."""
        return self.directory / "output.txt"


class Watch:
    """What an engine tells, and whether it is to stop."""

    most = 0
    """Jobs there may be in all, where they can become more than the engine was given."""

    def __init__(self, display: Any, stopped: Sequence[int]) -> None:
        self.display, self.stopped = display, stopped

    def now(self, job: Job, state: State, error: str = "") -> None:
        """A job has another state."""
        job.state, job.error = state, error
        if state in ("done", "failed", "stopped"):
            self.display.ended(job)

    def progress(self, note: str | None = None) -> None:
        """Time has passed, or what is under way has another name."""
        self.display.update(note)

    def more(self) -> Sequence[Job]:
        """Further jobs, once there is room for one and none waits."""
        return ()

    def unwanted(self, job: Job) -> bool:
        """Whether a job is to stop, with a checkpoint if it is under way, while the others go on."""
        return False


class Engine(Protocol):
    def run(self, jobs: Sequence[Job], watch: Watch) -> None:
        """Train the jobs to their end. Once `watch.stopped` holds a signal, no more are begun, and those under way
        stop with a checkpoint. A job that fails does not stop the others."""
        ...

    def kill(self) -> None:
        """End what is under way at once; the process ends then."""
        ...


def run(base: Path, jobs: Sequence[Job], engines: dict[Backend, Engine], quiet: bool, again: str) -> int:
    """Train the waiting jobs, each by the engine for its backend; the exit status. `again` is the command that
    resumes them."""

    def kill() -> None:
        for engine in engines.values():
            engine.kill()

    with stop_on_signals(kill) as stopped, while_heard(choose_display(base, jobs, quiet), stopped) as display:
        watch = Watch(display, stopped)
        for backend, engine in engines.items():
            own = [job for job in jobs if job.state == "waiting" and job.backend == backend]
            if own and not stopped:
                engine.run(own, watch)
    return conclude(again, [_failure(job) for job in jobs if job.state == "failed"], len(jobs), stopped)


def _failure(job: Job) -> str:
    output = f" (all it said: {job.output})" if job.output.is_file() and not job.error.startswith("not begun") else ""
    return f"{job.name}: {job.error}{output}"
