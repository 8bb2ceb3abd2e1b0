"""The trials of a search as ordinary runs, trained by any engine; those that cannot win are stopped."""

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from focops.cli import commands, grid_runs
from focops.cli.arguments import ResumeOptions
from focops.cli.engines import Job, Watch
from focops.config import TrainConfig
from focops.display.progress import constraint_names
from focops.runs.sinks import read_all
from focops.tuning import search as searching
from focops.tuning import space as spaces
from focops.tuning.search import TENTHS, Outcome, Search, State, Trial

FAILURES_IN_A_ROW = 3
"""End a search: what fails every time is not the setting."""


@dataclass(frozen=True)
class Plan:
    """What a search was asked to do."""

    config: TrainConfig
    """What all trials share, and where the search starts."""
    space: spaces.Space
    seeds: tuple[int, ...]
    base: Path
    trials: int
    prune: bool = True
    constrained: bool = True
    """Whether limits count; they do not for an algorithm that does not look at costs."""
    wandb: bool = False

    def configs(self, values: dict[str, Any]) -> list[TrainConfig]:
        """A trial's runs, one per seed."""
        config = spaces.applied(self.config, values)
        return [dataclasses.replace(config, seed=seed) for seed in self.seeds]

    def jobs(self, trial: Trial) -> list[Job]:
        """They as jobs: a run that was interrupted is resumed, and one that is finished is not repeated."""
        how = ResumeOptions(self.base, wandb=self.wandb)
        return [
            grid_runs.described_job(self.directory, _name(trial, config), shlex.split(commands.train(config))[1:], how)
            for config in self.configs(trial.values)
        ]

    def paths(self, trial: Trial) -> list[Path]:
        return [self.directory / _name(trial, config) for config in self.configs(trial.values)]

    @property
    def directory(self) -> Path:
        return self.base / "trials"


def _name(trial: Trial, config: TrainConfig) -> str:
    return f"trial={trial.number:03d},seed={config.seed}"


@dataclass
class Attempt:
    """A trial under way."""

    trial: Trial
    jobs: list[Job]
    state: State = "running"
    why: str = ""
    """It failed, or how far it came before it was given up."""
    outcome: Outcome | None = None
    tenths: list[int] = field(default_factory=lambda: list(TENTHS))
    """At which its first run is still to be compared."""


class Trials(Watch):
    """Proposes trial after trial to an engine, and tells Optuna of their ends."""

    def __init__(self, plan: Plan, search: Search, display: Any, stopped: Sequence[int]) -> None:
        super().__init__(display, stopped)
        self.plan, self.search = plan, search
        self.most = plan.trials * len(plan.seeds)
        self.active = [Attempt(each, plan.jobs(each)) for each in search.trials if each.state == "running"]
        self.failures = 0
        """In a row."""
        self.error = ""
        """What the last failed trial said."""
        self._unwanted: set[Job] = set()
        self._advance()

    @property
    def gave_up(self) -> bool:
        return self.failures >= FAILURES_IN_A_ROW

    @property
    def running(self) -> list[Job]:
        return [job for attempt in self.active for job in attempt.jobs if job.state == "running"]

    def first(self) -> Sequence[Job]:
        """Those of trials that were interrupted, or of a new one."""
        return [job for attempt in self.active for job in attempt.jobs if job.state == "waiting"] or self.more()

    def more(self) -> Sequence[Job]:
        if self.stopped or self.gave_up or len(self.search.trials) >= self.plan.trials:
            return ()
        trial = self.search.ask()
        self.active.append(Attempt(trial, self.plan.jobs(trial)))
        return self.active[-1].jobs

    def unwanted(self, job: Job) -> bool:
        return job in self._unwanted

    def now(self, job: Job, state: Any, error: str = "") -> None:
        job.state, job.error = state, error
        self._advance()

    def progress(self, note: str | None = None) -> None:
        self._advance()
        self.display.update(self.running)

    def _advance(self) -> None:
        """See how far the trials have come, and tell of those that have ended."""
        for attempt in list(self.active):
            if self.plan.prune and self._is_hopeless(attempt):
                self._end(attempt, "pruned")
            elif failed := [job for job in attempt.jobs if job.state == "failed"]:
                self.search.fail(attempt.trial.number)
                self._end(attempt, "failed", failed[0].error)
            elif all(job.state == "done" for job in attempt.jobs):
                self._judge(attempt)

    def _judge(self, attempt: Attempt) -> None:
        found = [delivered(job.summary or {}, self.plan.constrained) for job in attempt.jobs]
        missing = next((each for each in found if isinstance(each, str)), "")
        if missing:
            self.search.fail(attempt.trial.number)
            self._end(attempt, "failed", missing)
            return
        attempt.outcome = searching.mean([each for each in found if isinstance(each, Outcome)])
        self.search.complete(attempt.trial.number, attempt.outcome)
        self._end(attempt, "done")

    def _end(self, attempt: Attempt, state: State, why: str = "") -> None:
        attempt.state, attempt.why = state, attempt.why or why
        self.error = why or self.error
        self.failures = self.failures + 1 if state == "failed" else 0
        self._unwanted |= set(attempt.jobs)
        self.active.remove(attempt)
        self.display.ended(attempt)

    def _is_hopeless(self, attempt: Attempt) -> bool:
        """Compare the first run at each tenth that it has passed."""
        job = attempt.jobs[0]
        latest = job.record if attempt.tenths and job.state != "waiting" else None
        while latest is not None and attempt.tenths and _passed(latest, attempt.tenths[0]):
            tenth = attempt.tenths.pop(0)
            record = next(each for each in read_all(job.directory / "metrics.jsonl") if _passed(each, tenth))
            now = in_training(record, self.plan.constrained)
            if now is not None and self.search.is_hopeless(attempt.trial.number, tenth, now):
                attempt.why = f"after {tenth}0% of its samples"
                return True
        return False


def _passed(record: dict[str, Any], tenth: int) -> bool:
    return 10 * record["samples"] >= tenth * record["steps"]


def delivered(summary: dict[str, Any], constrained: bool) -> Outcome | str:
    """What a run's evaluation found of its policy, or why nothing."""
    found = (summary.get("policy") or {}).get("sampled")
    if found is None:
        return f"its policy was not evaluated: {summary.get('not_evaluated')}"
    if not constrained:
        return Outcome(found["reward"], {}, {})
    return Outcome(found["reward"], found["discounted_cost"], summary["cost_limit"])


def in_training(record: dict[str, Any], constrained: bool) -> Outcome | None:
    """Return and costs of a run's last 100 episodes; None before any has ended."""
    names = constraint_names(record) if constrained else []
    costs = {name: record.get(f"discounted_cost_mean/{name}") for name in names}
    known = {name: cost for name, cost in costs.items() if cost is not None}
    if record.get("return_mean") is None or len(known) < len(costs):
        return None
    return Outcome(record["return_mean"], known, {name: record[f"cost_limit/{name}"] for name in names})
