"""Costs beyond a threshold, step by step: what CVaR needs to know of episodes that are longer than a batch.

For an episode with discounted cost J = Σ γ^t c_t, let P_t be what it has paid before step t. Counting of each c_t only
the share by which it carries P beyond v ≥ 0,

    c'_t = c_t · |[P_t, P_t + γ^t c_t] ∩ [v, ∞)| / |γ^t c_t|,     telescopes to     Σ γ^t c'_t = (J − v)₊,

so the tail is an ordinary discounted cost, with advantages and a J of its own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from focops.core.types import Rollout

MAX_ENVS = 4096
NUM_EPISODES = 128


class Memory(NamedTuple):
    """What running episodes have paid, and what the latest whole ones cost."""

    paid: Float[Array, "R m"]
    """By environment; rows beyond their number are not used."""
    episodes: Float[Array, "K m"]
    num_episodes: Int[Array, ""]
    """Whole episodes ever seen; the next goes to row num_episodes mod K."""


def init(num_constraints: int) -> Memory:
    return Memory(jnp.zeros((MAX_ENVS, num_constraints)), jnp.zeros((NUM_EPISODES, num_constraints)), jnp.int32(0))


def pay(
    memory: Memory, rollout: Rollout, discount: Float[Array, "m"], time_limit: Float[Array, ""]
) -> tuple[Memory, Float[Array, "T E m"]]:
    """P_t of every sample; episodes that truly ended or reached their time limit enter the memory."""
    envs = rollout.age.shape[1]
    if envs > MAX_ENVS:
        raise ValueError(f"{envs} environments: episodes' costs are kept for at most {MAX_ENVS}")
    paying = discount ** rollout.age[..., None].astype(jnp.float32) * rollout.cost

    def forwards(paid, step):
        age, paying = step
        before = jnp.where((age == 0)[:, None], 0.0, paid)
        return before + paying, before

    paid, before = jax.lax.scan(forwards, memory.paid[:envs], (rollout.age, paying))
    at_limit = (rollout.age + 1 >= time_limit) | jnp.isinf(time_limit)
    whole = (rollout.terminated | (rollout.truncated & at_limit)).reshape(-1)
    episodes, number = _remember(memory, whole, (before + paying).reshape(whole.shape[0], -1))
    return Memory(memory.paid.at[:envs].set(paid), episodes, number), before


def _remember(
    memory: Memory, whole: Bool[Array, "N"], total: Float[Array, "N m"]
) -> tuple[Float[Array, "K m"], Int[Array, ""]]:
    order = jnp.cumsum(whole)
    recent = whole & (order[-1] - order < NUM_EPISODES)
    row = jnp.where(recent, (memory.num_episodes + order - 1) % NUM_EPISODES, NUM_EPISODES)
    episodes = memory.episodes.at[row].set(total, mode="drop")
    return episodes, memory.num_episodes + order[-1].astype(jnp.int32)


def value_at_risk(memory: Memory, level: Float[Array, ""] | float, highest: Float[Array, "m"]) -> Float[Array, "m"]:
    """The level's quantile of the latest episodes' costs, in [0, highest]; `highest` before any has ended."""
    seen = jnp.minimum(memory.num_episodes, NUM_EPISODES)
    rows = jnp.where((jnp.arange(NUM_EPISODES) < seen)[:, None], memory.episodes, jnp.inf)
    at = jnp.clip(jnp.ceil(level * seen).astype(jnp.int32) - 1, 0, NUM_EPISODES - 1)
    return jnp.clip(jnp.sort(rows, 0)[at], 0.0, highest)


def beyond(
    cost: Float[Array, "T E m"],
    before: Float[Array, "T E m"],
    age: Int[Array, "T E"],
    discount: Float[Array, "m"],
    threshold: Float[Array, "m"],
) -> Float[Array, "T E m"]:
    """c'_t of every sample."""
    paying = discount ** age[..., None].astype(jnp.float32) * cost
    top = jnp.maximum(before, before + paying)
    # an age so old that its discount is nothing pays nothing: then only whether P is beyond v counts
    return cost * jnp.clip((top - threshold) / jnp.maximum(jnp.abs(paying), 1e-30), 0.0, 1.0)
