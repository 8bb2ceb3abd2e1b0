"""Runs as processes of this machine, each with this command line, one per core at a time."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from focops.cli.engines import Job, State, Watch
from focops.cli.signals import STOPS
from focops.runs.files import held_in_place, open_own

POLL_SECONDS = 0.25
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has no SIGKILL


class Local:
    """The engine; `at_once` is how many runs are under way, 0 for as many as there are cores."""

    def __init__(self, at_once: int = 0) -> None:
        self._at_once = at_once
        self._running: list[Process] = []

    def run(self, jobs: Sequence[Job], watch: Watch) -> None:
        waiting, free = list(jobs), self._places(jobs, watch.most)
        with held_in_place(jobs[0].directory.parent) as require_in_place:
            while self._running or (waiting and not watch.stopped):
                for process in self._running:
                    if watch.stopped or watch.unwanted(process.job):
                        process.stop()
                for process in [each for each in self._running if each.ending]:
                    self._running.remove(process)
                    free.append(process.core)
                    watch.now(process.job, *process.end())
                while free and not watch.stopped and (waiting := waiting or list(watch.more())):
                    job = waiting.pop(0)
                    if watch.unwanted(job):
                        watch.now(job, "stopped")
                        continue
                    try:
                        require_in_place()
                        self._running.append(Process(job, free[0]))
                        free.pop(0)
                        watch.now(job, "running")
                    except OSError as error:
                        where = "" if error.filename is None else f"cannot write in {error.filename}: "
                        watch.now(job, "failed", f"not begun: {where}{error.strerror or error}")
                watch.progress()
                time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        for process in self._running:
            process.signal(KILL)

    def _places(self, jobs: Sequence[Job], most: int) -> list[int | None]:
        """A core for each run that can be under way at once; None where runs use several, or share them."""
        cores, each = own_cores(), max((job.cores or sys.maxsize for job in jobs), default=1)
        at_once = min(self._at_once or max(1, len(cores) // each), max(len(jobs), most))
        pinned = each == 1 and at_once <= len(cores)
        return list(cores[:at_once]) if pinned else [None] * at_once


class Process:
    """A run as a process that ends with this one. OSError if it cannot be started."""

    def __init__(self, job: Job, core: int | None) -> None:
        self.job, self.core, self._stopping = job, core, False
        job.directory.mkdir(exist_ok=True)
        with open_own(job.output, "ab") as output, _on_core(core):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "focops.cli.child", *job.words],
                stdin=subprocess.PIPE,  # closed when this process ends, which ends the child
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on once
            )

    @property
    def ending(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def end(self) -> tuple[State, str]:
        """How it has ended: the state, and the error if it failed."""
        status = self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        if status == 0:
            return "done", ""
        if status - 128 in STOPS:
            return "stopped", ""
        try:
            lines = self.job.output.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = [f"{self.job.directory} was removed or renamed while the run was at work"]
        said = lines[-1].removeprefix("error: ") if lines else ""
        return "failed", f"killed by signal {-status}" if status < 0 else said or f"exit status {status}"

    def stop(self) -> None:
        """Stop it with a checkpoint. It is told once: told again, it would stop without."""
        if not self._stopping:
            self._stopping = True
            self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        if not self.ending:
            self._process.send_signal(number)


def own_cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


@contextlib.contextmanager
def _on_core(core: int | None) -> Iterator[None]:
    """Processes started here run on that core alone: otherwise XLA's threads would compete for all cores."""
    if core is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
