"""Statistics of one run's episodes, as pure functions."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from focops.core.cost_return import episode_over
from focops.core.types import Trajectories

RECENT = 100
"""K: number of latest episodes that the reported means are over, as in the paper."""


class EpisodeStatistics(NamedTuple):
    """Partial sums of the running episodes, and the latest whole ones: those that their environment ended. w = 1 + 2m,
    v = w + 1."""

    running: Float[Array, "E w"]
    """reward, m discounted costs, m undiscounted costs"""
    recent: Float[Array, "K v"]
    """length, then as `running`; the next goes to row finished mod K."""
    finished: Int[Array, ""]
    """Whole episodes so far."""


def init(num_envs: int, num_constraints: int) -> EpisodeStatistics:
    """The statistics before the first step of `num_envs` environments."""
    width = 1 + 2 * num_constraints
    return EpisodeStatistics(jnp.zeros((num_envs, width)), jnp.zeros((RECENT, width + 1)), jnp.int32(0))


def restart(episodes: EpisodeStatistics) -> EpisodeStatistics:
    """Every environment starts a new episode; those that are cut are not counted."""
    return episodes._replace(running=jnp.zeros_like(episodes.running))


def count(episodes: EpisodeStatistics, trajectories: Trajectories, discount: Float[Array, "m"]) -> EpisodeStatistics:
    """Add a batch."""
    age, ended = trajectories.age, trajectories.terminated | trajectories.truncated
    discounted = discount ** age[..., None].astype(jnp.float32) * trajectories.cost
    paid = jnp.concatenate([trajectories.reward[..., None], discounted, trajectories.cost], -1)

    def step(running: Float[Array, "E w"], now: tuple[Float[Array, "E w"], Bool[Array, "E"]]):
        paid, ended = now
        total = running + paid
        return jnp.where(ended[:, None], 0.0, total), total

    running, total = jax.lax.scan(step, episodes.running, (paid, ended))
    whole = episode_over(trajectories).reshape(-1)
    order = jnp.cumsum(whole)
    latest = whole & (order[-1] - order < RECENT)
    row = jnp.where(latest, (episodes.finished + order - 1) % RECENT, RECENT)
    lengths = (age + 1).reshape(-1, 1).astype(jnp.float32)
    recent = jnp.concatenate([lengths, total.reshape(len(row), -1)], -1)
    return EpisodeStatistics(
        running,
        episodes.recent.at[row].set(recent, mode="drop"),
        episodes.finished + order[-1].astype(jnp.int32),
    )


def means(episodes: EpisodeStatistics) -> Float[Array, "v"]:
    """Mean length, reward, discounted and undiscounted costs over the latest whole episodes; 0 before the first."""
    number = jnp.minimum(episodes.finished, RECENT)
    counted = (jnp.arange(RECENT) < number)[:, None]
    return jnp.sum(episodes.recent * counted, 0) / jnp.maximum(number, 1)


def cost_deviation(episodes: EpisodeStatistics) -> Float[Array, "m"]:
    """Standard deviation of an episode's discounted costs, over the latest whole episodes; 0 before the first."""
    number = jnp.minimum(episodes.finished, RECENT)
    counted = (jnp.arange(RECENT) < number)[:, None]
    costs = episodes.recent[:, 2 : 2 + (episodes.recent.shape[1] - 2) // 2]
    squares = jnp.sum(counted * (costs - jnp.sum(counted * costs, 0) / jnp.maximum(number, 1)) ** 2, 0)
    return jnp.sqrt(squares / jnp.maximum(number, 1))
