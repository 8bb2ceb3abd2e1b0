"""A run on the disk: the only loop. Iterate, log, checkpoint; begin one, or go on with one."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from focops.config import TrainConfig, default_config
from focops.core.spec import Constraint
from focops.errors import UsageError
from focops.policy import Policy, load
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory
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
    with RunDirectory.create(config) as directory:
        trainer.config = dataclasses.replace(config, out=directory.path)
        return _loop(trainer, directory, MetricsLog(directory.path, wandb=wandb), 0.0, display, should_stop)


def resume(
    path: Path | str,
    *,
    steps: int | None = None,
    display: Display | None = None,
    wandb: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Go on with a run from its newest checkpoint (from the start if it has none yet), to `steps` if given."""
    with RunDirectory.open(Path(path)) as directory:
        config = directory.config
        if steps is not None:
            config = dataclasses.replace(config, steps=steps)
        trainer = Trainer(config)
        newest = checkpoint.load_newest(directory.checkpoints)
        if newest is not None:
            trainer.restore(newest[0])
        if steps is not None:
            directory.write_config(config)
        metrics = MetricsLog(directory.path, wandb=wandb)
        last = metrics.keep(trainer.iteration)
        elapsed_s = last["elapsed_s"] if last else 0.0
        return _loop(trainer, directory, metrics, elapsed_s, display, should_stop)


def _loop(
    trainer: Trainer,
    directory: RunDirectory,
    metrics: MetricsLog,
    elapsed_before: float,
    display: Display | None,
    should_stop: Callable[[], bool],
) -> Run:
    config = trainer.config
    began = time.perf_counter()
    elapsed = lambda: elapsed_before + time.perf_counter() - began
    saved = None

    def save() -> None:
        metrics.sync()
        checkpoint.save(directory.checkpoints, trainer.iteration, trainer.arrays(), {})
        trainer.save_policy(directory.policy)

    if display:
        display.start(config, trainer.spec)
    try:
        while trainer.iteration < config.iterations and not should_stop():
            started = time.perf_counter()
            record = trainer.iterate()
            record["samples_per_second"] = config.batch_size / (time.perf_counter() - started)
            record["elapsed_s"] = elapsed()
            metrics.write(record)
            if display:
                display.update(record)
            if config.checkpoint_every and trainer.iteration % config.checkpoint_every == 0:
                save()
                saved = trainer.iteration
        if saved != trainer.iteration:
            save()
    finally:
        metrics.close()
        trainer.env.close()
        if display:
            display.stop()
    result = summary(trainer, elapsed())
    directory.write_summary(result)
    return Run(directory.path, result)


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
