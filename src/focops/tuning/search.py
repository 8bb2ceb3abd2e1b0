"""A search with Optuna: what is tried next, what is given up, and what won. Its storage is a file in the directory.

Feasible first, then return: a trial's constraints are how far each cost of its policy is over the limit, as a share of
it; Optuna's TPE sampler takes a trial that keeps its limits for better than any that does not.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from focops.errors import UsageError
from focops.tuning.space import Choices, Interval, Space

STORAGE = "optuna.journal"
_NAME = "focops"
_RANDOM_TRIALS = 10
"""Proposed at random before TPE learns from them."""
_UNPRUNED_TRIALS = 5
"""Completed before any is given up."""
TENTHS = range(4, 10)
"""Of a run's samples, after which it may be given up. Before, a run's return says little of its end."""
_INFEASIBLE = -1e9
"""Score of a run far over its limits, less its excess: below every return."""

State = Literal["running", "done", "pruned", "failed"]


class Outcome(NamedTuple):
    """Return and costs: of a policy, or of a run's last episodes while it trains."""

    reward: float
    costs: dict[str, float]
    limits: dict[str, float]

    @property
    def excess(self) -> dict[str, float]:
        """How far each cost is over its limit, as a share of it (of 1 where it is 0); ≤ 0 within."""
        return {name: (cost - self.limits[name]) / (self.limits[name] or 1.0) for name, cost in self.costs.items()}

    @property
    def worst(self) -> float:
        """The largest excess; 0 if all limits are kept."""
        return max(0.0, *self.excess.values()) if self.costs else 0.0


class Trial(NamedTuple):
    """One setting that was tried."""

    number: int
    state: State
    values: dict[str, Any]
    outcome: Outcome | None
    """Of a trial that is done."""


def mean(outcomes: Sequence[Outcome]) -> Outcome:
    """Over seeds."""
    first = outcomes[0]
    costs = {name: float(np.mean([each.costs[name] for each in outcomes])) for name in first.costs}
    return Outcome(float(np.mean([each.reward for each in outcomes])), costs, first.limits)


def score(now: Outcome, tenth: int) -> float:
    """What runs in progress are compared by. A run may be over its limits as long as it can still come down: half of
    the way through by half of a limit, at the end by nothing. Within that, more return is better, for return alone
    would prefer a run that is far over its limits; beyond it, less excess is, below every return."""
    return now.reward if now.worst <= _allowed(tenth) else _INFEASIBLE - now.worst


def _allowed(tenth: int) -> float:
    return (10 - tenth) / 10


def best(trials: Sequence[Trial]) -> list[Trial]:
    """Trials that are done, the best first: those within their limits by their return, then the others by how far
    they are over them."""
    done = [(trial, trial.outcome) for trial in trials if trial.outcome is not None]
    return [trial for trial, found in sorted(done, key=lambda pair: (pair[1].worst, -pair[1].reward))]


class Search:
    """Optuna's study in a directory."""

    def __init__(self, directory: Path, space: Space, seed: int, start: Mapping[str, Any] | None) -> None:
        optuna = imported_optuna()
        self._optuna, self._space, self._seed = optuna, space, seed
        journal = optuna.storages.journal
        path = directory / STORAGE
        _mend(path)
        lock = journal.JournalFileOpenLock(str(path))
        try:
            self._study = optuna.create_study(
                storage=optuna.storages.JournalStorage(journal.JournalFileBackend(str(path), lock)),
                study_name=_NAME, direction="maximize", load_if_exists=True,
                pruner=optuna.pruners.MedianPruner(n_startup_trials=_UNPRUNED_TRIALS),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path} is damaged: {error}; its trials can be read, but not gone on with") from None
        self._distributions = {name: self._distribution(values) for name, values in space.items()}
        known = self._study.get_trials(deepcopy=False)
        if start is not None and not known:
            self._study.enqueue_trial(dict(start))
        for trial in known:
            if trial.state.name == "RUNNING" and not trial.params.keys() >= space.keys():
                self.fail(trial.number)  # of a process that was killed while it was proposed

    @property
    def trials(self) -> list[Trial]:
        """All that were proposed, in order."""
        return [self._trial(each) for each in self._study.get_trials(deepcopy=False) if each.state.name in _STATES]

    def ask(self) -> Trial:
        """The next one to try. It depends on the seed and on the trials before it alone, also after a resume."""
        number = len(self.trials)
        seed = int(np.random.SeedSequence([self._seed, number]).generate_state(1)[0])
        self._study.sampler = self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=_RANDOM_TRIALS)
        return self._find(self._study.ask(self._distributions).number)

    def is_hopeless(self, number: int, tenth: int, now: Outcome) -> bool:
        """Whether a run that has come this far falls behind the median of the trials that are done. It is told so."""
        trial = self._live(number)
        if tenth in trial.intermediate_values:
            return False
        live = self._optuna.trial.Trial(self._study, trial._trial_id)
        live.report(score(now, tenth), tenth)
        if not live.should_prune():
            return False
        for name, excess in now.excess.items():
            live.set_constraint(name, excess - _allowed(tenth))
        self._study.tell(number, state=self._optuna.trial.TrialState.PRUNED)
        return True

    def complete(self, number: int, found: Outcome) -> None:
        live = self._optuna.trial.Trial(self._study, self._live(number)._trial_id)
        for name, excess in found.excess.items():
            live.set_constraint(name, excess)
        live.set_user_attr("cost", found.costs)
        live.set_user_attr("cost_limit", found.limits)
        self._study.tell(number, found.reward)

    def fail(self, number: int) -> None:
        self._study.tell(number, state=self._optuna.trial.TrialState.FAIL)

    def _live(self, number: int) -> Any:
        return self._study.get_trials(deepcopy=False)[number]

    def _find(self, number: int) -> Trial:
        return self._trial(self._live(number))

    def _trial(self, found: Any) -> Trial:
        state = _STATES[found.state.name]
        values = {name: self._space[name].rounded(value) for name, value in found.params.items()}
        limits = found.user_attrs.get("cost_limit", {})
        outcome = Outcome(found.value, found.user_attrs.get("cost", {}), limits) if state == "done" else None
        return Trial(found.number, state, values, outcome)

    def _distribution(self, values: Interval | Choices) -> Any:
        distributions = self._optuna.distributions
        if isinstance(values, Choices):
            return distributions.CategoricalDistribution(values.values)
        kind = distributions.IntDistribution if values.whole else distributions.FloatDistribution
        return kind(values.low, values.high, log=values.log)


_STATES: dict[str, State] = {"RUNNING": "running", "COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
"""Ours by Optuna's; a trial that WAITS has not been proposed."""


def imported_optuna() -> Any:
    """The library; if it is not installed, an error that says what to do."""
    """The library; if it is not installed, an error that says what to do."""
    try:
        import optuna
    except ImportError:
        raise UsageError("`focops tune` needs Optuna, which is not installed: pip install 'focops[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _mend(path: Path) -> None:
    """Undo what a kill in the middle of a write leaves: half a line, and Optuna's lock. Ours is held by now."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}.lock")
    with contextlib.suppress(FileNotFoundError), open(path, "rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
