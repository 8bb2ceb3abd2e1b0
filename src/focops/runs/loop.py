"""The only loop: iterate runs to their end, log, checkpoint."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from focops.display.progress import ManyDisplay
from focops.envs.deadline import before_giving_up
from focops.errors import RunError
from focops.runs.recorder import Recorder, Run, RunInMemory

WRITERS = 16
"""Threads that write runs' files."""


class Learner(Protocol):
    """One run on the host (`Trainer`), or many on an accelerator (`DeviceTrainer`)."""

    @property
    def members(self) -> Sequence[RunInMemory]: ...

    @property
    def iteration(self) -> int: ...

    @property
    def ahead(self) -> bool: ...

    def advance(self, ahead: bool = False) -> Sequence[dict[str, Any] | RunError]: ...

    def go_ahead(self) -> None: ...

    def snapshot(self) -> None: ...

    def cut_episodes(self) -> None: ...

    def restore(self, arrays: Any) -> None: ...

    def start_from(self, arrays: dict[str, np.ndarray], source: str) -> None: ...

    def close(self) -> None: ...


class Loop:
    """Iterates runs to their end, and saves them."""

    def __init__(self, learner: Learner, kept: Sequence[Recorder]):
        self.learner, self.kept = learner, kept
        self._config = kept[0].member.config
        self._reported = time.perf_counter()

    def run(self, display: ManyDisplay | None, should_stop: Callable[[], bool]) -> list[Run | RunError]:
        with before_giving_up(self._give_up):
            return self._run(display, should_stop)

    def _run(self, display: ManyDisplay | None, should_stop: Callable[[], bool]) -> list[Run | RunError]:
        learner, config = self.learner, self._config
        if display:
            display.start([each.member.config for each in self.kept], self.kept[0].member.spec)
        try:
            while learner.iteration < config.iterations and self._going and not (self._stopping or should_stop()):
                number = learner.iteration + 1
                every = config.checkpoint_every
                due = number == config.iterations or (every > 0 and number % every == 0)
                self._iterate(display, ahead=not due)
                if due:
                    if config.exact:
                        learner.cut_episodes()
                    self.save(ahead=not self._stopping)
            if learner.ahead:  # asked to stop with an iteration under way
                self._iterate(display)
            self._save_unscheduled()
        finally:
            for each in self.kept:
                each.observers.close()
            learner.close()
            if display:
                display.stop()
        return [each.outcome() for each in self.kept]

    @property
    def _going(self) -> list[Recorder]:
        return [each for each in self.kept if each.error is None]

    @property
    def _stopping(self) -> bool:
        """Whether a sink or a callback of any run stops them all."""
        return any(each.observers.stop for each in self.kept)

    def _iterate(self, display: ManyDisplay | None, ahead: bool = False) -> None:
        outcomes = self.learner.advance(ahead)
        # since the last report: an iteration that was started ahead is ready at once
        seconds, self._reported = time.perf_counter() - self._reported, time.perf_counter()
        for each, outcome in zip(self.kept, outcomes, strict=True):
            if isinstance(outcome, RunError):
                if each.error is None:
                    self._fail(each, outcome)
            elif each.error is None:
                each.log(outcome, seconds)
        if display:
            display.update([None if isinstance(outcome, RunError) else outcome for outcome in outcomes])

    def save(self, ahead: bool = False) -> None:
        """Save a checkpoint of every run; with `ahead` the next iteration, if there is one, runs meanwhile."""
        self.learner.snapshot()
        if ahead:
            self.learner.go_ahead()
        _each(lambda each: each.save(), self._going)

    def resumed(self) -> None:
        """Mark the restored state as saved, and write the policies: the runs may have been killed before that."""
        self.learner.snapshot()
        _each(lambda each: each.resumed(), self.kept)

    def _save_unscheduled(self) -> None:
        """Save runs that are stopped early. Not if `exact`: in the middle of episodes none could be exact."""
        if not self._config.exact and any(each.saved != self.learner.iteration for each in self._going):
            self.save()

    def _give_up(self, error: RunError) -> RunError:
        """Save the last good state of the runs before the process is ended."""
        for each in self._going:
            self._fail(each, error)
        return self.kept[0].error or error

    def _fail(self, each: Recorder, error: RunError) -> None:
        if not self._config.exact and each.saved != each.member.iteration:
            each.save()
        each.fail(error)


def _each(action: Callable[[Recorder], None], kept: Sequence[Recorder]) -> None:
    """Call `action` for every run, several at a time."""
    if len(kept) == 1:
        action(kept[0])
        return
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(action, kept))
