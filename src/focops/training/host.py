"""A run in memory: environments, learner and counters, one iteration at a time."""

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from focops import envs
from focops.algorithms import ALGORITHMS
from focops.config import TrainConfig, validate
from focops.core import normalize
from focops.core.policy import PolicyParams
from focops.core.spec import Constraint, Spec
from focops.core.types import Params, Rollout, VectorEnv
from focops.errors import RunError, UsageError
from focops.training import finite
from focops.training.collect import Collector, normalised

Record = dict[str, Any]
Arrays = dict[str, np.ndarray]

_NETWORKS = re.compile(r"learner\[0\](\.policy|\.critics\.params|\.critics\.units)(?=[.\[]|$)|learner\[1\]")
"""The names of networks' parameters and of the normaliser among `arrays`."""


def configure_jax() -> None:
    """Settings of JAX for a loop on the host: calls run at once in this thread (passing them to another costs more than
    acting), and compiled programs are cached for the next run."""
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    if not jax.config.jax_compilation_cache_dir:
        try:
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "focops" / "jax"
        except RuntimeError:  # no HOME, and a user without an entry in the password database, as in a container
            return
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


class Learned(NamedTuple):
    """What a policy's file holds."""

    policy: PolicyParams
    stats: normalize.RunningStats
    iteration: int


class Trainer:
    """A run in memory. `iterate` is one batch and one update; all that determines the next one is in `arrays`."""

    def __init__(self, config: TrainConfig, env: VectorEnv | None = None):
        validate(config)
        configure_jax()
        self.env = env or envs.make(
            config.task, config.num_envs, limits=config.cost_limit, discounts=config.cost_discount,
            threads=config.threads or os.cpu_count() or 1, stagger=not config.fresh_episodes,
            timeout=config.env_timeout,
        )  # fmt: skip
        self.spec = self.env.spec
        self.config = config
        self.algo_config = with_constraints(config.algo, self.spec.constraints)
        self.algorithm = ALGORITHMS[config.algorithm]
        self.network = self.algorithm.network(self.algo_config)
        self.key = key_of(config.seed)
        self.state = jax.jit(self.algorithm.init, static_argnums=1)(
            jax.random.fold_in(self.key, 0), self.spec, self.algo_config
        )
        self.stats = normalize.init(self.spec.obs_size)
        self.iteration = 0
        self.env.reset(config.seed)
        self.collector = Collector(self.env, self.network, config.batch_size // config.num_envs, config.fresh_episodes)
        self._rejected: Any = None
        self._learn = jax.jit(learn(self.algorithm))
        self._rest()

    def iterate(self) -> Record:
        """Collect a batch, update once, report. On RunError `arrays` are still those of the last good iteration."""
        act_key, update_key = jax.random.split(jax.random.fold_in(self.key, self.iteration + 1))
        progress = self.iteration / self.config.iterations
        rollout = self.collector.collect(act_key, self.state.policy, self.stats, progress)
        state, *report = self._learn(update_key, self.state, rollout, self.algo_config)
        info, good = jax.device_get(report)
        if not good:
            self._rejected = (state, rollout.stats)
            raise RunError(finite.first_fault(rollout, (self.state, self.stats), self._rejected))
        self.state, self.stats = state, rollout.stats
        self.iteration += 1
        self._rest()
        return self._record(info)

    @property
    def members(self) -> tuple["Trainer"]:
        """The runs that this trains: itself."""
        return (self,)

    ahead = False
    """Nothing is done in advance here: acting and physics are the host's own work."""

    def advance(self, ahead: bool = False) -> list[Record | RunError]:
        """`iterate`, with a failure as a result."""
        try:
            return [self.iterate()]
        except RunError as error:
            return [error]

    def go_ahead(self) -> None: ...

    def snapshot(self) -> None: ...

    def close(self) -> None:
        self.env.close()

    def cut_episodes(self) -> None:
        """Start a new episode in every environment; those that are cut are not counted."""
        self.env.restart()
        self.collector.episodes.restart()
        self._rest()

    def _rest(self) -> None:
        """Store the environments' state between two iterations: a failing one leaves them in the middle of a batch."""
        env = {f"env/{k}": v for k, v in self.env.state().items()}
        self._resting = env | {f"episodes/{k}": v for k, v in self.collector.episodes.state().items()}

    def _record(self, info: Any) -> Record:
        book = self.collector.episodes
        return report(
            self.config,
            self.spec,
            self.algo_config,
            self.iteration,
            book.means(),
            book.finished,
            self.env.diverged,
            info,
        )

    def means(self) -> np.ndarray | None:
        """Mean length, reward, discounted and undiscounted costs over the latest episodes; None before the first."""
        return self.collector.episodes.means()

    def arrays(self) -> Arrays:
        """The complete state of the run after its last good iteration, as named arrays."""
        resting = {k: np.asarray(v) for k, v in self._resting.items()}
        return {**named((self.state, self.stats)), **resting, "iteration": np.array(self.iteration)}

    def restore(self, arrays: Arrays | Sequence[Arrays]) -> None:
        """Resume from `arrays`."""
        if not isinstance(arrays, dict):
            (arrays,) = arrays
        part = lambda prefix: {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        self.state, self.stats = fill((self.state, self.stats), arrays)
        try:
            self.env.restore(part("env/"))
            self.collector.episodes.restore(part("episodes/"))
        except KeyError as missing:
            raise UsageError(f"the checkpoint does not fit this run's environments: it has no {missing}") from None
        self.collector.episodes.restart(self.env.age == 0)  # episodes that could not be resumed
        self.iteration = int(arrays["iteration"])
        self._rest()

    def start_from(self, arrays: Arrays, source: str) -> None:
        """Copy the networks and the normaliser from another run's `arrays`, and nothing else."""
        self.state, self.stats = take_over((self.state, self.stats), arrays, source, self.config.task)

    def evidence(self) -> Arrays:
        """The evidence of a failed iteration: the last good state, the batch, and the rejected state."""
        batch = {f"rollout/{k}": np.asarray(v) for k, v in self.collector.batch._asdict().items() if k != "stats"}
        rejected = {} if self._rejected is None else named(self._rejected, "rejected")
        return {**self.arrays(), **batch, **rejected, "rollout/steps": np.array(self.collector.collected)}

    def learned(self) -> Learned:
        """The policy after the last good iteration."""
        return Learned(self.state.policy, self.stats, self.iteration)


def key_of(seed: int) -> Any:
    """A run's random key. JAX itself uses only the low 32 bits of a seed."""
    key = jax.random.key(seed & 0xFFFFFFFF)
    return jax.random.fold_in(key, seed >> 32) if seed >> 32 else key


def with_constraints(algo: Any, constraints: Sequence[Constraint]) -> Any:
    """The algorithm's config with the constraints' numbers."""
    return dataclasses.replace(
        algo,
        limits=tuple(float(c.limit) for c in constraints),
        cost_discounts=tuple(float(c.discount) for c in constraints),
    )


@functools.cache  # one function per algorithm, so that the trainers of a process share what JAX compiles of it
def learn(algorithm: ModuleType) -> Callable[..., Any]:
    """(key, state, rollout with raw `next_obs`, config) -> (new state, Info, whether all is finite)."""

    def one(key: Any, state: Any, rollout: Rollout, config: Any) -> Any:
        new, info = algorithm.update(key, state, normalised(rollout), config)
        return new, info, finite.all_finite(rollout) & finite.still_finite(new, state)

    return one


def report(
    config: TrainConfig,
    spec: Spec,
    algo: Any,
    iteration: int,
    means: np.ndarray | None,
    finished: int,
    diverged: int,
    info: Any,
) -> Record:
    """An iteration as a flat record; `means` are over the latest episodes, `finished` is the number of all so far."""
    names = [c.name for c in spec.constraints]
    m = len(names)
    record: Record = {
        "iteration": iteration,
        "iterations": config.iterations,
        "samples": iteration * config.batch_size,
        "steps": config.iterations * config.batch_size,
        "return_mean": None if means is None else means[1],
        "episode_length_mean": None if means is None else means[0],
        "episodes_finished": finished,
        "diverged": diverged,
    }
    for i, constraint in enumerate(spec.constraints):
        record[f"discounted_cost_mean/{constraint.name}"] = None if means is None else means[2 + i]
        record[f"undiscounted_cost_mean/{constraint.name}"] = None if means is None else means[2 + m + i]
        record[f"cost_limit/{constraint.name}"] = constraint.limit
    for field, value in info._asdict().items():
        label = "cost_return_estimate" if field == "cost_return" else field
        if np.ndim(value):
            record |= {f"{label}/{name}": v.item() for name, v in zip(names, value, strict=True)}
        else:
            record[label] = value.item()
    if hasattr(algo, "trust_region"):
        record["trust_region"] = algo.trust_region
    return {k: float(v) if isinstance(v, np.floating) else v for k, v in record.items()}


def take_over(learner: Any, arrays: Arrays, source: str, task: str) -> Any:
    """`learner` (state, statistics) with the networks and the normaliser of another run's `arrays`, and nothing else of
    it; critics that the other run does not have are left as they are."""
    mine = named(learner)
    taken = {k: v for k, v in arrays.items() if k in mine and _NETWORKS.match(k)}
    for name, value in mine.items():
        if name not in taken and re.match(r"learner(\[0\]\.policy[.\[]|\[1\])", name):
            raise UsageError(f"{source} has another kind of network or action than {task}: no {name}")
        if name in taken and taken[name].shape != value.shape:
            raise UsageError(
                f"{source} does not fit {task}: {name} is {list(taken[name].shape)} there and"
                f" {list(value.shape)} here. Start from a run with the same observations, actions and networks"
            )
    return fill(learner, mine | taken)


def named(tree: Params, prefix: str = "learner") -> Arrays:
    """The leaves of a pytree by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def fill(tree: Params, arrays: Arrays) -> Params:
    """`tree` with its leaves replaced by the arrays of their names."""
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    leaves = []
    for path, leaf in paths:
        name = "learner" + jax.tree_util.keystr(path)
        if name not in arrays or arrays[name].shape != leaf.shape:
            found = arrays[name].shape if name in arrays else "nothing"
            raise UsageError(f"the checkpoint does not fit this run: {name} should be {leaf.shape}, found {found}")
        finite.require_finite(arrays[name], f"the checkpoint's {name}", np.asarray(leaf))
        leaves.append(jnp.asarray(arrays[name], leaf.dtype))
    return jax.tree_util.tree_unflatten(structure, leaves)
