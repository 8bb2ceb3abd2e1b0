"""The tail of episodes' costs: what CVaR needs where episodes are longer than a batch.

For an episode with discounted cost J = Σ γ^t c_t, let P_t be what it has paid before step t. In expectation it will
cost P_t + γ^t V_C(s_t) in all, so

    W_t = (P_t + γ^t V_C(s_t) − v)₊        stands for        E[(J − v)₊ | s_t, P_t, t],

the value function of the state augmented by what has been paid; exact where the rest of the episode is certain.
Its differences along an episode are γ^t·δ_t, the cost critic's own, where P_t + γ^t V_C(s_t) ≥ v, and 0 elsewhere: the
advantage of the tail is the cost's advantage, in the episodes that are bound for the tail.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from focops.core.cost_return import episode_over
from focops.core.types import Rollout

_MAX_ENVS = 4096
NUM_EPISODES = 128


class Memory(NamedTuple):
    """The costs so far of the running episodes, and the total costs of the latest whole ones."""

    paid: Float[Array, "R m"]
    """By environment; rows beyond their number are not used."""
    episodes: Float[Array, "K m"]
    num_episodes: Int[Array, ""]
    """Whole episodes ever seen; the next goes to row num_episodes mod K."""


def init(num_constraints: int) -> Memory:
    return Memory(jnp.zeros((_MAX_ENVS, num_constraints)), jnp.zeros((NUM_EPISODES, num_constraints)), jnp.int32(0))


def pay(memory: Memory, rollout: Rollout, discount: Float[Array, "m"]) -> tuple[Memory, Float[Array, "T E m"]]:
    """P_t of every sample; whole episodes enter the memory."""
    envs = rollout.age.shape[1]
    if envs > _MAX_ENVS:
        raise ValueError(f"{envs} environments: episodes' costs are kept for at most {_MAX_ENVS}")
    paying = discount ** rollout.age[..., None].astype(jnp.float32) * rollout.cost

    def forwards(paid, step):
        age, paying = step
        before = jnp.where((age == 0)[:, None], 0.0, paid)
        return before + paying, before

    paid, before = jax.lax.scan(forwards, memory.paid[:envs], (rollout.age, paying))
    whole = episode_over(rollout).reshape(-1)
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


class Risk(NamedTuple):
    """Of the latest whole episodes' costs; zeros before the first."""

    mean: Float[Array, "m"]
    value: Float[Array, "m"]
    """Value-at-risk: the level's quantile."""
    beyond: Float[Array, "m"]
    """Conditional value-at-risk, VaR + E[(J − VaR)₊]/(1 − level): the mean of the worst 1 − level of episodes."""


def risk(memory: Memory, level: Float[Array, ""] | float) -> Risk:
    number = jnp.minimum(memory.num_episodes, NUM_EPISODES)
    seen = (jnp.arange(NUM_EPISODES) < number)[:, None]
    mean = lambda x: jnp.sum(jnp.where(seen, x, 0.0), 0) / jnp.maximum(number, 1)
    at = jnp.clip(jnp.ceil(level * number).astype(jnp.int32) - 1, 0, NUM_EPISODES - 1)
    quantile = jnp.where(number > 0, jnp.sort(jnp.where(seen, memory.episodes, jnp.inf), 0)[at], 0.0)
    excess = mean(jnp.maximum(memory.episodes - quantile, 0.0))
    return Risk(mean(memory.episodes), quantile, quantile + excess / (1 - level))


def bound_for(
    paid: Float[Array, "T E m"],
    value: Float[Array, "m T E"],
    age: Int[Array, "T E"],
    discount: Float[Array, "m"],
    threshold: Float[Array, "m"],
) -> Bool[Array, "T E m"]:
    """Whether P_t + γ^t V_C(s_t) ≥ v."""
    to_come = discount ** age[..., None].astype(jnp.float32) * jnp.moveaxis(value, 0, -1)
    return paid + to_come >= threshold
