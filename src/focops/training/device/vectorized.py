"""An iteration of R runs as pure functions of arrays [R, ...]: collect, update, count episodes. They are compiled."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from focops.core.networks import Network
from focops.core.normalize import Stats
from focops.core.types import Trajectories
from focops.envs.mjx import MjxTask, Simulations
from focops.training import episodes, iteration
from focops.training.iteration import Report
from focops.training.state import RunState


class Runs(NamedTuple):
    """Everything that determines the next iteration, each array [R, ...]."""

    state: RunState
    """Of a run that has failed, its last valid state."""
    finite: Bool[Array, "R"]
    """Whether all numbers of every iteration so far were finite."""


class Physics(NamedTuple):
    """What an iteration reports of its simulations."""

    diverged: Int[Array, "R"]
    """Episodes so far that a non-finite simulation has ended."""
    overflow: Int[Array, "R"]
    """Simulations of the device whose contacts did not fit, in this iteration."""


class Rejected(NamedTuple):
    """What learning resulted in; read only if it is not finite."""

    learner: Any
    stats: Stats


@dataclass(frozen=True)
class VectorizedIteration:
    """What is constant in the compiled functions; what differs between runs (key, seed, config) is an argument."""

    env: MjxTask
    algorithm: ModuleType
    network: Network
    num_envs: int
    """E"""
    steps: int
    """T: steps of each environment in a batch."""
    fresh_episodes: bool
    candidates: int
    """Policies that a run keeps to choose from."""

    def using(self, arrays: Any) -> "VectorizedIteration":
        """The same with arrays of `MjxTask.arrays` in place of the task's own."""
        return dataclasses.replace(self, env=self.env.using(arrays))

    def begin(self, key: UInt32[Array, "R 2"], seed: UInt32[Array, "R 2"], config: Any) -> Runs:
        """Runs before their first iteration; episode starts are drawn from `seed`."""
        runs, num = key.shape[0], self.num_envs
        index = jnp.tile(jnp.arange(num, dtype=jnp.int32), runs)
        sims = _by_run(self.env.begin(jnp.repeat(seed, num, 0), index, num), runs)
        begin = partial(iteration.begin, self.algorithm, self.env.spec, num, self.candidates)
        return Runs(jax.vmap(begin)(sims, key, config), jnp.ones(runs, bool))

    def cut(self, runs: Runs) -> Runs:
        """Start a new episode in every environment; those that are cut are not counted."""
        state = runs.state
        sims = _by_run(self.env.restart(_flat(state.sims), self.num_envs), len(state.key))
        return runs._replace(state=state._replace(sims=sims, episodes=episodes.restart(state.episodes)))

    def iterate(
        self, before: Runs, config: Any, progress: Float[Array, "R"]
    ) -> tuple[Runs, Report, Physics, Trajectories, Rejected]:
        """One more iteration of all runs; arrays of the trajectories are [T, R, E, ...]."""
        state = self.cut(before).state if self.fresh_episodes else before.state
        trajectories, stats, sims, overflow = self._collect(state)
        learn = jax.vmap(partial(iteration.learn, self.algorithm), (0, 1, 0, 0, 0))
        after, report = learn(state, trajectories, stats, progress, config)
        rejected = Rejected(after.learner, after.stats)
        finite = before.finite & report.finite
        choose = lambda new, old: jnp.where(finite.reshape(-1, *[1] * (new.ndim - 1)), new, old)
        after = jax.tree.map(choose, after._replace(sims=sims), before.state)
        physics = Physics(jnp.sum(after.sims.diverged, 1), jnp.broadcast_to(overflow, finite.shape))
        return Runs(after, finite), report._replace(finite=finite), physics, trajectories, rejected

    def _collect(self, state: RunState) -> tuple[Trajectories, Stats, Simulations, Int[Array, ""]]:
        """T steps of every simulation."""
        runs, num = state.sims.age.shape
        act = partial(jax.vmap(partial(iteration.act, self.network)), state.learner.policy)
        noise = jax.vmap(partial(iteration.noise, self.env.spec, (self.steps, num)), out_axes=1)
        flat = _flat(state.sims)

        def step(carry: Any, noise: Any) -> Any:
            data, sims, stats = carry
            grouped = lambda x: x.reshape(runs, num, *x.shape[1:])
            raw_obs, age = grouped(sims.obs), grouped(sims.age)
            stats, obs, action = act(stats, raw_obs, noise)
            data, sims, out = self.env.step(data, sims, action.reshape(runs * num, -1))
            out = jax.tree.map(grouped, out)
            return (data, sims, stats), (obs, raw_obs, action, *out, age)

        start = self.env.load(flat), flat, state.stats
        (data, flat, stats), seen = jax.lax.scan(step, start, noise(state.key, state.iteration))
        return Trajectories(*seen), stats, _by_run(flat, runs), self.env.overflow(data)


def _flat(tree: Any) -> Any:
    """[R, E, ...] -> [R·E, ...]"""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def _by_run(tree: Any, runs: int) -> Any:
    """[R·E, ...] -> [R, E, ...]"""
    return jax.tree.map(lambda x: x.reshape(runs, -1, *x.shape[1:]), tree)
