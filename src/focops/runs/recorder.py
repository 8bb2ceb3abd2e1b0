"""One run on the disk: metrics, checkpoints, policy, and at the end a summary or the evidence of a failure."""

import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from focops.config import TrainConfig
from focops.core.spec import Constraint, Spec
from focops.errors import RunError
from focops.runs import checkpoint
from focops.runs.config_json import config_to_json
from focops.runs.directory import RunDirectory
from focops.runs.files import write_atomically
from focops.runs.observers import Observers
from focops.runs.policy import Policy, load, save_policy
from focops.runs.sinks import read_last
from focops.training.host import Learned


class RunInMemory(Protocol):
    """One of the runs that a learner trains, as the code that saves it sees it."""

    config: TrainConfig
    spec: Spec

    @property
    def iteration(self) -> int: ...

    def means(self) -> np.ndarray | None: ...

    def arrays(self) -> dict[str, np.ndarray]: ...

    def evidence(self) -> dict[str, np.ndarray]: ...

    def learned(self) -> Learned: ...


class Run(NamedTuple):
    """A run that has ended: its directory and its summary."""

    path: Path
    summary: dict[str, Any]

    def policy(self) -> Policy:
        return load(self.path)


class Recorder:
    """One run on the disk."""

    def __init__(self, member: RunInMemory, directory: RunDirectory, observers: Observers):
        self.member, self.directory, self.observers = member, directory, observers
        self.identity = directory.identity
        self.saved: int | None = None
        """Iteration of the newest checkpoint."""
        self.error: RunError | None = None
        before = (read_last(directory.metrics_file) or {}).get("elapsed_s")
        self._began = time.perf_counter() - (before if isinstance(before, float) else 0.0)

    def log(self, record: dict[str, Any], seconds: float) -> None:
        record["samples_per_second"] = self.member.config.batch_size / seconds
        record["elapsed_s"] = time.perf_counter() - self._began
        self.observers.write(record)

    def save(self) -> None:
        """Write metrics, checkpoint and policy, in this order, so that no file refers to one not yet on the disk."""
        if not self._in_place():
            return
        try:
            self._write()
        except (RunError, OSError):
            if self._in_place():  # otherwise that is the cause
                raise

    def _write(self) -> None:
        self.observers.sync()
        arrays = self.member.arrays()
        checkpoint.save(self.directory.checkpoints, int(arrays["iteration"]), arrays, {"run": self.identity})
        self._write_policy()
        self.saved = int(arrays["iteration"])

    def resumed(self) -> None:
        self.saved = self.member.iteration
        self._write_policy()

    def _write_policy(self) -> None:
        config, (params, stats, iteration) = self.member.config, self.member.learned()
        hidden = config.algo.hidden if config.algo.network is None else None
        save_policy(
            self.directory.policy, params, stats, self.member.spec, hidden, config.task, iteration, self.identity
        )

    def fail(self, error: RunError) -> None:
        """Save the evidence of a failure, and say how to resume."""
        if not self._in_place():
            return
        path, config = self.directory.path, self.member.config
        said = traceback.format_exception(error)
        meta = {"message": str(error), "traceback": said, "config": config_to_json(config)}
        try:
            write_atomically(path / "failure.safetensors", checkpoint.serialize(self.member.evidence(), meta))
            evidence = f"state, batch and config are in {path / 'failure.safetensors'}"
        except OSError as problem:
            evidence = f"state and batch could not be written ({problem.strerror})"
        knob = "policy-rate" if hasattr(config.algo, "policy_rate") else "value-rate"
        self.error = RunError(
            f"{error}. Iteration {self.member.iteration + 1} was given up; {evidence}. The state of iteration"
            f" {self.saved or 0} is kept; go on from it with:  focops resume {path}  (and with a smaller step, if the"
            f" learner failed: --algo.{knob} 1e-4)"
        )
        self.error.__cause__ = error

    def outcome(self) -> Run | RunError:
        if self._in_place():
            run = self._finish()
            return self._unobserved(self.observers.error) if self.observers.error else run
        assert self.error is not None
        return self.error

    def _unobserved(self, error: RunError) -> RunError:
        """A sink or a callback failed: the run itself is good."""
        path = self.directory.path
        explained = RunError(
            f"{error}. The run stopped at iteration {self.member.iteration}, with a checkpoint of iteration"
            f" {self.saved or 0}. Mend that and give it to focops.resume({str(path)!r}) again, or go on without it: "
            f" focops resume {path}"
        )
        explained.__cause__ = error.__cause__
        return explained

    def _finish(self) -> Run:
        result = summary(self.member, time.perf_counter() - self._began)
        result["checkpoint_steps"] = (self.saved or 0) * self.member.config.batch_size
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


def summary(trainer: RunInMemory, wall_s: float) -> dict[str, Any]:
    """A summary of the run; means are over the last 100 training episodes."""
    config, means = trainer.config, trainer.means()
    constraints, samples = trainer.spec.constraints, trainer.iteration * trainer.config.batch_size
    m = len(constraints)
    discounted = None if means is None else means[2 : 2 + m]
    return {
        "task": config.task,
        "algo": config.algorithm,
        "preset": config.preset,
        "seed": config.seed,
        "steps": samples,
        "finished": trainer.iteration >= config.iterations,
        "return_mean": None if means is None else float(means[1]),
        "episode_length_mean": None if means is None else float(means[0]),
        "discounted_cost_mean": _by_name(constraints, discounted),
        "undiscounted_cost_mean": _by_name(constraints, None if means is None else means[2 + m :]),
        "cost_limit": {c.name: c.limit for c in constraints},
        "cost_discount": {c.name: c.discount for c in constraints},
        "satisfied": None if discounted is None else bool(np.all(discounted <= [c.limit for c in constraints])),
        "steps_per_second": samples / wall_s,
        "wall_s": wall_s,
        "out": str(config.out),
    }


def _by_name(constraints: Sequence[Constraint], values: np.ndarray | None) -> dict[str, float | None]:
    return {c.name: None if values is None else float(values[i]) for i, c in enumerate(constraints)}
