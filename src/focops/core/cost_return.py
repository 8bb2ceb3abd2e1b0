"""J_C: what an episode of the current policy costs, estimated afresh from every batch, whatever episodes do in it.

For any function V (here the cost critic) and any episode of length L, telescoping gives

    Σ_{t<L} γ^t c_t  =  V(s_0) + Σ_{t<L} γ^t δ_t,      δ_t = c_t + γ V(s_{t+1})·[t+1 < L] − V(s_t),

and so, with S(t) = P(L > t) the probability that an episode is still running at age t,

    J_C  =  E[V(s_0)]  +  Σ_t γ^t S(t) E[δ_t | running at age t].

Each factor is a mean over samples *of one age*, so the estimate needs no episode to end, and no balance between young
and old episodes in the batch. V only moves variance from the sum into E[V(s_0)]: where every age is seen the estimate
is unbiased for any V; at ages not seen yet (no episode has got there) δ counts as 0, so the critic stands in. That is
the only bootstrap.

  E[V(s_0)]        mean over the last 128 start states, which no policy influences
  E[δ_t | age]     mean per bin of age; bins are one step wide at first, then about a twelfth of the age
  S(t)             life table: the share of episodes that truly end (`terminated`) per step lived in each bin; a known
                   time limit ends the sum exactly there. A truncation before it is censoring: that episode says
                   nothing about later ages, others do.
  memory           sums of earlier batches fade to a tenth per batch; a bin without new samples keeps its last mean for
                   about ten batches, then goes back to 0 (the critic), as at ages never seen

With γ = 1 there is no V (it would be the sum of an endless future): the plain mean of costs per age, up to the limit,
and no forgetting.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from focops.core.types import Rollout

NUM_STARTS = 128
MEMORY = 0.1
FORGET = 1e-10
"""A bin whose samples have faded to this share of one has forgotten half its mean."""
_OLDEST = 2**24


def _edges() -> np.ndarray:
    edges, age = [0], 0
    while age < _OLDEST:
        age += max(1, age // 12)
        edges.append(age)
    return np.array(edges, np.int32)


EDGES = _edges()
_BINS = len(EDGES) - 1


class State(NamedTuple):
    """Fading sums per bin of age, and the latest start states."""

    delta: Float[Array, "m K"]
    """Σ γ^t δ_t"""
    weight: Float[Array, "m K"]
    """Σ γ^t"""
    ends: Float[Array, "K"]
    steps: Float[Array, "K"]
    starts: Float[Array, "S O"]
    num_starts: Int[Array, ""]
    """Starts ever seen; the next goes to row num_starts mod S."""
    time_limit: Float[Array, ""]
    """∞ when there is none."""


def init(num_constraints: int, obs_size: int, time_limit: int | None) -> State:
    return State(
        delta=jnp.zeros((num_constraints, _BINS)),
        weight=jnp.zeros((num_constraints, _BINS)),
        ends=jnp.zeros(_BINS),
        steps=jnp.zeros(_BINS),
        starts=jnp.zeros((NUM_STARTS, obs_size)),
        num_starts=jnp.int32(0),
        time_limit=jnp.float32(jnp.inf if time_limit is None else time_limit),
    )


def remember_starts(state: State, rollout: Rollout) -> State:
    """Put the batch's start states into the ring of the latest ones."""
    is_start = (rollout.age == 0).reshape(-1)
    order = jnp.cumsum(is_start)
    recent = is_start & (order[-1] - order < NUM_STARTS)
    row = jnp.where(recent, (state.num_starts + order - 1) % NUM_STARTS, NUM_STARTS)
    obs = rollout.obs.reshape(is_start.shape[0], -1)
    return state._replace(
        starts=state.starts.at[row].set(obs, mode="drop"), num_starts=state.num_starts + order[-1].astype(jnp.int32)
    )


def estimate(
    state: State,
    rollout: Rollout,
    value: Float[Array, "m T E"],
    next_value: Float[Array, "m T E"],
    start_value: Float[Array, "m S"],
    discount: Float[Array, "m"],
) -> tuple[State, Float[Array, "m"]]:
    """J_C of the policy that made the batch; `value`s are V_C at obs, next_obs and `state.starts` before the update."""
    reached_limit = rollout.truncated & (rollout.age + 1 >= state.time_limit)
    over = rollout.terminated | reached_limit
    bin_of = jnp.searchsorted(EDGES, rollout.age.reshape(-1), side="right") - 1
    per_bin = lambda x: jax.ops.segment_sum(x.reshape(-1).astype(jnp.float32), bin_of, _BINS)

    def one_delta(cost, value, next_value, discount):
        trust = discount < 1
        bootstrap = jnp.where(trust & ~over, discount * next_value, 0.0)
        delta = cost + bootstrap - jnp.where(trust, value, 0.0)
        weight = discount ** rollout.age.astype(jnp.float32)
        return per_bin(weight * delta), per_bin(weight)

    delta, weight = jax.vmap(one_delta)(jnp.moveaxis(rollout.cost, -1, 0), value, next_value, discount)
    state = state._replace(
        delta=MEMORY * state.delta + delta,
        weight=MEMORY * state.weight + weight,
        ends=MEMORY * state.ends + per_bin(rollout.terminated),
        steps=MEMORY * state.steps + per_bin(jnp.ones_like(rollout.reward)),
    )
    seen = jnp.arange(NUM_STARTS) < state.num_starts
    start = jnp.sum(start_value * seen, -1) / jnp.maximum(jnp.sum(seen), 1)
    doubt = jnp.where(discount < 1, FORGET, 0.0)[:, None] * discount[:, None] ** jnp.asarray(EDGES[:-1], jnp.float32)
    correction = jnp.sum(life_table(state, discount) * _ratio(state.delta, state.weight + doubt), -1)
    return state, jnp.where(discount < 1, start, 0.0) + correction


def life_table(state: State, discount: Float[Array, "m"]) -> Float[Array, "m K"]:
    """Σ_t γ^t S(t) over each bin of age, with a constant rate of ending within a bin."""
    first = jnp.asarray(EDGES[:-1], jnp.float32)
    width = jnp.clip(jnp.asarray(EDGES[1:], jnp.float32), 0, state.time_limit) - jnp.minimum(first, state.time_limit)
    survive = 1 - _ratio(state.ends, state.steps)
    survive_bin = survive**width
    reach = jnp.concatenate([jnp.ones(1), jnp.cumprod(survive_bin)[:-1]])

    def one(discount):
        keep = discount * survive
        # Σ_{j<width} keep^j, whose closed form is 0/0 at keep = 1
        total = jnp.where(keep < 1, (1 - keep**width) / jnp.where(keep < 1, 1 - keep, 1.0), width)
        return reach * discount**first * total

    return jax.vmap(one)(discount)


def discounted_length(state: State, discount: Float[Array, "m"]) -> Float[Array, "m"]:
    """E[Σ_t γ^t] over an episode: between 1 and 1/(1 − γ); the mean length at γ = 1."""
    return jnp.sum(life_table(state, discount), -1)


def of_finished_episodes(
    rollout: Rollout, discount: Float[Array, "m"], time_limit: Float[Array, ""]
) -> tuple[Float[Array, "m"], Int[Array, ""]]:
    """The paper's estimate: mean discounted cost of the episodes that started *and* ended inside the batch (and 0 where
    none did), and their number."""
    steps = jnp.arange(rollout.age.shape[0])[:, None]
    ended = rollout.terminated | rollout.truncated
    whole = rollout.terminated | (rollout.truncated & ((rollout.age + 1 >= time_limit) | jnp.isinf(time_limit)))
    counts = whole & (rollout.age <= steps)

    def backwards(finishes: Bool[Array, "E"], step):
        ended, counts = step
        finishes = jnp.where(ended, counts, finishes)
        return finishes, finishes

    _, finishes = jax.lax.scan(backwards, jnp.zeros_like(counts[0]), (ended, counts), reverse=True)
    number = jnp.sum(counts)
    paid = discount ** rollout.age[..., None].astype(jnp.float32) * rollout.cost
    total = jnp.sum(jnp.where(finishes[..., None], paid, 0.0), (0, 1))
    return total / jnp.maximum(number, 1), number


def _ratio(numerator: Float[Array, "*n"], denominator: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """numerator / denominator, 0 where there is nothing."""
    return jnp.where(denominator > 0, numerator / jnp.where(denominator > 0, denominator, 1.0), 0.0)
