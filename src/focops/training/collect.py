"""Collecting on the host: T steps of E environments under one policy, and statistics of the episodes."""

import functools
from collections import deque
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from focops.core import normalize, policy
from focops.core.networks import Network
from focops.core.spec import Spec
from focops.core.types import Params, Rollout, VectorEnv

RECENT = 100
"""Number of latest episodes that the reported means are over, as in the paper."""


@functools.cache  # as `host.learn`
def actor(network: Network) -> Callable[..., Any]:
    """A jitted (params, stats, obs, noise) -> (stats, normalised obs, action); statistics take in every observation
    the moment it is seen, as in the authors' program."""

    @jax.jit
    def act(
        params: Params, stats: normalize.RunningStats, obs: Float[Array, "E O"], noise: Float[Array, "E A"]
    ) -> tuple[normalize.RunningStats, Float[Array, "E O"], Array]:
        stats = normalize.observe(stats, obs)
        obs = normalize.apply(stats, obs)
        return stats, obs, policy.distribution(network, params, obs).sample(noise)

    return act


_noise = jax.jit(policy.noise, static_argnames=("spec", "shape"))


class Collector:
    """Collects batches into buffers that it reuses."""

    def __init__(self, env: VectorEnv, network: Network, steps: int, fresh_episodes: bool):
        spec, num = env.spec, env.num_envs
        self.env = env
        self.fresh_episodes = fresh_episodes
        self.episodes = EpisodeStatistics(spec, num)
        self._act = actor(network)
        self._noise = functools.partial(_noise, spec=spec, shape=(steps, num))
        shape = (steps, num)
        self.collected = 0
        """Steps of `batch` that belong to the batch being collected, or collected last."""
        numbers: dict[str, Any] = dict(
            obs=np.zeros((*shape, spec.obs_size), np.float32),
            raw_obs=np.zeros((*shape, spec.obs_size), np.float32),
            action=np.zeros(shape, np.int32) if spec.discrete else np.zeros((*shape, spec.action_size), np.float32),
            reward=np.zeros(shape, np.float32),
            cost=np.zeros((*shape, len(spec.constraints)), np.float32),
            terminated=np.zeros(shape, bool),
            truncated=np.zeros(shape, bool),
            cut=np.zeros(shape, bool),
            next_obs=np.zeros((*shape, spec.obs_size), np.float32),
            age=np.zeros(shape, np.int32),
            stats=normalize.init(spec.obs_size),
            progress=np.float32(0),
        )
        self.batch = Rollout(**numbers)

    def collect(self, key: Key[Array, ""], params: Params, stats: normalize.RunningStats, progress: float) -> Rollout:
        """One batch, its `next_obs` raw, for `normalised`."""
        env, buffer, noise = self.env, self.batch, np.asarray(self._noise(key))
        self.collected = 0
        if self.fresh_episodes:
            env.restart()
            self.episodes.restart()
        for t in range(len(noise)):
            buffer.age[t], buffer.raw_obs[t] = env.age, env.obs
            stats, buffer.obs[t], action = self._act(params, stats, env.obs, noise[t])
            buffer.action[t] = action = np.asarray(action)
            step = env.step(action)
            buffer.reward[t], buffer.cost[t] = step.reward, step.cost
            buffer.terminated[t], buffer.truncated[t] = step.terminated, step.truncated
            buffer.cut[t], buffer.next_obs[t] = step.cut, step.next_obs
            self.collected = t + 1
        self.episodes.add(buffer)
        return buffer._replace(stats=stats, progress=np.float32(progress))


def normalised(rollout: Rollout) -> Rollout:
    """Raw `next_obs` normalised: as seen one step later, or by `stats` where the episode or the batch ends there.

    J_C sums γ·V(next_obs) − V(obs of the next step), which must vanish for one and the same state. Normalised at two
    moments it does not, and the remainders add up over an episode to a false cost, where V is large beside J_C."""
    last = normalize.apply(rollout.stats, jnp.asarray(rollout.next_obs))
    later = jnp.concatenate([jnp.asarray(rollout.obs)[1:], last[-1:]])
    ended = rollout.terminated | rollout.truncated
    return rollout._replace(next_obs=jnp.where(ended[..., None], last, later))


class EpisodeStatistics:
    """Return, length and costs of the latest whole episodes: those that their environment ended."""

    def __init__(self, spec: Spec, num_envs: int):
        self._discounts = np.array([c.discount for c in spec.constraints])
        m = len(spec.constraints)
        self._running = np.zeros((num_envs, 1 + 2 * m))
        """Partial sums of each environment's current episode: reward, m discounted costs, m undiscounted costs."""
        self.recent: deque[np.ndarray] = deque(maxlen=RECENT)
        """(length, reward, m discounted costs, m undiscounted costs) of each."""
        self.finished = 0

    def restart(self, which: np.ndarray | slice = slice(None)) -> None:
        """Note that those environments start a new episode."""
        self._running[which] = 0

    def add(self, rollout: Rollout) -> None:
        """Add a batch [T, E]."""
        discounted = self._discounts ** rollout.age[..., None] * rollout.cost
        paid = np.concatenate([rollout.reward[..., None], discounted, rollout.cost], -1, dtype=np.float64)
        total = self._running + np.cumsum(paid, 0)
        before = np.zeros_like(self._running)
        for t, e in np.argwhere(rollout.terminated | rollout.truncated):
            if not rollout.cut[t, e]:
                self.recent.append(np.concatenate([[rollout.age[t, e] + 1], total[t, e] - before[e]]))
                self.finished += 1
            before[e] = total[t, e]
        self._running = total[-1] - before

    def means(self) -> np.ndarray | None:
        """Mean length, reward, discounted and undiscounted costs over the latest episodes; None before the first."""
        return np.mean(self.recent, 0) if self.recent else None

    def state(self) -> dict[str, np.ndarray]:
        width = self._running.shape[1] + 1
        recent = np.array(self.recent).reshape(-1, width)
        return {"running": self._running.copy(), "recent": recent, "finished": np.array(self.finished)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._running = state["running"].copy()
        self.recent = deque(state["recent"], maxlen=RECENT)
        self.finished = int(state["finished"])
