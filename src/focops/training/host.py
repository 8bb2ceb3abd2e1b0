"""A run in memory on the host: environments, learner and counters, one iteration at a time."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
import numpy as np

from focops import envs
from focops.algorithms import ALGORITHMS, is_constrained
from focops.config import TrainConfig, require_room, validate
from focops.core.base import network
from focops.core.spec import Spec
from focops.core.types import VectorEnv
from focops.errors import RunError, UsageError
from focops.training import episodes, finite, iteration
from focops.training.collect import Collector
from focops.training.state import Arrays, Failure, Record, RunState, key_of, named_leaves


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


def make_envs(config: TrainConfig, num_envs: int, threads: int = 1, stagger: bool = False) -> VectorEnv:
    """Environments of a run's task, with its constraints."""
    return envs.make(
        config.task, num_envs, limits=config.cost_limit, discounts=config.cost_discount, cost=config.cost,
        needs_cost=is_constrained(config.algorithm), threads=threads, stagger=stagger, timeout=config.env_timeout,
        given=config.given, workers=config.env_workers, python=config.env_python,
    )  # fmt: skip


def _with_room(config: TrainConfig, env: VectorEnv) -> VectorEnv:
    try:
        require_room(config, env.spec)
    except UsageError:
        env.close()
        raise
    return env


class Trainer:
    """A run in memory. All that determines its next iteration is in `state`; on RunError that is still the state of the
    last successful iteration."""

    def __init__(self, config: TrainConfig, env: VectorEnv | None = None):
        validate(config)
        configure_jax()
        threads = config.threads or os.cpu_count() or 1
        self.env = env or _with_room(config, make_envs(config, config.num_envs, threads, not config.fresh_episodes))
        self.spec = self.env.spec
        self.config = config
        self.algo_config = iteration.of_run(config, self.spec)
        algorithm = ALGORITHMS[config.algorithm]
        self.network = network(self.algo_config)
        self.collector = Collector(self.env, self.network, config.batch_size // config.num_envs)
        begin = iteration.compiled(iteration.begin, algorithm, self.spec, config.num_envs, config.candidates, None)
        self._learn = iteration.compiled(iteration.learn, algorithm)
        self._rejected: Arrays = {}
        self.env.reset(config.seed)
        self.state: RunState = begin(key_of(config.seed), self.algo_config)._replace(sims=self.env.state())

    @property
    def specs(self) -> Sequence[Spec]:
        return (self.spec,)

    @property
    def note(self) -> str:
        return getattr(self.env, "note", "")

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return int(self.state.iteration)

    def iterations(self, stop: Callable[[], bool]) -> Iterator[Sequence[Record | Failure]]:
        """The iterations up to the last, or until `stop`: each as the record, or the failure, of each run."""
        while self.iteration < self.config.iterations and not stop():
            yield self.advance()

    def advance(self) -> Sequence[Record | Failure]:
        """`iterate`, with a failure as a result."""
        try:
            return [self.iterate()]
        except RunError as error:
            return self.failed(error)

    def iterate(self) -> Record:
        """Collect a batch, update once, report."""
        before = self.state
        if self.config.fresh_episodes:
            self.env.restart()
            before = before._replace(episodes=episodes.restart(before.episodes))
        batch, stats = self.collector.collect(before)
        progress = np.float32(self.iteration / self.config.iterations)
        after, report = self._learn(before._replace(sims=None), batch, stats, progress, self.algo_config)
        report = jax.device_get(report)
        if not report.finite:
            rejected = after.learner, after.stats
            self._rejected = named_leaves(rejected, "rejected")
            raise RunError(finite.first_fault(batch, (before.learner, before.stats), rejected))
        self.state = after._replace(sims=self.env.state())
        return iteration.record(self.config, self.spec, self.iteration, report, self.env.diverged)

    def failed(self, error: RunError) -> list[Failure]:
        """The failure of each run, when the current iteration is given up."""
        batch = {f"rollout/{name}": np.asarray(value) for name, value in self.collector.batch._asdict().items()}
        batch["rollout/steps"] = np.array(self.collector.collected)
        return [Failure(error, self.state, {**batch, **self._rejected})]

    def states(self) -> list[RunState]:
        """Each run after its last successful iteration."""
        return [self.state]

    def restore(self, states: Sequence[RunState]) -> None:
        """Resume from the state of each run."""
        (state,) = states
        self.env.restore(state.sims)
        lost = (self.env.age == 0)[:, None]  # also episodes that could not be resumed
        running = np.where(lost, 0, state.episodes.running)
        state = state._replace(sims=None, episodes=state.episodes._replace(running=running))
        self.state = jax.device_put(state)._replace(sims=self.env.state())

    def cut_episodes(self) -> None:
        """Start a new episode in every environment; those that are cut are not counted."""
        self.env.restart()
        restarted = episodes.restart(self.state.episodes)
        self.state = self.state._replace(sims=self.env.state(), episodes=restarted)

    def close(self) -> None:
        self.env.close()
