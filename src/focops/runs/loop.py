"""The only loop: iterate runs to their end, log, checkpoint."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from focops.core.spec import Spec
from focops.display.progress import ManyDisplay
from focops.envs.deadline import before_giving_up
from focops.errors import RunError
from focops.runs.recorder import Recorder, Run
from focops.training.state import Failure, Record, RunState, checkpoint_due

WRITERS = 16
"""Threads that write runs' files."""


Deliver = Callable[
    [Sequence[Recorder], list[Run | RunError], ManyDisplay | None, Callable[[], bool]], list[Run | RunError]
]
"""Evaluates the policies of runs that have ended: from their outcomes, to outcomes that say what was found."""


class Trainer(Protocol):
    """Runs in memory: one on the host (`training.host`), or many on an accelerator (`training.device`)."""

    @property
    def specs(self) -> Sequence[Spec]:
        """Of each run."""
        ...

    @property
    def note(self) -> str:
        """What to tell before the first iteration, or ""."""
        ...

    @property
    def iteration(self) -> int:
        """Iterations reported."""
        ...

    def iterations(self, stop: Callable[[], bool]) -> Iterator[Sequence[Record | Failure]]:
        """The iterations up to the last, or until `stop`: each as the record, or the failure, of each run. After one
        that is due for a checkpoint, and after the last, `cut_episodes` and `states` may be called."""
        ...

    def states(self) -> Sequence[RunState]:
        """Each run after its last successful iteration, on the host."""
        ...

    def restore(self, states: Sequence[RunState]) -> None: ...

    def cut_episodes(self) -> None:
        """Start a new episode in every environment; those that are cut are not counted."""
        ...

    def failed(self, error: RunError) -> Sequence[Failure]:
        """The failure of each run, when the current iteration is given up."""
        ...

    def close(self) -> None: ...


class Loop:
    """Iterates runs to their end, and saves them."""

    def __init__(self, trainer: Trainer, recorders: Sequence[Recorder]):
        self.trainer, self.recorders = trainer, recorders
        self._config = recorders[0].config
        self._reported = time.perf_counter()

    def run(
        self, display: ManyDisplay | None, should_stop: Callable[[], bool], deliver: Deliver | None = None
    ) -> list[Run | RunError]:
        """Iterate the runs to their end; `deliver` then evaluates the policies of those that are finished."""
        recorders = self.recorders
        if display:
            display.start([each.config for each in recorders], recorders[0].spec)
            show = getattr(display, "note", None)  # not every display has it
            if show is not None and self.trainer.note:
                show(self.trainer.note)
        try:
            with before_giving_up(self._give_up):
                states = self._train(display, should_stop)
            outcomes = [each.outcome(state) for each, state in zip(recorders, states, strict=True)]
            return outcomes if deliver is None else deliver(recorders, outcomes, display, should_stop)
        finally:
            if display:
                display.stop()

    def _train(self, display: ManyDisplay | None, should_stop: Callable[[], bool]) -> Sequence[RunState]:
        trainer, config, recorders = self.trainer, self._config, self.recorders
        try:
            for outcomes in trainer.iterations(lambda: self._stopping or should_stop()):
                self._report(outcomes)
                if display:
                    display.update([None if isinstance(outcome, Failure) else outcome for outcome in outcomes])
                if self._unfailed and checkpoint_due(config, trainer.iteration):
                    if config.exact:
                        trainer.cut_episodes()
                    self.save()
            self._save_unscheduled()
            return trainer.states()
        finally:
            for each in recorders:
                each.observers.close()
            trainer.close()

    @property
    def _unfailed(self) -> list[Recorder]:
        return [each for each in self.recorders if each.error is None]

    @property
    def _stopping(self) -> bool:
        """Whether all runs have failed, or a sink or a callback of any stops them all."""
        return not self._unfailed or any(each.observers.stop for each in self.recorders)

    def _report(self, outcomes: Sequence[Record | Failure]) -> None:
        # since the last report: an iteration may have been started before it
        seconds, self._reported = time.perf_counter() - self._reported, time.perf_counter()
        for each, outcome in zip(self.recorders, outcomes, strict=True):
            if each.error is not None:
                continue
            if isinstance(outcome, Failure):
                self._fail(each, outcome)
            else:
                each.log(outcome, seconds)

    def save(self) -> None:
        """Save a checkpoint of every run that has not failed."""
        self._each(Recorder.save)

    def resumed(self) -> None:
        """Mark the restored state as saved, and write the policies: the runs may have been killed before that."""
        self._each(Recorder.resumed)

    def _each(self, action: Callable[[Recorder, RunState], None]) -> None:
        """Call `action` with every run's state, several at a time."""
        states = self.trainer.states()
        if len(self.recorders) == 1:
            action(self.recorders[0], states[0])
            return
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(action, self.recorders, states))

    def _save_unscheduled(self) -> None:
        """Save runs that are stopped early; not if `exact`, because no checkpoint within an episode can be exact."""
        if not self._config.exact and any(each.saved != self.trainer.iteration for each in self._unfailed):
            self.save()

    def _give_up(self, error: RunError) -> RunError:
        """Save the last valid state of the runs before the process is ended."""
        for each, failure in zip(self.recorders, self.trainer.failed(error), strict=True):
            if each.error is None:
                self._fail(each, failure)
        return self.recorders[0].error or error

    def _fail(self, each: Recorder, failure: Failure) -> None:
        if not self._config.exact and each.saved != int(failure.state.iteration):
            each.save(failure.state)
        each.fail(failure)
