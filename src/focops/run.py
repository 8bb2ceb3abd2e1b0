"""A run on the disk: the only loop. Iterate, log, checkpoint; begin one, or go on with one."""

import dataclasses
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from focops.config import TrainConfig, default_config
from focops.core.networks import Network
from focops.core.spec import Constraint
from focops.errors import RunError, UsageError
from focops.policy import Policy, load
from focops.runs import checkpoint
from focops.runs.config_json import config_to_json
from focops.runs.directory import RunDirectory
from focops.runs.files import write_atomically
from focops.runs.metrics import MetricsLog
from focops.runs.progress import Display
from focops.trainer import Trainer


class Run(NamedTuple):
    """A run that has come to an end: its directory and its summary."""

    path: Path
    summary: dict[str, Any]

    def policy(self) -> Policy:
        return load(self.path)


def train(
    task: str = "HalfCheetahSpeed-v0",
    *,
    algo: str = "focops",
    preset: Any = "fast",
    out: Path | str | None = None,
    display: Display | None = None,
    **options: Any,
) -> Run:
    """Train a new run. `options` are fields of the configuration, or of the algorithm's own:

    focops.train("AntSpeed-v0", seed=1, steps=200_000, temperature=1.0)

    `init_from` is a run to take networks and normaliser from.
    """
    config = default_config(task, algo, preset)
    own = {f.name for f in dataclasses.fields(config)} - {"algo", "algorithm", "task", "preset", "out"}
    of_algo = {f.name for f in dataclasses.fields(config.algo)} - {"limits", "cost_discounts"}
    unknown = set(options) - own - of_algo
    if unknown:
        raise UsageError(f"unknown option {min(unknown)!r}; there are: {', '.join(sorted(own | of_algo))}")
    for name in {"cost_limit", "cost_discount"} & set(options):
        value = options[name]
        options[name] = (float(value),) if isinstance(value, int | float) else tuple(map(float, value))
    if options.get("init_from") is not None:
        options["init_from"] = Path(options["init_from"])
    algo_options = {k: v for k, v in options.items() if k in of_algo}
    for name, value in algo_options.items():  # 2 and 2.0 are one value, and one compiled program
        if isinstance(getattr(config.algo, name), float):
            algo_options[name] = float(value)
    config = dataclasses.replace(
        config,
        algo=dataclasses.replace(config.algo, **algo_options),
        out=None if out is None else Path(out),
        **{k: v for k, v in options.items() if k in own},
    )
    return run(config, display=display)


def run(
    config: TrainConfig,
    *,
    display: Display | None = None,
    wandb: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train a new run into its directory; `should_stop` ends it after the iteration it is in."""
    if config.out is not None:
        RunDirectory(config.out).require_free()
    trainer = Trainer(config)  # refuses a bad config before there is a directory
    if config.init_from is not None:
        _start_from(trainer, config.init_from)
    with RunDirectory.create(config) as directory:
        trainer.config = dataclasses.replace(config, out=directory.path)
        loop = _Loop(trainer, directory, MetricsLog(directory.path, wandb=wandb), 0.0)
        if config.init_from is not None:
            loop.save()  # from now on the other run is not needed
        return loop.run(display, should_stop)


def resume(
    path: Path | str,
    *,
    steps: int | None = None,
    display: Display | None = None,
    wandb: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    network: Network | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Run:
    """Go on with a run from its newest good checkpoint (from the start if it has none yet).

    `steps` is a new total; learning rates are then annealed over that total, so those of a finished run rise again.
    `changes` are new values for the algorithm's numbers: focops.resume("cheetah", changes={"policy_rate": 1e-4}).
    `network` is needed only if the run used one of your own.
    """
    with RunDirectory.open(Path(path)) as directory:
        config = _changed(directory.config_with(network), steps, changes or {})
        trainer = Trainer(config)
        newest = checkpoint.load_newest(directory.checkpoints)
        if newest is not None:
            trainer.restore(newest[0])
        elif config.init_from is not None:
            _start_from(trainer, config.init_from)
        if config.iterations < trainer.iteration:
            done = trainer.iteration * config.batch_size
            raise UsageError(f"--steps is {steps}, but the run has made {done} already; give a greater total")
        directory.record_change(config, trainer.iteration)
        metrics = MetricsLog(directory.path, wandb=wandb)
        last = metrics.keep(trainer.iteration)
        loop = _Loop(trainer, directory, metrics, last.get("elapsed_s", 0.0) if last else 0.0)
        if newest is not None:
            loop.saved = trainer.iteration
            trainer.save_policy(directory.policy)  # the run may have been killed before it did
        return loop.run(display, should_stop)


def _start_from(trainer: Trainer, source: Path) -> None:
    newest = checkpoint.load_newest(RunDirectory.open(source, lock=False).checkpoints)
    if newest is None:
        raise UsageError(f"{source} has no checkpoint yet to start from")
    trainer.start_from(newest[0], str(source))


def _changed(config: TrainConfig, steps: int | None, changes: Mapping[str, Any]) -> TrainConfig:
    """The config with another total, and other values for what is traced: the rest is built into the run."""
    fields = dataclasses.fields(config.algo)
    may = [f.name for f in fields if isinstance(getattr(config.algo, f.name), float) and not f.metadata.get("static")]
    values = {}
    for name, value in changes.items():
        if name not in may:
            raise UsageError(f"{name} cannot be changed on resuming; these can: {', '.join(sorted(may))}")
        try:
            values[name] = float(value)
        except (TypeError, ValueError):
            raise UsageError(f"{name} is {value!r}; it must be a number") from None
    algo = dataclasses.replace(config.algo, **values)
    return dataclasses.replace(config, algo=algo, steps=config.steps if steps is None else steps)


class _Loop:
    """Iterates a run to its end, and keeps it on the disk."""

    def __init__(self, trainer: Trainer, directory: RunDirectory, metrics: MetricsLog, elapsed_before: float):
        self.trainer, self.directory, self.metrics = trainer, directory, metrics
        self.saved: int | None = None
        """Iteration of the newest checkpoint."""
        self._began = time.perf_counter() - elapsed_before

    def run(self, display: Display | None, should_stop: Callable[[], bool]) -> Run:
        trainer, config = self.trainer, self.trainer.config
        if display:
            display.start(config, trainer.spec)
        try:
            while trainer.iteration < config.iterations and not should_stop():
                record = self._iterate()
                if display:
                    display.update(record)
                last = trainer.iteration == config.iterations
                if last or (config.checkpoint_every and trainer.iteration % config.checkpoint_every == 0):
                    if config.exact:
                        trainer.cut_episodes()
                    self.save()
            self._save_unscheduled()
        finally:
            self.metrics.close()
            trainer.env.close()
            if display:
                display.stop()
        result = summary(trainer, time.perf_counter() - self._began)
        result["checkpoint_steps"] = (self.saved or 0) * config.batch_size
        self.directory.write_summary(result)
        return Run(self.directory.path, result)

    def _iterate(self) -> dict[str, Any]:
        started = time.perf_counter()
        try:
            record = self.trainer.iterate()
        except RunError as error:
            raise RunError(f"{error}. {self._after_failure(error)}") from error
        now = time.perf_counter()
        record["samples_per_second"] = self.trainer.config.batch_size / (now - started)
        record["elapsed_s"] = now - self._began
        self.metrics.write(record)
        return record

    def save(self) -> None:
        """Metrics, checkpoint, policy, in this order: what is on the disk then never promises what is not."""
        self.metrics.sync()
        checkpoint.save(self.directory.checkpoints, self.trainer.iteration, self.trainer.arrays(), {})
        self.trainer.save_policy(self.directory.policy)
        self.saved = self.trainer.iteration

    def _save_unscheduled(self) -> None:
        """Where a run stops early. An exact one does not: a checkpoint between episodes' cuts would not be exact."""
        if self.saved != self.trainer.iteration and not self.trainer.config.exact:
            self.save()

    def _after_failure(self, error: RunError) -> str:
        """Keep the last good state and the evidence; how to go on."""
        self._save_unscheduled()
        path, config = self.directory.path, self.trainer.config
        said = traceback.format_exception(error)
        meta = {"message": str(error), "traceback": said, "config": config_to_json(config)}
        try:
            write_atomically(path / "failure.safetensors", checkpoint.serialize(self.trainer.evidence(), meta))
            evidence = f"state, batch and config are in {path / 'failure.safetensors'}"
        except OSError as problem:
            evidence = f"state and batch could not be written ({problem.strerror})"
        knob = "policy-rate" if hasattr(config.algo, "policy_rate") else "value-rate"
        return (
            f"Iteration {self.trainer.iteration + 1} was given up; {evidence}. The state of iteration"
            f" {self.saved or 0} is kept; go on from it with:  focops resume {path}  (and with a smaller step, if the"
            f" learner failed: --algo.{knob} 1e-4)"
        )


def summary(trainer: Trainer, wall_s: float) -> dict[str, Any]:
    """The run in a few numbers; means are over the last 100 training episodes."""
    config, means = trainer.config, trainer.collector.episodes.means()
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
