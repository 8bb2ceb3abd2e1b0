"""The only loop: collect, update, log, checkpoint."""

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from focops import envs
from focops.algorithms import ALGORITHMS
from focops.config import TrainConfig, default_config, validate
from focops.core import normalize
from focops.core.types import Params, Rollout, VectorEnv
from focops.errors import UsageError
from focops.policy import save_policy
from focops.rollout import Collector
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory
from focops.runs.metrics import MetricsLog

if TYPE_CHECKING:
    from focops.runs.progress import Display

Record = dict[str, Any]


def configure_jax() -> None:
    """What a host-side loop wants of JAX: calls that run at once in this thread (a hand-over to another one costs more
    than acting does), and compiled programs kept for the next run."""
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    if not jax.config.jax_compilation_cache_dir:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "focops" / "jax"
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


class Trainer:
    """A run in memory. `iterate` is one batch and one update; everything that makes the next one is in `arrays`."""

    def __init__(self, config: TrainConfig, env: VectorEnv | None = None):
        validate(config)
        configure_jax()
        self.env = env or envs.make(
            config.task, config.num_envs, limits=config.cost_limit, discounts=config.cost_discount,
            threads=config.threads or os.cpu_count() or 1, stagger=not config.fresh_episodes,
        )  # fmt: skip
        self.spec = self.env.spec
        constraints = self.spec.constraints
        self.config = config
        self.algo_config = dataclasses.replace(
            config.algo,
            limits=tuple(float(c.limit) for c in constraints),
            cost_discounts=tuple(float(c.discount) for c in constraints),
        )
        self.algorithm = ALGORITHMS[config.algorithm]
        self.network = self.algorithm.network(self.algo_config)
        self.key = jax.random.key(config.seed)
        self.state = jax.jit(self.algorithm.init, static_argnums=1)(
            jax.random.fold_in(self.key, 0), self.spec, self.algo_config
        )
        self.stats = normalize.init(self.spec.obs_size)
        self.iteration = 0
        self.env.reset(config.seed)
        self.collector = Collector(self.env, self.network, config.batch_size // config.num_envs, config.fresh_episodes)
        self._learn = jax.jit(self._learn_impl, donate_argnums=1)

    def _learn_impl(self, key: Any, state: Any, stats: normalize.RunningStats, rollout: Rollout, config: Any) -> Any:
        rollout = rollout._replace(next_obs=normalize.apply(stats, jnp.asarray(rollout.next_obs)))
        return self.algorithm.update(key, state, rollout, config)

    def iterate(self) -> Record:
        """Collect a batch, update once, report."""
        act_key, update_key = jax.random.split(jax.random.fold_in(self.key, self.iteration + 1))
        progress = self.iteration / self.config.iterations
        rollout, self.stats = self.collector.collect(act_key, self.state.policy, self.stats, progress)
        self.state, info = self._learn(update_key, self.state, self.stats, rollout, self.algo_config)
        self.iteration += 1
        return self._record(jax.device_get(info))

    def _record(self, info: Any) -> Record:
        config, book = self.config, self.collector.episodes
        names = [c.name for c in self.spec.constraints]
        m, means = len(names), book.means()
        record: Record = {
            "iteration": self.iteration,
            "iterations": config.iterations,
            "samples": self.iteration * config.batch_size,
            "steps": config.iterations * config.batch_size,
            "return_mean": None if means is None else means[1],
            "episode_length_mean": None if means is None else means[0],
            "episodes_finished": book.finished,
            "diverged": self.env.diverged,
        }
        for i, constraint in enumerate(self.spec.constraints):
            record[f"discounted_cost_mean/{constraint.name}"] = None if means is None else means[2 + i]
            record[f"undiscounted_cost_mean/{constraint.name}"] = None if means is None else means[2 + m + i]
            record[f"cost_limit/{constraint.name}"] = constraint.limit
        for field, value in info._asdict().items():
            label = "cost_return_estimate" if field == "cost_return" else field
            if np.ndim(value):
                record |= {f"{label}/{name}": v.item() for name, v in zip(names, value, strict=True)}
            else:
                record[label] = value.item()
        if hasattr(self.algo_config, "trust_region"):
            record["trust_region"] = self.algo_config.trust_region
        return {k: float(v) if isinstance(v, np.floating) else v for k, v in record.items()}

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything the run is, as named arrays."""
        learner = _named((self.state, self.stats))
        env = {f"env/{k}": v for k, v in self.env.state().items()}
        episodes = {f"episodes/{k}": v for k, v in self.collector.episodes.state().items()}
        return {**learner, **env, **episodes, "iteration": np.array(self.iteration)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from `arrays`."""
        part = lambda prefix: {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}  # noqa: E731
        self.state, self.stats = _fill((self.state, self.stats), arrays)
        self.env.restore(part("env/"))
        self.collector.episodes.restore(part("episodes/"))
        self.iteration = int(arrays["iteration"])


def _named(tree: Params) -> dict[str, np.ndarray]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {"learner" + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def _fill(tree: Params, arrays: dict[str, np.ndarray]) -> Params:
    """`tree` with its leaves replaced by the arrays of their names."""
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    leaves = []
    for path, leaf in paths:
        name = "learner" + jax.tree_util.keystr(path)
        if name not in arrays or arrays[name].shape != leaf.shape:
            found = arrays[name].shape if name in arrays else "nothing"
            raise UsageError(f"the checkpoint does not fit this run: {name} should be {leaf.shape}, found {found}")
        leaves.append(jnp.asarray(arrays[name], leaf.dtype))
    return jax.tree_util.tree_unflatten(structure, leaves)


def run(
    config: TrainConfig,
    *,
    display: "Display | None" = None,
    wandb: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Train a new run into its directory and return its summary."""
    validate(config)
    if config.out is None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        name = f"{config.task.rpartition(':')[2].replace('/', '-')}-{config.algorithm}-{config.seed}-{stamp}"
        config = dataclasses.replace(config, out=Path("runs") / name)
    with RunDirectory.create(config) as directory:
        trainer = Trainer(config)
        return _loop(trainer, directory, MetricsLog(directory.path, wandb=wandb), 0.0, display, should_stop)


def resume(
    path: Path | str,
    *,
    steps: int | None = None,
    display: "Display | None" = None,
    wandb: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Go on with a run from its newest checkpoint (or from the start if it has none yet), to `steps` if given."""
    with RunDirectory.open(Path(path)) as directory:
        config = directory.config
        if steps is not None:
            config = dataclasses.replace(config, steps=steps)
            directory.write_config(config)
        trainer = Trainer(config)
        newest = checkpoint.load_newest(directory.checkpoints)
        metrics = MetricsLog(directory.path, wandb=wandb)
        if newest is None:
            metrics.truncate(0)
            return _loop(trainer, directory, metrics, 0.0, display, should_stop)
        arrays, meta = newest
        trainer.restore(arrays)
        metrics.truncate(meta["metrics_offset"])
        return _loop(trainer, directory, metrics, meta["elapsed_s"], display, should_stop)


def _loop(
    trainer: Trainer,
    directory: RunDirectory,
    metrics: MetricsLog,
    elapsed_before: float,
    display: "Display | None",
    should_stop: Callable[[], bool],
) -> dict[str, Any]:
    config, record = trainer.config, None
    began = time.perf_counter()
    elapsed = lambda: elapsed_before + time.perf_counter() - began  # noqa: E731
    if display:
        display.start(config, trainer.spec)

    def save() -> None:
        meta = {"metrics_offset": metrics.offset(), "elapsed_s": elapsed()}
        checkpoint.save(directory.checkpoints, trainer.iteration, trainer.arrays(), meta)
        hidden = None if trainer.algo_config.network else trainer.algo_config.hidden
        save_policy(directory.policy, trainer.state.policy, trainer.stats, trainer.spec, hidden, config.task)

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
        save()
    finally:
        metrics.close()
        trainer.env.close()
        if display:
            display.stop()
    result = summary(trainer, elapsed())
    directory.write_summary(result)
    return result


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


def _by_name(constraints: Any, values: Any) -> dict[str, float | None]:
    return {c.name: None if values is None else float(values[i]) for i, c in enumerate(constraints)}


def train(
    task: str = "HalfCheetahSpeed-v0",
    *,
    algo: str = "focops",
    preset: Any = "fast",
    out: Path | str | None = None,
    display: "Display | None" = None,
    **options: Any,
) -> dict[str, Any]:
    """Train and return the summary. `options` are fields of the configuration, or of the algorithm's own:

    focops.train("AntSpeed-v0", seed=1, steps=200_000, temperature=1.0)
    """
    config = default_config(task, algo, preset)
    own = {f.name for f in dataclasses.fields(config)} - {"algo", "algorithm", "task", "preset", "out"}
    of_algo = {f.name for f in dataclasses.fields(config.algo)} - {"limits", "cost_discounts"}
    unknown = set(options) - own - of_algo
    if unknown:
        raise UsageError(f"unknown option {sorted(unknown)[0]!r}; there are: {', '.join(sorted(own | of_algo))}")
    if isinstance(options.get("cost_limit"), int | float):
        options["cost_limit"] = (float(options["cost_limit"]),)
    algo_config = dataclasses.replace(config.algo, **{k: v for k, v in options.items() if k in of_algo})
    config = dataclasses.replace(
        config, algo=algo_config, out=None if out is None else Path(out), **{k: v for k, v in options.items() if k in own}
    )
    return run(config, display=display)
