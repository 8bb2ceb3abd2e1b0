"""Runs on an accelerator: all that can share a program are trained as one, program after program."""

from collections.abc import Callable, Sequence
from typing import Any

from focops import api
from focops.cli.engines import Job, Watch
from focops.config import TrainConfig
from focops.errors import RunError, UsageError
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory
from focops.runs.files import held_in_place
from focops.runs.sinks import OpenSink


class Gpu:
    """The engine. `steps` and `changes` are new values for runs that were begun."""

    def __init__(
        self, sinks: Sequence[OpenSink] = (), steps: int | None = None, changes: dict[str, str] | None = None
    ) -> None:
        self._sinks, self._steps, self._changes = sinks, steps, changes or {}

    def run(self, jobs: Sequence[Job], watch: Watch) -> None:
        programs = self.programs(jobs)
        with held_in_place(jobs[0].directory.parent) as require_in_place:
            for number, program in enumerate(programs):
                if watch.stopped:
                    return
                for job in program:
                    watch.now(job, "running")
                try:
                    require_in_place()
                    outcomes = self._train(program, _Shown(program, f"program {number + 1} of {len(programs)}", watch))
                except OSError as error:
                    outcomes = [RunError(f"not begun: {error.strerror}")] * len(program)
                except UsageError as error:  # of all its runs; the next program may do better
                    outcomes = [error] * len(program)
                for job, outcome in zip(program, outcomes, strict=True):
                    if isinstance(outcome, UsageError):
                        watch.now(job, "failed", str(outcome))
                    else:
                        watch.now(job, "done" if outcome.summary["finished"] else "stopped")

    def kill(self) -> None: ...

    def programs(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """The jobs, by the program that they share."""
        from focops.training.device import sharing_key

        begun, fresh = ([job for job in jobs if (job.config is None) == is_begun] for is_begun in (True, False))

        def alike_in(job: Job) -> Any:
            """Those that are finished, and only not evaluated, are apart from those that still have to be trained."""
            run = RunDirectory(job.directory)
            return run.is_finished(self._steps), sharing_key(run.config)

        resumed = [in_step for group in _grouped(begun, alike_in) for in_step in _in_step(group)]
        return resumed + _grouped(fresh, lambda job: sharing_key(_config(job)))

    def _train(self, program: Sequence[Job], display: "_Shown") -> Sequence[api.Run | UsageError]:
        how: dict[str, Any] = {"display": display, "sinks": self._sinks, "should_stop": display.should_stop}
        if program[0].config is not None:
            return api.run_all([_config(job) for job in program], **how)
        paths = [job.directory for job in program]
        return api.resume_all(paths, steps=self._steps, changes=self._changes, **how)


class _Shown:
    """A program's `ManyDisplay`, told to the display of all."""

    def __init__(self, jobs: Sequence[Job], which: str, watch: Watch) -> None:
        self._jobs, self._which, self._watch = jobs, which, watch

    def should_stop(self) -> bool:
        return bool(self._watch.stopped)

    def start(self, configs: Sequence[Any], spec: Any) -> None:
        self.note("compiling")

    def update(self, records: Sequence[dict[str, Any] | None]) -> None:
        for job, record in zip(self._jobs, records, strict=True):
            job.latest = record or job.latest
        self._watch.progress(self._which)

    def note(self, message: str) -> None:
        self._watch.progress(f"{self._which}, {message}")

    def stop(self) -> None:
        self._watch.progress("")


def _config(job: Job) -> TrainConfig:
    assert job.config is not None
    return job.config


def _grouped(items: Sequence[Job], key: Callable[[Job], Any]) -> list[list[Job]]:
    """Items grouped by key, in the order in which the keys first occur."""
    groups: list[tuple[Any, list[Job]]] = []
    for item in items:
        mine = key(item)
        group = next((group for known, group in groups if known == mine), None)
        if group is None:
            groups.append((mine, [item]))
        else:
            group.append(item)
    return [group for _, group in groups]


def _in_step(jobs: Sequence[Job]) -> list[list[Job]]:
    """Groups of runs that have a checkpoint of the same iteration; runs that failed are behind the others."""
    groups: list[tuple[set[int], list[Job]]] = []
    for job in jobs:
        mine = checkpoint.numbers(RunDirectory(job.directory).checkpoints) or {0}
        for i, (common, group) in enumerate(groups):
            if common & mine:
                groups[i] = (common & mine, [*group, job])
                break
        else:
            groups.append((mine, [job]))
    return [group for _, group in groups]
