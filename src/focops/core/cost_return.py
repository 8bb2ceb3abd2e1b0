"""J_C, the expected cost of an episode of the current policy, from every batch, whether or not episodes end in it.

For any function V (here the cost critic) and any episode of length L, telescoping gives

    Σ_{t<L} γ^t c_t  =  V(s_0) + Σ_{t<L} γ^t δ_t,      δ_t = c_t + γ V(s_{t+1})·[t+1 < L] − V(s_t),

and so, with S(t) = P(L > t) the probability that an episode is still running at age t,

    J_C  =  E[V(s_0)]  +  Σ_t γ^t S(t) E[δ_t | running at age t].

Each factor is a mean over samples *of one age*, so the estimate needs no episode to end, and no balance between young
and old episodes in the batch. V moves variance from the sum into E[V(s_0)]. At ages that no episode has reached yet
δ counts as 0: there the critic stands in, and there alone it biases the estimate.

  E[V(s_0)]        mean over the last 512 start states, normalised as of today
  E[δ_t | age]     mean per bin of age; bins are one step wide at first, then about a twelfth of the age
  S(t)             product limit (Kaplan and Meier 1958), age by age: Π_{a<t} (1 − ends_a / (passes_a − ¾))
  an end           `terminated`, or a truncation by the environment itself, at whatever age. A `cut` of ours
                   (staggering, a simulation gone wrong) says nothing about later ages
  memory           counted in passes of an age, not in batches: E[δ | age] remembers about one pass, S about 64
                   survivors. An age without new samples keeps what it has, δ for two
                   episodes and ten batches, then it is 0 again

With γ = 1 there is no V (it would be the sum of an endless future): the plain mean of costs per age.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from focops.core.types import Rollout, Trajectories

NUM_STARTS = 512
_DELTA_MEMORY = 1.0
"""Passes of an age after which its mean of δ has faded to 1/e. More would be less noise and more lag, and lag is what
makes a multiplier swing."""
_END_MEMORY = 64.0
"""Survivors of an age after which its share of ends has faded to 1/e: the bias is about one in so many. Lag is less of
a concern here, for S weighs only what the critic gets wrong."""
_FORGET = 10
"""Batches, beside two whole episodes, after which the δ of an age that is not seen any more is forgotten: it is of
older critics, and the age may never come again (endless episodes)."""
_RATIO_BIAS = 0.75
"""Passes that are left out of an age's number when the share of those that end is taken. An episode that goes on keeps
its environment from passing the age again, which makes that share too small by up to one pass in all (inverse sampling;
Haldane 1945), and by none if passes are many in every batch."""
_ENDS_COUNT = 1 / 16
"""Weight in _END_MEMORY of a pass that ends, relative to a survivor: an age that none survives must forget, too."""
_EXACT_AGES = 4096
"""Ages whose ends are counted one by one; older ones share bins."""
_OLDEST = 2**24
_VARIANCE_PACE = 0.1
"""Weight of the latest change in the mean of squared changes."""


def _edges() -> np.ndarray:
    edges, age = [0], 0
    while age < _OLDEST:
        age += max(1, age // 12)
        edges.append(age)
    return np.array(edges, np.int32)


_BINS = _edges()
"""Edges of the bins of δ."""
_AGES = np.union1d(np.arange(_EXACT_AGES, dtype=np.int32), _BINS)
"""Edges of the bins of ends."""
_BIN_OF_AGES = np.searchsorted(_BINS, _AGES[:-1], side="right") - 1
"""The bin of δ that each bin of ends is in."""


class State(NamedTuple):
    """Fading sums per bin of age, and the latest start states."""

    delta: Float[Array, "m B"]
    """Σ γ^t δ_t"""
    weight: Float[Array, "m B"]
    """Σ γ^t"""
    unseen: Float[Array, "B"]
    """Batches since the bin's last sample."""
    ends: Float[Array, "K"]
    passes: Float[Array, "K"]
    starts: Float[Array, "S O"]
    """Not normalised."""
    num_starts: Int[Array, ""]
    """Starts ever seen; the next goes to row num_starts mod S."""
    time_limit: Float[Array, ""]
    """∞ when there is none. No episode is longer, whether or not one has been seen to end there."""
    start: Float[Array, "m"]
    """E[V(s_0)], with the memory of δ."""
    last: Float[Array, "m"]
    """The latest estimate."""
    variance: Float[Array, "m"]
    """Of what a single batch says."""
    share: Float[Array, "m"]
    """Of the latest batch in the estimate."""


def init(num_constraints: int, obs_size: int, time_limit: int | None) -> State:
    return State(
        delta=jnp.zeros((num_constraints, len(_BINS) - 1)),
        weight=jnp.zeros((num_constraints, len(_BINS) - 1)),
        unseen=jnp.zeros(len(_BINS) - 1),
        ends=jnp.zeros(len(_AGES) - 1),
        passes=jnp.zeros(len(_AGES) - 1),
        starts=jnp.zeros((NUM_STARTS, obs_size)),
        num_starts=jnp.int32(0),
        time_limit=jnp.float32(jnp.inf if time_limit is None else time_limit),
        start=jnp.zeros(num_constraints),
        last=jnp.zeros(num_constraints),
        variance=jnp.zeros(num_constraints),
        share=jnp.ones(num_constraints),
    )


def remember_starts(state: State, rollout: Rollout) -> State:
    """Put the batch's start states into the ring of the latest ones."""
    order, latest = _latest_starts(rollout)
    row = jnp.where(latest, (state.num_starts + order - 1) % NUM_STARTS, NUM_STARTS)
    obs = rollout.raw_obs.reshape(row.shape[0], -1)
    return state._replace(
        starts=state.starts.at[row].set(obs, mode="drop"), num_starts=state.num_starts + order[-1].astype(jnp.int32)
    )


def _latest_starts(rollout: Rollout) -> tuple[Int[Array, "N"], Bool[Array, "N"]]:
    """Starts up to each sample, and whether it is one of those that the ring has room for."""
    is_start = (rollout.age == 0).reshape(-1)
    order = jnp.cumsum(is_start)
    return order, is_start & (order[-1] - order < NUM_STARTS)


def estimate(
    state: State,
    rollout: Rollout,
    value: Float[Array, "m T E"],
    next_value: Float[Array, "m T E"],
    start_value: Float[Array, "m S"],
    discount: Float[Array, "m"],
    longer: Float[Array, ""] | float = 1.0,
) -> tuple[State, Float[Array, "m"]]:
    """J_C of the policy that made the batch; `value`s are V_C at obs, next_obs and the start states before the
    update. With `longer` above 1 it is that of the last policies: about as many batches are remembered, where an age is
    seen in every batch, or as many passes of it."""
    over = episode_over(rollout)
    age = rollout.age.reshape(-1)
    bin_of, age_of = (jnp.searchsorted(edges, age, side="right") - 1 for edges in (_BINS, _AGES))
    total = lambda x, of, edges: jax.ops.segment_sum(x.reshape(-1).astype(jnp.float32), of, len(edges) - 1)
    per_age = lambda x: total(x, age_of, _AGES)
    per_bin = lambda x: total(x, bin_of, _BINS)

    def one_delta(cost, value, next_value, discount):
        trust = discount < 1
        bootstrap = jnp.where(trust & ~over, discount * next_value, 0.0)
        delta = cost + bootstrap - jnp.where(trust, value, 0.0)
        weight = discount ** rollout.age.astype(jnp.float32)
        return per_bin(weight * delta), per_bin(weight)

    delta, weight = jax.vmap(one_delta)(jnp.moveaxis(rollout.cost, -1, 0), value, next_value, discount)
    samples = jnp.ones_like(rollout.reward)
    # an end at the time limit is not random: `_life_table` adds it
    passes, ends = per_age(samples), per_age(over & (rollout.age + 1 < state.time_limit))
    in_bin = per_bin(samples)
    seen = in_bin / np.diff(_BINS) / _DELTA_MEMORY
    keep_delta = jnp.exp(-seen / (1 + (longer - 1) * jnp.maximum(seen, 1)))
    keep_ends = jnp.exp(-(passes - (1 - _ENDS_COUNT) * ends) / np.diff(_AGES) / _END_MEMORY)
    before = state
    state = state._replace(
        delta=keep_delta * state.delta + delta,
        weight=keep_delta * state.weight + weight,
        unseen=jnp.where(in_bin > 0, 0.0, state.unseen + 1),
        ends=keep_ends * state.ends + ends,
        passes=keep_ends * state.passes + passes,
    )
    share = weight.sum(-1) / jnp.maximum(state.weight.sum(-1), 1e-9)
    # an old δ goes with the V(s_0) of its own critic: where δ is remembered for long, so is V(s_0)
    start = _mean_start_value(state, rollout, value, start_value)
    start = before.start + jnp.where(longer > 1, share, 1.0) * (start - before.start)
    episode = jnp.where(jnp.isinf(state.time_limit), 0.0, state.time_limit / rollout.age.shape[0])
    known = (state.unseen <= _FORGET + 2 * episode) | (discount == 1)[:, None]
    delta = jnp.where(known, _ratio(state.delta, state.weight), 0.0)
    correction = jnp.sum(_life_table(state, discount) * delta, -1)
    found = jnp.where(discount < 1, start, 0.0) + correction
    return state._replace(start=start, last=found, variance=_variance(before, found, share), share=share), found


def _variance(before: State, found: Float[Array, "m"], share: Float[Array, "m"]) -> Float[Array, "m"]:
    """From how much the estimate j changes between batches: if what batch k says, x_k, has the share a in it,
    j_k = j_{k-1} + a·(x_k − j_{k-1}), then E[(j_k − j_{k-1})²] = Var x · 2a² / (2 − a). A policy that moves adds to the
    change, so this is rather too much."""
    share = jnp.maximum(share, 1e-9)
    change = (found - before.last) ** 2 * (2 - share) / (2 * share**2)
    known = jnp.sum(before.weight, -1) > 0
    return jnp.where(known, before.variance + _VARIANCE_PACE * (change - before.variance), 0.0)


def standard_error(state: State, longer: Float[Array, ""] | float = 1.0) -> Float[Array, "m"]:
    """Of an estimate that remembers `longer` times as long as the latest one did: of x with share a in it,
    √(Var x · a / (2 − a))."""
    # by rounding the share can be above 1, and no power of a negative rest is a number
    share = 1 - jnp.maximum(1 - state.share, 0.0) ** (1 / longer)
    return jnp.sqrt(state.variance * share / (2 - share))


def _mean_start_value(
    state: State, rollout: Rollout, value: Float[Array, "m T E"], start_value: Float[Array, "m S"]
) -> Float[Array, "m"]:
    """E[V(s_0)] over the ring. The −V(s_0) inside the batch's δ is of starts normalised as they were seen; by how much
    that differs from now is added, so that the two cancel."""
    order, latest = _latest_starts(rollout)
    row, number = jnp.arange(NUM_STARTS), jnp.minimum(order[-1], NUM_STARTS)
    mean = lambda x, chosen: jnp.sum(x * chosen, -1) / jnp.maximum(jnp.sum(chosen), 1)
    new = (row - state.num_starts + number) % NUM_STARTS < number
    as_seen = mean(value.reshape(value.shape[0], latest.size), latest)
    return mean(start_value, row < state.num_starts) + as_seen - mean(start_value, new)


def episode_over(rollout: Rollout | Trajectories) -> Bool[Array, "T E"]:
    """Whether the sample is the last of a whole episode: ended by its environment, not cut by us."""
    return rollout.terminated | (rollout.truncated & ~rollout.cut)


def _life_table(state: State, discount: Float[Array, "m"]) -> Float[Array, "m B"]:
    """Σ_t γ^t S(t) over each bin of δ. `_AGES` wider than one step have a constant chance of ending per step."""
    first = jnp.asarray(_AGES[:-1], jnp.float32)
    width = jnp.clip(jnp.asarray(_AGES[1:], jnp.float32), 0, state.time_limit) - jnp.minimum(first, state.time_limit)
    survive = 1 - _ratio(state.ends, jnp.maximum(state.passes - _RATIO_BIAS, state.ends))
    reach = jnp.concatenate([jnp.ones(1), jnp.cumprod(survive**width)[:-1]])

    def one(discount):
        keep = discount * survive
        # Σ_{j<width} keep^j, whose closed form is 0/0 at keep = 1
        total = jnp.where(keep < 1, (1 - keep**width) / jnp.where(keep < 1, 1 - keep, 1.0), width)
        return jax.ops.segment_sum(reach * discount**first * total, _BIN_OF_AGES, len(_BINS) - 1)

    return jax.vmap(one)(discount)


def discounted_length(state: State, discount: Float[Array, "m"]) -> Float[Array, "m"]:
    """E[Σ_t γ^t] over an episode: between 1 and 1/(1 − γ); the mean length at γ = 1."""
    return jnp.sum(_life_table(state, discount), -1)


def of_finished_episodes(rollout: Rollout, discount: Float[Array, "m"]) -> tuple[Float[Array, "m"], Int[Array, ""]]:
    """The paper's estimate: mean discounted cost of the episodes that started *and* ended inside the batch (and 0 where
    none did), and their number."""
    steps = jnp.arange(rollout.age.shape[0])[:, None]
    ended = rollout.terminated | rollout.truncated
    counts = episode_over(rollout) & (rollout.age <= steps)

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
    """numerator / denominator; 0 where the denominator is 0."""
    return jnp.where(denominator > 0, numerator / jnp.where(denominator > 0, denominator, 1.0), 0.0)
