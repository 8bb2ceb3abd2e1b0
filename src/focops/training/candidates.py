"""Policies of the last part of a run, among which the one that it delivers is chosen (`focops.evaluation.final`).

The last policies' costs swing about what the run aims at. If the very last one is found above its limit, another that
was trained nearly as long is not. J_C says in training which ones promise to keep it; fresh episodes decide.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from focops.core import normalize
from focops.core.types import Params

PART = 0.5
"""The share of a run, at its end, that they are taken from. Where cost rises above the limit late in a run, as in runs
too short for the multiplier, only policies of the time before keep it."""


class Candidates(NamedTuple):
    """Of each of K equal parts of the end of a run the newest policy whose J_C was within its aim, or, where none was,
    the newest; each array [K, ...]."""

    policy: Params
    stats: normalize.Stats
    iteration: Int[Array, "K"]
    """After which each was the policy; 0: none yet."""
    within: Bool[Array, "K"]


def init(count: int, policy: Params, stats: normalize.Stats) -> Candidates:
    empty = lambda x: jnp.zeros((count, *jnp.shape(x)), jnp.asarray(x).dtype)
    none = jnp.zeros(count, jnp.int32)
    return Candidates(jax.tree.map(empty, policy), jax.tree.map(empty, stats), none, none > 0)


def keep(
    candidates: Candidates,
    policy: Params,
    stats: normalize.Stats,
    iteration: Int[Array, ""],
    within: Bool[Array, ""],
    progress: Float[Array, ""],
) -> Candidates:
    """With the policy after `iteration`, at `progress`, in the place of its part; `within` says whether its J_C is."""
    count = candidates.iteration.shape[0]
    part = jnp.floor((progress - (1 - PART)) / PART * count + 1e-4)  # a part's first one despite rounding
    here = (jnp.arange(count) == part) & (within | ~candidates.within)
    put = lambda kept, new: jnp.where(here.reshape(-1, *[1] * jnp.ndim(new)), new, kept)
    return jax.tree.map(put, candidates, Candidates(policy, stats, iteration, within))


def newest_first(state: Any) -> list[tuple[Params, normalize.Stats, int]]:
    """The policies that a run may deliver, each with its statistics and iteration: the last, then the candidates."""
    last = int(state.iteration)
    found, kept = [(state.learner.policy, state.stats, last)], state.candidates
    numbers = [] if kept is None else [int(number) for number in kept.iteration]
    for k in sorted(range(len(numbers)), key=lambda k: -numbers[k]):
        if 0 < numbers[k] < last:
            own = jax.tree.map(lambda x, k=k: np.asarray(x[k]), kept)
            found.append((own.policy, own.stats, numbers[k]))
    return found
