"""A run's episode statistics on the device, as pure functions; `EpisodeStatistics` is their counterpart on the host."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from focops.core.types import Rollout
from focops.training.collect import RECENT


class EpisodeSums(NamedTuple):
    """One run's episodes: partial sums of the running ones, and the latest whole ones. w = 1 + 2m, v = w + 1."""

    running: Float[Array, "E w"]
    """reward, m discounted costs, m undiscounted costs"""
    recent: Float[Array, "K v"]
    """length, then as `running`; the next goes to row finished mod K."""
    finished: Int[Array, ""]


def blank(num_envs: int, constraints: int) -> EpisodeSums:
    """The statistics before the first step of `num_envs` environments."""
    width = 1 + 2 * constraints
    return EpisodeSums(jnp.zeros((num_envs, width)), jnp.zeros((RECENT, width + 1)), jnp.int32(0))


def enter(book: EpisodeSums, rollout: Rollout, discount: Float[Array, "m"]) -> EpisodeSums:
    """Add one run's batch [T, E], as `EpisodeStatistics.add` does."""
    steps = jnp.arange(rollout.age.shape[0])[:, None]
    ended = rollout.terminated | rollout.truncated
    length = rollout.age + 1
    whole = ended & ~rollout.cut
    discounted = discount ** rollout.age[..., None].astype(jnp.float32) * rollout.cost
    paid = jnp.concatenate([rollout.reward[..., None], discounted, rollout.cost], -1)
    total = book.running + jnp.cumsum(paid, 0)
    # the total at the end of the previous episode, which is not part of this one
    last_end = jax.lax.cummax(jnp.where(ended, steps, -1), axis=0)
    before_this = jnp.concatenate([jnp.full_like(last_end[:1], -1), last_end[:-1]])
    at = lambda when: jnp.where(
        (when >= 0)[..., None], jnp.take_along_axis(total, jnp.maximum(when, 0)[..., None], 0), 0.0
    )
    episodes = jnp.concatenate([length[..., None].astype(jnp.float32), total - at(before_this)], -1)
    order = jnp.cumsum(whole.reshape(-1))
    latest = whole.reshape(-1) & (order[-1] - order < RECENT)
    row = jnp.where(latest, (book.finished + order - 1) % RECENT, RECENT)
    recent = book.recent.at[row].set(episodes.reshape(len(row), -1), mode="drop")
    return EpisodeSums(total[-1] - at(last_end)[-1], recent, book.finished + order[-1].astype(jnp.int32))


def means(book: EpisodeSums) -> Float[Array, "v"]:
    """Means over the latest whole episodes; 0 before the first."""
    number = jnp.clip(book.finished, 0, RECENT)
    return jnp.sum(book.recent * (jnp.arange(RECENT) < number)[:, None], 0) / jnp.maximum(number, 1)
