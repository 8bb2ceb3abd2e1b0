"""Runs on the disk: the only loop. Iterate, log, checkpoint; begin some, or go on with some."""

import contextlib
import dataclasses
import logging
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from focops.config import TrainConfig, default_config, validate
from focops.core.networks import Network
from focops.core.spec import Constraint, Spec
from focops.errors import RunError, UsageError
from focops.policy import Policy, load
from focops.runs import checkpoint
from focops.runs.config_json import config_to_json
from focops.runs.directory import RunDirectory
from focops.runs.files import write_atomically
from focops.runs.metrics import MetricsLog
from focops.runs.progress import Display, ManyDisplay, OneRun
from focops.trainer import Trainer

log = logging.getLogger(__name__)

WRITERS = 16
"""Threads that write runs' files."""


class Member(Protocol):
    """One of the runs that a learner trains, for those who keep it."""

    config: TrainConfig
    spec: Spec

    @property
    def iteration(self) -> int: ...

    def means(self) -> np.ndarray | None: ...

    def arrays(self) -> dict[str, np.ndarray]: ...

    def evidence(self) -> dict[str, np.ndarray]: ...

    def save_policy(self, folder: Path) -> None: ...


class Learner(Protocol):
    """One run on the host (`Trainer`), or many on an accelerator (`Fleet`)."""

    @property
    def members(self) -> Sequence[Member]: ...

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
    config = default_config(task, algo, preset, options.get("backend", "cpu"))
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
    return _only(run_all([config], display=OneRun(display) if display else None, wandb=wandb, should_stop=should_stop))


def run_all(
    configs: Sequence[TrainConfig],
    *,
    display: ManyDisplay | None = None,
    wandb: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Run | RunError]:
    """Train new runs as one program (a single one on the CPU), each into its directory. Of a run that fails the error
    comes back, and the others go on."""
    for config in configs:
        if config.out is not None:
            RunDirectory(config.out).require_free()
    learner = _learner(configs)  # refuses a bad config before there is a directory
    source = configs[0].init_from
    if source is not None:
        _start_from(learner, source)
    with contextlib.ExitStack() as stack:
        kept = []
        for member in learner.members:
            directory = stack.enter_context(RunDirectory.create(member.config))
            member.config = dataclasses.replace(member.config, out=directory.path)
            kept.append(_Kept(member, directory, MetricsLog(directory.path, wandb=wandb), 0.0))
        loop = _Loop(learner, kept)
        if source is not None:
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
    outcomes = resume_all(
        [path], steps=steps, display=OneRun(display) if display else None, wandb=wandb, should_stop=should_stop,
        network=network, changes=changes,
    )  # fmt: skip
    return _only(outcomes)


def resume_all(
    paths: Sequence[Path | str],
    *,
    steps: int | None = None,
    display: ManyDisplay | None = None,
    wandb: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    network: Network | None = None,
    changes: Mapping[str, Any] | None = None,
) -> list[Run | RunError]:
    """Go on with runs that share a program (or one on the CPU), all from the newest checkpoint that every one has."""
    with contextlib.ExitStack() as stack:
        directories = [stack.enter_context(RunDirectory.open(Path(path))) for path in paths]
        configs = [_changed(each.config_with(network), steps, changes or {}) for each in directories]
        learner = _learner(configs)
        found = checkpoint.load_common([each.checkpoints for each in directories])
        if found is not None:
            learner.restore(found)
        elif configs[0].init_from is not None:
            _start_from(learner, configs[0].init_from)
        if configs[0].iterations < learner.iteration:
            done = learner.iteration * configs[0].batch_size
            raise UsageError(f"--steps is {steps}, but the run has made {done} already; give a greater total")
        kept = []
        for member, directory in zip(learner.members, directories, strict=True):
            directory.record_change(member.config, learner.iteration)
            metrics = MetricsLog(directory.path, wandb=wandb)
            last = metrics.keep(learner.iteration)
            kept.append(_Kept(member, directory, metrics, last.get("elapsed_s", 0.0) if last else 0.0))
        loop = _Loop(learner, kept)
        if found is not None:
            loop.resumed()
        return loop.run(display, should_stop)


def _learner(configs: Sequence[TrainConfig]) -> "Learner":
    """What trains these runs."""
    if configs[0].backend == "mjx":
        validate(configs[0])
        import jax

        from focops.fleet import Fleet

        if jax.default_backend() == "cpu":
            log.warning("--backend mjx: JAX sees no accelerator here: slow; --backend cpu is made for this")
        return Fleet(configs)
    (config,) = configs
    return Trainer(config)


def _only(outcomes: list[Run | RunError]) -> Run:
    (outcome,) = outcomes
    if isinstance(outcome, RunError):
        raise outcome
    return outcome


def _start_from(learner: "Learner", source: Path) -> None:
    newest = checkpoint.load_newest(RunDirectory.open(source, lock=False).checkpoints)
    if newest is None:
        raise UsageError(f"{source} has no checkpoint yet to start from")
    learner.start_from(newest[0], str(source))


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
    """Iterates runs to their end, and keeps them on the disk."""

    def __init__(self, learner: "Learner", kept: Sequence["_Kept"]):
        self.learner, self.kept = learner, kept
        self._config = kept[0].member.config
        self._reported = time.perf_counter()

    def run(self, display: ManyDisplay | None, should_stop: Callable[[], bool]) -> list[Run | RunError]:
        learner, config = self.learner, self._config
        if display:
            display.start([each.member.config for each in self.kept], self.kept[0].member.spec)
        try:
            while learner.iteration < config.iterations and self._going and not should_stop():
                number = learner.iteration + 1
                every = config.checkpoint_every
                due = number == config.iterations or (every > 0 and number % every == 0)
                self._iterate(display, ahead=not due)
                if due:
                    if config.exact:
                        learner.cut_episodes()
                    self.save()
            if learner.ahead:  # asked to stop with an iteration under way
                self._iterate(display)
            self._save_unscheduled()
        finally:
            for each in self.kept:
                each.metrics.close()
            learner.close()
            if display:
                display.stop()
        return [each.outcome() for each in self.kept]

    @property
    def _going(self) -> list["_Kept"]:
        return [each for each in self.kept if each.error is None]

    def _iterate(self, display: ManyDisplay | None, ahead: bool = False) -> None:
        outcomes = self.learner.advance(ahead)
        # since the last report: what is done ahead is ready at once
        seconds, self._reported = time.perf_counter() - self._reported, time.perf_counter()
        for each, outcome in zip(self.kept, outcomes, strict=True):
            if isinstance(outcome, RunError):
                if each.error is None:
                    self._fail(each, outcome)
            else:
                each.log(outcome, seconds)
        if display:
            display.update([None if isinstance(outcome, RunError) else outcome for outcome in outcomes])

    def save(self) -> None:
        """A checkpoint of every run; on an accelerator the next iteration is under way meanwhile."""
        self.learner.snapshot()
        self.learner.go_ahead()
        _each(lambda each: each.save(), self._going)

    def resumed(self) -> None:
        """Note that what was restored is on the disk; the runs may have been killed before their policies were."""
        self.learner.snapshot()
        _each(lambda each: each.resumed(), self.kept)

    def _save_unscheduled(self) -> None:
        """Where runs stop early. Exact ones do not: a checkpoint between episodes' cuts would not be exact."""
        if not self._config.exact and any(each.saved != self.learner.iteration for each in self._going):
            self.save()

    def _fail(self, each: "_Kept", error: RunError) -> None:
        if not self._config.exact and each.saved != each.member.iteration:
            each.save()
        each.fail(error)


class _Kept:
    """One run on the disk."""

    def __init__(self, member: "Member", directory: RunDirectory, metrics: MetricsLog, elapsed_before: float):
        self.member, self.directory, self.metrics = member, directory, metrics
        self.saved: int | None = None
        """Iteration of the newest checkpoint."""
        self.error: RunError | None = None
        self._began = time.perf_counter() - elapsed_before

    def log(self, record: dict[str, Any], seconds: float) -> None:
        record["samples_per_second"] = self.member.config.batch_size / seconds
        record["elapsed_s"] = time.perf_counter() - self._began
        self.metrics.write(record)

    def save(self) -> None:
        """Metrics, checkpoint, policy, in this order: what is on the disk then never promises what is not."""
        self.metrics.sync()
        arrays = self.member.arrays()
        checkpoint.save(self.directory.checkpoints, int(arrays["iteration"]), arrays, {})
        self.member.save_policy(self.directory.policy)
        self.saved = int(arrays["iteration"])

    def resumed(self) -> None:
        self.saved = self.member.iteration
        self.member.save_policy(self.directory.policy)

    def fail(self, error: RunError) -> None:
        """Keep the evidence, and say how to go on."""
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
        if self.error is not None:
            return self.error
        result = summary(self.member, time.perf_counter() - self._began)
        result["checkpoint_steps"] = (self.saved or 0) * self.member.config.batch_size
        self.directory.write_summary(result)
        return Run(self.directory.path, result)


def _each(action: Callable[["_Kept"], None], kept: Sequence["_Kept"]) -> None:
    """On every run; the disk serves several at once."""
    if len(kept) == 1:
        action(kept[0])
        return
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(action, kept))


def summary(trainer: "Member", wall_s: float) -> dict[str, Any]:
    """The run in a few numbers; means are over the last 100 training episodes."""
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
