"""A grid of runs: each a process of its own that runs this command line, one per core at a time."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from focops.cli import arguments, grid
from focops.cli.arguments import Options, ResumeOptions
from focops.cli.signals import STOPS, conclude, stop_on_signals, while_heard
from focops.config import TrainConfig
from focops.display.grid import choose_display
from focops.errors import UsageError
from focops.runs.directory import RunDirectory
from focops.runs.files import held_in_place, open_own, resume_command, write_json
from focops.runs.paths import default_path
from focops.runs.sinks import read_last

POLL_SECONDS = 0.25
_NOT_PASSED_ON = ("--out", "--jobs", "--quiet")


@dataclass
class Job:
    """One run of the grid and its state."""

    name: str
    directory: Path
    words: list[str]
    """The arguments of the `focops` command."""
    state: Literal["waiting", "running", "done", "failed", "stopped"] = "waiting"
    error: str = ""
    process: subprocess.Popen[bytes] | None = None
    core: int | None = None

    @property
    def record(self) -> dict[str, Any] | None:
        """The record of its latest iteration."""
        return read_last(self.directory / "metrics.jsonl")

    @property
    def summary(self) -> dict[str, Any] | None:
        """The summary of a run that has ended."""
        with contextlib.suppress(UsageError):
            return RunDirectory(self.directory).summary

    @property
    def output(self) -> Path:
        """The file that its output goes to."""
        return self.directory / "output.txt"


def train(runs: Sequence[tuple[str, Options, Sequence[str]]]) -> int:
    """Train every (name, options, words), all checked before the first starts; the exit status."""
    first = runs[0][1]
    base = first.config.out or default_path(first.config, "grid")
    if (base / "grid.json").exists():
        raise UsageError(f"{base} holds a grid; `{resume_command(base)}` goes on with it, or choose another --out")
    if len({options.config.backend for _, options, _ in runs}) > 1:
        raise UsageError("--backend is cpu and mjx in one grid; give one of them, and make another grid of the other")
    for name, options, _ in runs:
        try:
            config = dataclasses.replace(options.config, out=base / name)
            arguments.check(dataclasses.replace(options, config=config))
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
    jobs = [Job(name, base / name, _train_words(words, base / name)) for name, _, words in runs]
    try:
        base.mkdir(parents=True, exist_ok=True)
        write_json(base / "grid.json", {"runs": [{"name": job.name, "words": job.words} for job in jobs]})
    except OSError as error:
        raise UsageError(f"cannot write in {base}: {error.strerror}; choose another --out") from error
    if first.config.backend == "mjx":
        from focops.cli import device_grid

        configs = [dataclasses.replace(options.config, out=base / name) for name, options, _ in runs]
        return device_grid.train(base, configs, first)
    return run_all(base, jobs, first.jobs, max(_cores(options.config) for _, options, _ in runs), first.quiet)


def resume(options: ResumeOptions) -> int:
    """Resume the grid's runs that are not finished; the exit status."""
    base = options.run
    try:
        described = json.loads((base / "grid.json").read_text())["runs"]
        jobs = [_described_job(base, run["name"], run["words"]) for run in described]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{base / 'grid.json'} is damaged: {error}; resume its runs one by one") from None
    if any(grid.value_of(grid.split(job.words), "--backend", "cpu") == "mjx" for job in jobs):
        from focops.cli import device_grid

        return device_grid.resume(base, {job.directory: job.words for job in jobs}, options)
    extra = ["--wandb"] * options.wandb + (["--steps", str(options.steps)] if options.steps else [])
    extra += [] if options.env_workers is None else ["--env-workers", str(options.env_workers)]
    extra += [] if options.env_python is None else ["--env-python", str(options.env_python.absolute())]
    extra += [word for name, value in options.changes.items() for word in (f"--algo.{name}", value)]
    threads = 1
    for job in jobs:
        run = RunDirectory(job.directory)
        if run.config_file.is_file():
            threads = max(threads, _cores(run.config), options.env_workers or 1)
            job.state = "done" if run.is_complete(options.steps) else "waiting"
            job.words = ["resume", str(job.directory), "--quiet"]
        job.words = [*job.words, *extra]
    return run_all(base, jobs, options.jobs, threads, options.quiet)


def _cores(config: TrainConfig) -> int:
    """How many a run asks for; 0 for all."""
    return max(config.threads, config.env_workers or 1) if config.threads else 0


def _train_words(words: Sequence[str], directory: Path) -> list[str]:
    passed_on = [w for w in grid.split(words) if w.owner not in _NOT_PASSED_ON and w.text not in _NOT_PASSED_ON]
    paths = ("--from", "--env-python")
    texts = [os.path.abspath(w.text) if w.owner in paths else w.text for w in passed_on]  # resumed from anywhere
    return ["train", *texts, "--out", str(directory), "--quiet"]


def _described_job(base: Path, name: Any, words: Any) -> Job:
    """A run as grid.json describes it, to be trained in `base`. The file is checked: it may come from anywhere."""
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"the name {name!r} is not that of a folder in {base}")
    if (base / name).is_symlink():
        raise ValueError(f"{base / name} is a symbolic link, which is not followed")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words) or words[:1] != ["train"]:
        raise ValueError(f"the words of {name} are not a `train` command")
    return Job(name, base / name, _train_words(words[1:], base / name))


def run_all(base: Path, jobs: list[Job], at_once: int, threads: int, quiet: bool) -> int:
    """Run the waiting jobs, `at_once` at a time, each on its own core if there are enough; the exit status."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    at_once = min(at_once or max(1, len(cores) // (threads or len(cores))), len(jobs))
    free: list[int | None] = list(cores) if threads == 1 and at_once <= len(cores) else [None] * at_once
    free = free[:at_once]
    passed_on = False
    with (
        held_in_place(base) as require_in_place,
        stop_on_signals(lambda: _signal(jobs, getattr(signal, "SIGKILL", signal.SIGTERM))) as stopped,
        while_heard(choose_display(base, jobs, quiet), stopped) as display,
    ):
        while any(job.state == "running" or (job.state == "waiting" and not stopped) for job in jobs):
            if stopped and not passed_on:
                _signal(jobs, signal.SIGTERM)
                passed_on = True
            for job in jobs:
                if job.state == "running" and _ended(job):
                    free.append(job.core)
                    display.ended(job)
                elif job.state == "waiting" and free and not stopped:
                    try:
                        require_in_place()
                        _start(job, free[0])
                        free.pop(0)
                    except OSError as error:
                        where = "" if error.filename is None else f"cannot write in {error.filename}: "
                        job.state, job.error = "failed", f"not begun: {where}{error.strerror or error}"
                        display.ended(job)
            display.update()
            time.sleep(POLL_SECONDS)
    return conclude(base, [_failure(job) for job in jobs if job.state == "failed"], len(jobs), stopped)


def _failure(job: Job) -> str:
    output = f" (all it said: {job.output})" if job.process is not None else ""
    return f"{job.name}: {job.error}{output}"


def _start(job: Job, core: int | None) -> None:
    job.directory.mkdir(exist_ok=True)
    with open_own(job.output, "ab") as output, _on_core(core):
        job.process = subprocess.Popen(
            [sys.executable, "-m", "focops.cli.child", *job.words],
            stdin=subprocess.PIPE,  # closed when this process ends, which ends the child
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on once
        )
    job.core, job.state = core, "running"


def _ended(job: Job) -> bool:
    """Whether a running job has ended, and how."""
    assert job.process is not None
    status = job.process.poll()
    if status is None:
        return False
    assert job.process.stdin is not None
    job.process.stdin.close()
    if status == 0:
        job.state = "done"
    elif status - 128 in STOPS:
        job.state = "stopped"
    else:
        job.state = "failed"
        try:
            lines = job.output.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = [f"{job.directory} was removed or renamed while the run was at work"]
        said = lines[-1].removeprefix("error: ") if lines else ""
        job.error = f"killed by signal {-status}" if status < 0 else said or f"exit status {status}"
    return True


def _signal(jobs: list[Job], number: int) -> None:
    for job in jobs:
        if job.process is not None and job.process.poll() is None:
            job.process.send_signal(number)


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
