"""One run on the disk: metrics, checkpoints, policy, and at the end a summary or the evidence of a failure."""

import contextlib
import time
import traceback
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from focops.config import TrainConfig
from focops.core.normalize import Stats
from focops.core.spec import Constraint, Spec
from focops.core.types import Params
from focops.display.summary import NO_EPISODES, NOT_FINISHED, verdict
from focops.errors import RunError, UsageError
from focops.runs import checkpoint
from focops.runs.config_json import config_to_json
from focops.runs.directory import PENDING, RunDirectory
from focops.runs.files import resume_command, write_atomically
from focops.runs.hints import hints
from focops.runs.observers import Observers
from focops.runs.policy_file import evaluation_of, save_policy
from focops.runs.run import Run
from focops.runs.sinks import read_all, read_last
from focops.training import episodes
from focops.training.candidates import newest_first
from focops.training.state import Failure, Record, RunState, to_arrays


class Recorder:
    """One run on the disk."""

    def __init__(self, config: TrainConfig, spec: Spec, directory: RunDirectory, observers: Observers):
        self.config, self.spec, self.directory, self.observers = config, spec, directory, observers
        self.identity = directory.identity
        self.saved: int | None = None
        """Iteration of the newest checkpoint."""
        self.error: RunError | None = None
        self.evaluation: dict[str, Any] | None = None
        """What was found of the policy that is on the disk."""
        self.delivered = 0
        """Which policy that is, of `candidates.newest_first`."""
        self.evaluation_s: float | None = None
        self._ended: RunState | None = None
        before = (read_last(directory.metrics_file) or {}).get("elapsed_s")
        self._began = time.perf_counter() - (before if isinstance(before, float) else 0.0)

    def log(self, record: Record, seconds: float) -> None:
        record["samples_per_second"] = self.config.batch_size / seconds
        record["elapsed_s"] = time.perf_counter() - self._began
        self.observers.write(record)

    def save(self, state: RunState) -> None:
        """Write metrics, checkpoint and policy, in this order, so that no file refers to one not yet on the disk."""
        if not self._in_place():
            return
        try:
            self._write(state)
        except (RunError, OSError):
            if self._in_place():  # otherwise that is the cause
                raise

    def _write(self, state: RunState) -> None:
        self.observers.sync()
        iteration = int(state.iteration)
        checkpoint.save(self.directory.checkpoints, iteration, to_arrays(state), {"run": self.identity})
        self.evaluation, self.evaluation_s, self.delivered = None, None, 0
        self.directory.remove_summary()
        self._write_policy(state)
        self.saved = iteration

    def resumed(self, state: RunState) -> None:
        self.saved = int(state.iteration)
        for i, (params, stats, _) in enumerate(newest_first(state)):
            self.evaluation = evaluation_of(self.directory.policy, params, stats)
            if self.evaluation is not None:
                self.delivered = i
                break
        if self.evaluation is not None:
            with contextlib.suppress(UsageError):
                self.evaluation_s = (self.directory.summary or {}).get("evaluation_s")
        self._write_policy(state)

    def _write_policy(self, state: RunState) -> None:
        algo, (params, stats, iteration) = self.config.algo, newest_first(state)[self.delivered]
        hidden = algo.hidden if algo.network is None else None
        save_policy(
            self.directory.policy, params, stats, self.spec, hidden, self.config.task, iteration,
            self.identity, self.evaluation, algo.network,
        )  # fmt: skip

    def fail(self, failure: Failure) -> None:
        """Save the evidence of a failure, and say how to resume."""
        if not self._in_place():
            return
        path, config, error, state = self.directory.path, self.config, failure.error, failure.state
        said = traceback.format_exception(error)
        meta = {"message": str(error), "traceback": said, "config": config_to_json(config)}
        try:
            data = checkpoint.serialize(to_arrays(state) | failure.evidence, meta)
            write_atomically(path / "failure.safetensors", data)
            evidence = f"state, batch and config are in {path / 'failure.safetensors'}"
        except OSError as problem:
            evidence = f"state and batch could not be written ({problem.strerror})"
        knob = "policy-rate" if hasattr(config.algo, "policy_rate") else "value-rate"
        self.error = RunError(
            f"{error}. Iteration {int(state.iteration) + 1} was given up; {evidence}. The state of iteration"
            f" {self.saved or 0} is kept; go on from it with:  {resume_command(path)}  (and with a smaller step, if the"
            f" learner failed: --algo.{knob} 1e-4)"
        )
        self.error.__cause__ = error

    def outcome(self, state: RunState) -> Run | RunError:
        """What became of a run that ended in `state`."""
        if self._in_place():
            run = self._finish(state)
            return self._unobserved(self.observers.error, state) if self.observers.error else run
        assert self.error is not None
        return self.error

    def _unobserved(self, error: RunError, state: RunState) -> RunError:
        """A sink or a callback failed: the run itself is good."""
        path = self.directory.path
        explained = RunError(
            f"{error}. The run stopped at iteration {int(state.iteration)}, with a checkpoint of iteration"
            f" {self.saved or 0}. Mend that and give it to focops.resume({str(path)!r}) again, or resume without it: "
            f" {resume_command(path)}"
        )
        explained.__cause__ = error.__cause__
        return explained

    def _finish(self, state: RunState) -> Run:
        result = summary(self.config, self.spec, state, time.perf_counter() - self._began)
        result["checkpoint_steps"] = (self.saved or 0) * self.config.batch_size
        none = NO_EPISODES if self.config.final_episodes == 0 else PENDING
        self._ended = state
        return self._told(result, none if result["finished"] else NOT_FINISHED)

    def policies(self) -> list[tuple[Params, Stats, int]]:
        """What a run that has ended may deliver, as `candidates.newest_first`."""
        assert self._ended is not None
        return newest_first(self._ended)

    def evaluated(self, run: Run, evaluation: dict[str, Any], delivered: int, seconds: float) -> Run:
        """Write what was found of the policy that `run` delivers, the one of `policies` that is given, into the policy
        file and the summary."""
        assert self._ended is not None
        self.directory.require_in_place()
        self.evaluation, self.evaluation_s, self.delivered = evaluation, seconds, delivered
        self._write_policy(self._ended)
        return self._told(run.summary, None)

    def not_evaluated(self, run: Run, why: str) -> Run:
        """Write why the policy that `run` delivers could not be evaluated."""
        self.directory.require_in_place()
        return self._told(run.summary, why)

    def _told(self, result: dict[str, Any], why_not: str | None) -> Run:
        """Write the summary, with what was found of the policy, or why nothing was."""
        found = self.evaluation
        judged = {"satisfied": True, "violated": False}.get(verdict(found["sampled"])) if found else None
        records = read_all(self.directory.metrics_file)
        told: dict[str, Any] = {"hints": hints(self.config, self.spec, records, found)}
        last = records[-1] if records else {}
        told["cost_aim"] = {c.name: last.get(f"cost_aim/{c.name}") for c in self.spec.constraints}
        told |= {"satisfied": judged, "policy": found, "not_evaluated": None if found else why_not}
        result = result | told | {"evaluation_s": self.evaluation_s}
        self.directory.write_summary(result)
        return Run(self.directory.path, result)

    def _in_place(self) -> bool:
        """Whether the run may be written: it has not failed, and its directory is still the one that is locked."""
        if self.error is None:
            try:
                self.directory.require_in_place()
            except RunError as error:
                self.error = error
        return self.error is None


def summary(config: TrainConfig, spec: Spec, state: RunState, wall_s: float) -> dict[str, Any]:
    """A summary of training: means are over its last episodes, while the policy changed; they are not those of the
    policy that is delivered, which `Recorder` adds."""
    means = np.asarray(jax.jit(episodes.means)(state.episodes)) if state.episodes.finished else None
    constraints, samples = spec.constraints, int(state.iteration) * config.batch_size
    m = len(constraints)
    discounted = None if means is None else means[2 : 2 + m]
    within = None if discounted is None or m == 0 else bool(np.all(discounted <= [c.limit for c in constraints]))
    return {
        "task": config.task,
        "algo": config.algorithm,
        "preset": config.preset,
        "seed": config.seed,
        "steps": samples,
        "finished": int(state.iteration) >= config.iterations,
        "training_episodes": min(int(state.episodes.finished), episodes.RECENT),
        "return_mean": None if means is None else float(means[1]),
        "episode_length_mean": None if means is None else float(means[0]),
        "discounted_cost_mean": _by_name(constraints, discounted),
        "undiscounted_cost_mean": _by_name(constraints, None if means is None else means[2 + m :]),
        "cost_limit": {c.name: c.limit for c in constraints},
        "margin": config.margin,
        "cost_discount": {c.name: c.discount for c in constraints},
        "training_within_limits": within,
        "steps_per_second": samples / wall_s,
        "wall_s": wall_s,
        "out": str(config.out),
    }


def _by_name(constraints: Sequence[Constraint], values: np.ndarray | None) -> dict[str, float | None]:
    return {c.name: None if values is None else float(values[i]) for i, c in enumerate(constraints)}
