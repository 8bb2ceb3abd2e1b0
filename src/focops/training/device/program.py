"""An iteration of R runs as pure functions of arrays [R, ...]: collect, update, count episodes. They are compiled."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from focops.core import normalize, policy
from focops.core.networks import Network
from focops.core.types import Rollout
from focops.envs.mjx import MjxTask, Simulations
from focops.training.collect import actor
from focops.training.device import episodes as books
from focops.training.device.episodes import EpisodeSums
from focops.training.host import learn


class Runs(NamedTuple):
    """Everything that determines the next iteration, each array [R, ...]."""

    learner: Any
    """(the algorithm's State, RunningStats)"""
    sims: Simulations
    """[R, E, ...]"""
    book: EpisodeSums
    key: UInt32[Array, "R 2"]
    good: Bool[Array, "R"]
    """Whether every iteration so far was finite; a failed run keeps its last good state."""


class Report(NamedTuple):
    """What an iteration reports to the host, each array [R, ...]."""

    info: Any
    good: Bool[Array, "R"]
    means: Any
    """Over the latest whole episodes; 0 before the first."""
    finished: Int[Array, "R"]
    diverged: Int[Array, "R"]
    overflow: Int[Array, "R"]
    """Simulations of the device whose contacts did not fit, in this iteration."""


class Evidence(NamedTuple):
    """What is read only if a run fails: its batch, and the rejected learner."""

    rollout: Rollout
    """[T, R, E, ...]"""
    learner: Any


@dataclass(frozen=True)
class Program:
    """What is constant in the compiled functions; what differs between runs (key, seed, config) is an argument."""

    env: MjxTask
    algorithm: ModuleType
    network: Network
    num_envs: int
    """E"""
    steps: int
    """T: steps of each environment in a batch."""
    fresh_episodes: bool

    def using(self, arrays: Any) -> "Program":
        """The same with arrays of `MjxTask.arrays` in place of the task's own."""
        return dataclasses.replace(self, env=self.env.using(arrays))

    def begin(self, key: UInt32[Array, "R 2"], seed: UInt32[Array, "R 2"], config: Any) -> Runs:
        """Runs before their first iteration; episode starts are drawn from `seed`."""
        runs, num, spec = key.shape[0], self.num_envs, self.env.spec
        init = lambda k, c: self.algorithm.init(jax.random.fold_in(jax.random.wrap_key_data(k), 0), spec, c)
        index = jnp.tile(jnp.arange(num, dtype=jnp.int32), runs)
        sims = self.env.begin(jnp.repeat(seed, num, 0), index, num)
        many = partial(jax.tree.map, lambda x: jnp.broadcast_to(x, (runs, *x.shape)))
        return Runs(
            learner=(jax.vmap(init)(key, config), many(normalize.init(spec.obs_size))),
            sims=_by_run(sims, runs),
            book=many(books.blank(num, len(spec.constraints))),
            key=key,
            good=jnp.ones(runs, bool),
        )

    def cut(self, runs: Runs) -> Runs:
        """Start a new episode in every environment; those that are cut are not counted."""
        sims = _by_run(self.env.restart(_flat(runs.sims), self.num_envs), runs.key.shape[0])
        return runs._replace(sims=sims, book=runs.book._replace(running=jnp.zeros_like(runs.book.running)))

    def iterate(
        self, before: Runs, config: Any, number: Int[Array, "R"], progress: Float[Array, "R"]
    ) -> tuple[Runs, Report, Evidence]:
        """Iteration `number` (from 0) of all runs."""
        runs = self.cut(before) if self.fresh_episodes else before
        split = lambda k, n: jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(k), n + 1))
        keys = jax.vmap(split)(runs.key, number)
        (state, stats), sims = runs.learner, runs.sims
        rollout, sims, overflow = self._collect(keys[:, 0], state.policy, stats, sims, progress)
        axes = Rollout(*[1] * (len(Rollout._fields) - 2), stats=0, progress=0)  # type: ignore[arg-type]
        update = jax.vmap(learn(self.algorithm), (0, 0, axes, 0))
        state, info, finite_now = update(keys[:, 1], state, rollout, config)
        book = jax.vmap(books.enter, (0, axes, 0))(runs.book, rollout, jnp.array(config.cost_discounts).T)
        good = runs.good & finite_now
        after = Runs((state, rollout.stats), sims, book, runs.key, good)
        after = jax.tree.map(
            lambda new, old: jnp.where(good.reshape(-1, *[1] * (new.ndim - 1)), new, old), after, before
        )
        told = Report(
            info, good, jax.vmap(books.means)(after.book), after.book.finished, jnp.sum(after.sims.diverged, 1),
            jnp.broadcast_to(overflow, good.shape),
        )  # fmt: skip
        return after._replace(good=good), told, Evidence(rollout, (state, rollout.stats))

    def _collect(
        self, keys: Any, params: Any, stats: normalize.RunningStats, sims: Simulations, progress: Float[Array, "R"]
    ) -> tuple[Rollout, Simulations, Int[Array, ""]]:
        """T steps of every simulation; arrays of the rollout are [T, R, E, ...]."""
        runs, num = sims.age.shape
        act = jax.vmap(actor(self.network))
        noise = jax.vmap(lambda key: policy.noise(key, self.env.spec, (self.steps, num)), out_axes=1)(keys)
        flat = _flat(sims)

        def step(carry: Any, noise: Any) -> Any:
            data, sims, stats = carry
            grouped = lambda x: x.reshape(runs, num, *x.shape[1:])
            raw_obs, age = grouped(sims.obs), grouped(sims.age)
            stats, obs, action = act(params, stats, raw_obs, noise)
            data, sims, out = self.env.step(data, sims, action.reshape(runs * num, -1))
            out = jax.tree.map(grouped, out)
            return (data, sims, stats), (obs, raw_obs, action, *out, age)

        (data, flat, stats), seen = jax.lax.scan(step, (self.env.load(flat), flat, stats), noise)
        return Rollout(*seen, stats=stats, progress=progress), _by_run(flat, runs), self.env.overflow(data)


def _flat(tree: Any) -> Any:
    """[R, E, ...] -> [R·E, ...]"""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def _by_run(tree: Any, runs: int) -> Any:
    """[R·E, ...] -> [R, E, ...]"""
    return jax.tree.map(lambda x: x.reshape(runs, -1, *x.shape[1:]), tree)
