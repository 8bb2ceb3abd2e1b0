"""Start or resume runs, each in its directory: `train` and `resume` for Python, the rest for commands."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from focops import envs
from focops.config import TrainConfig, default_config, validate, where_environments_run
from focops.core.base import FILLED, network_for
from focops.core.networks import Network
from focops.core.spec import Spec
from focops.display.notebook import display_for
from focops.display.progress import Display, ManyDisplay, OneRun
from focops.display.summary import print_summary
from focops.envs.limits import by_name
from focops.envs.names import Given, is_instance, named
from focops.errors import RunError, UsageError
from focops.evaluation.final import evaluate_delivered
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory
from focops.runs.loop import Loop, Trainer
from focops.runs.observers import Callback, Observers, require_callable
from focops.runs.paths import out_path
from focops.runs.recorder import Recorder
from focops.runs.run import Run
from focops.runs.sinks import OpenSink
from focops.training import host
from focops.training.state import from_arrays, take_over

log = logging.getLogger(__name__)


def train(
    task: Any = "HalfCheetahSpeed-v0",
    *,
    algo: str = "focops",
    preset: Any = "fast",
    out: Path | str | None = None,
    display: Display | bool | None = None,
    sinks: Sequence[OpenSink] = (),
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> Run:
    """Train a new run. `options` are fields of the configuration, or of the algorithm's own.

    Examples:
        >>> focops.train("AntSpeed-v0", seed=1, steps=200_000, temperature=1.0)

    `task` is one of `focops tasks`, a Gymnasium id ("CartPole-v1", "module:Id-v0"), a class of gymnasium.Env or a
    function that makes one (or its name, "module:Name"), or an instance: one environment, which is stepped alone.
    `init_from` is a run to take networks and normaliser from. `sinks` (classes, see `focops.Sink`) get the record of
    every iteration, as metrics.jsonl does; `callbacks` are called with it, and True stops the run after a checkpoint.

    `display`: None shows what `focops train` shows in a terminal or a notebook, and elsewhere nothing; True shows it
    everywhere (plain lines in a file); False nothing; or your own, with start(config, spec), update(record), stop().
    """
    shown = display_for(display)
    task_name, env = named(task)
    config = default_config(task_name, algo, preset, options.get("backend", "cpu"))
    elsewhere = {"algo", "algorithm", "task", "preset", "out", "layout", "given"}
    own = {f.name for f in dataclasses.fields(config)} - elsewhere
    of_algo = {f.name for f in dataclasses.fields(config.algo)} - set(FILLED)
    unknown = set(options) - own - of_algo
    if unknown:
        raise UsageError(f"unknown option {min(unknown)!r}; there are: {', '.join(sorted(own | of_algo))}")
    for name in {"cost_limit", "cost_discount"} & set(options):
        options[name] = _per_cost(name, options[name])
    if options.get("init_from") is not None:
        options["init_from"] = Path(options["init_from"])
    if is_instance(env):
        options.setdefault("num_envs", 1)
        log.warning("%s is one environment, stepped alone; give its class, and several run side by side", task_name)
    cost = None
    if options.get("cost") is not None:
        options["cost"], cost = named(options["cost"])
    options |= where_environments_run(options.get("env_workers"), options.get("env_python"))
    algo_options = {k: v for k, v in options.items() if k in of_algo}
    for name, value in algo_options.items():  # 2 and 2.0 are one value, and one compiled program
        if isinstance(getattr(config.algo, name), float):
            algo_options[name] = float(value)
    config = dataclasses.replace(
        config,
        algo=dataclasses.replace(config.algo, **algo_options),
        out=None if out is None else out_path(out),
        given=Given(env, cost),
        **{k: v for k, v in options.items() if k in own},
    )
    return _summed_up(run(config, display=shown, sinks=sinks, callbacks=callbacks), shown, display)


def run(
    config: TrainConfig,
    *,
    display: Display | None = None,
    sinks: Sequence[OpenSink] = (),
    callbacks: Sequence[Callback] = (),
    should_stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train a new run into its directory; `should_stop` ends it after the iteration it is in."""
    outcomes = run_all(
        [config],
        display=OneRun(display) if display else None,
        sinks=sinks,
        callbacks=callbacks,
        should_stop=should_stop,
    )
    return _only(outcomes)


def run_all(
    configs: Sequence[TrainConfig],
    *,
    display: ManyDisplay | None = None,
    sinks: Sequence[OpenSink] = (),
    callbacks: Sequence[Callback] = (),
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Run | RunError]:
    """Train new runs as one program (on the CPU: a single run), each into its directory. For a run that fails the error
    is returned; the others continue. Every run has its own sinks. Callbacks are called for every run, and stop all."""
    require_callable(sinks, callbacks)
    for config in configs:
        if config.out is not None:
            RunDirectory(config.out).require_free()
    trainer = _trainer(configs)  # refuses a bad config before there is a directory
    source = configs[0].init_from
    if source is not None:
        _start_from(trainer, source, configs[0].task)
    with contextlib.ExitStack() as stack:
        recorders = []
        for config, spec in zip(configs, trainer.specs, strict=True):
            config = _filled(config, spec)
            directory = stack.enter_context(RunDirectory.create(config))
            observers = stack.enter_context(Observers(directory.path, sinks, callbacks))
            recorders.append(Recorder(dataclasses.replace(config, out=directory.path), spec, directory, observers))
        loop = Loop(trainer, recorders)
        if source is not None:
            loop.save()  # from now on the other run is not needed
        return loop.run(display, should_stop, evaluate_delivered)


def resume(
    path: Path | str,
    *,
    steps: int | None = None,
    display: Display | bool | None = None,
    sinks: Sequence[OpenSink] = (),
    callbacks: Sequence[Callback] = (),
    should_stop: Callable[[], bool] = lambda: False,
    network: Network | None = None,
    env: Any = None,
    cost: Any = None,
    changes: Mapping[str, Any] | None = None,
    env_workers: int | None = None,
    env_python: Path | str | None = None,
) -> Run:
    """Resume a run from its newest valid checkpoint (from the start if it has none yet).

    `steps` is a new total; learning rates are then annealed over that total, so those of a finished run rise again.
    `changes` are new values for the algorithm's numbers: `changes={"policy_rate": 1e-4}`. `env_workers` and
    `env_python` are those of the configuration, if they are not to be the run's own. `network` is needed only if the
    run used one of your own, `env` and `cost` only if no name finds them. `sinks`, `callbacks` and `display` are those
    of `train`, given again.
    """
    shown = display_for(display)
    outcomes = resume_all(
        [path], steps=steps, display=OneRun(shown) if shown else None, sinks=sinks, callbacks=callbacks,
        should_stop=should_stop, network=network, env=env, cost=cost, changes=changes, env_workers=env_workers,
        env_python=env_python,
    )  # fmt: skip
    return _summed_up(_only(outcomes), shown, display)


def resume_all(
    paths: Sequence[Path | str],
    *,
    steps: int | None = None,
    display: ManyDisplay | None = None,
    sinks: Sequence[OpenSink] = (),
    callbacks: Sequence[Callback] = (),
    should_stop: Callable[[], bool] = lambda: False,
    network: Network | None = None,
    env: Any = None,
    cost: Any = None,
    changes: Mapping[str, Any] | None = None,
    env_workers: int | None = None,
    env_python: Path | str | None = None,
) -> list[Run | RunError]:
    """Resume runs that share a program (on the CPU: a single run), from the newest checkpoint that all of them have."""
    require_callable(sinks, callbacks)
    with contextlib.ExitStack() as stack:
        directories = [stack.enter_context(RunDirectory.open(Path(path))) for path in paths]
        elsewhere = where_environments_run(env_workers, env_python)
        configs = [_changed(each.config_with(network, Given(env, cost)), steps, changes or {}) for each in directories]
        configs = [dataclasses.replace(config, **elsewhere) for config in configs]
        for directory, config in zip(directories, configs, strict=True):
            directory.require_no_lost_checkpoint(config.checkpoint_every)
        trainer = _trainer(configs)
        for config, spec in zip(configs, trainer.specs, strict=True):
            spec.require_layout(config.layout, str(config.out))
        found = checkpoint.load_common([d.checkpoints for d in directories], [d.identity for d in directories])
        if found is not None:
            trainer.restore(list(map(from_arrays, trainer.states(), found)))
        elif configs[0].init_from is not None:
            _start_from(trainer, configs[0].init_from, configs[0].task)
        if configs[0].iterations < trainer.iteration:
            done = trainer.iteration * configs[0].batch_size
            raise UsageError(f"--steps is {steps}, but the run has made {done} already; give a greater total")
        recorders = []
        for config, spec, directory in zip(configs, trainer.specs, directories, strict=True):
            directory.record_change(config, trainer.iteration)
            observers = stack.enter_context(Observers(directory.path, sinks, callbacks, trainer.iteration))
            recorders.append(Recorder(config, spec, directory, observers))
        loop = Loop(trainer, recorders)
        if found is not None:
            loop.resumed()
        return loop.run(display, should_stop, evaluate_delivered)


def _per_cost(name: str, value: Any) -> tuple[float, ...] | dict[str, float]:
    """A number, several, or a mapping from the costs' names."""
    try:
        if isinstance(value, Mapping):
            return {str(cost): float(number) for cost, number in value.items()}
        return (float(value),) if np.ndim(value) == 0 else tuple(map(float, value))
    except (TypeError, ValueError):
        raise UsageError(
            f'{name} is {value!r}; it must be a number, one for each cost, or {{"speed": 25, "torque": 3}}'
        ) from None


def _filled(config: TrainConfig, spec: Spec) -> TrainConfig:
    """The config with what a user's environment says: its layout, network, and numbers by the names of its costs."""
    if envs.find(config.task) is not None:
        return config
    algo = dataclasses.replace(config.algo, network=network_for(config.algo, spec, config.task))
    config = dataclasses.replace(config, algo=algo, layout=spec.layout)
    limits, discounts = (by_name(spec.constraints, each) for each in (config.cost_limit, config.cost_discount))
    return dataclasses.replace(config, cost_limit=limits, cost_discount=discounts)


def _trainer(configs: Sequence[TrainConfig]) -> Trainer:
    """What trains these runs."""
    if configs[0].backend == "mjx":
        validate(configs[0])
        import jax

        from focops.training.device import DeviceTrainer

        if jax.default_backend() == "cpu":
            log.warning("--backend mjx: JAX sees no accelerator here: slow; --backend cpu is made for this")
        return DeviceTrainer(configs)
    (config,) = configs
    return host.Trainer(config)


def _only(outcomes: list[Run | RunError]) -> Run:
    (outcome,) = outcomes
    if isinstance(outcome, RunError):
        raise outcome
    return outcome


def _summed_up(run: Run, shown: Display | None, asked: Display | bool | None) -> Run:
    """The run, after its summary is printed if the display was not the caller's own."""
    if shown is not None and shown is not asked:
        print_summary(run.summary)
    return run


def _start_from(trainer: Trainer, source: Path, task: str) -> None:
    """Copy the networks and the normaliser of another run into each of these."""
    directory = RunDirectory.open(source, lock=False)
    newest = checkpoint.load_newest(directory.checkpoints, directory.identity)
    if newest is None:
        raise UsageError(f"{source} has no checkpoint to start from: a run has one after a while, the zoo has none")
    for spec in trainer.specs:
        spec.require_layout(directory.layout, str(source))
    trainer.restore([take_over(state, newest[0], str(source), task) for state in trainer.states()])


def _changed(config: TrainConfig, steps: int | None, changes: Mapping[str, Any]) -> TrainConfig:
    """The config with a new total and new values of the algorithm's traced numbers; nothing else can change."""
    fields = dataclasses.fields(config.algo)
    traced = [f.name for f in fields if not f.metadata.get("static") and f.name not in FILLED]
    may = [name for name in traced if isinstance(getattr(config.algo, name), float)]
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
