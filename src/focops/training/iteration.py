"""The parts of an iteration of one run, as pure functions: the host's loop calls them, the device's program maps them
over its runs."""

import dataclasses
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt32

from focops.algorithms import is_constrained
from focops.config import TrainConfig
from focops.core import normalize, policy
from focops.core.base import network_for
from focops.core.networks import Network
from focops.core.spec import Spec
from focops.core.types import Params, Rollout, Trajectories
from focops.training import candidates, episodes, finite
from focops.training.state import Record, RunState

_AUTO_MARGIN = 0.005
"""Share of a limit in `--margin auto`, for how far the last policies' costs end from the aim."""
_AUTO_MARGIN_ERRORS = 1.0
"""Standard errors of J_C in it. The policy that is delivered is chosen by fresh episodes: one of several is to keep the
limit, not each of them."""
_AUTO_MARGIN_SPREAD = 2 * 1.645 / 400**0.5
"""Standard deviations of an episode's cost in it: with its true cost so far below the limit, 400 episodes are found to
satisfy it in 95 of 100 evaluations (their mean has to be 1.645 standard errors below the limit, and is by as many above
the truth in one of twenty)."""
_MOST_SPREAD = 0.15
"""Share of a limit that is left free at most for that spread."""


class Report(NamedTuple):
    """What an iteration reports."""

    info: Any
    """The algorithm's Info."""
    finite: Bool[Array, ""]
    means: Float[Array, "v"]
    """Of the latest whole episodes; 0 before the first."""
    finished: Int[Array, ""]
    """Whole episodes so far."""


@functools.cache
def compiled(function: Callable[..., Any], *constants: Any) -> Callable[..., Any]:
    """`function` of what comes after `constants`, jitted. Trainers of one process share what JAX compiles of it."""
    return jax.jit(functools.partial(function, *constants))


def begin(
    algorithm: ModuleType, spec: Spec, num_envs: int, count: int, sims: Any, key: UInt32[Array, "2"], config: Any
) -> RunState:
    """A run before its first iteration, which keeps `count` candidates."""
    learner = algorithm.init(jax.random.fold_in(jax.random.wrap_key_data(key), 0), spec, config)
    stats = normalize.of(spec)
    counted = episodes.init(num_envs, len(spec.constraints))
    kept = candidates.init(count, learner.policy, stats) if count else None
    return RunState(learner, stats, sims, counted, key, jnp.int32(0), kept)


def keys(key: UInt32[Array, "2"], iteration: Int[Array, ""]) -> Key[Array, "2"]:
    """A run's keys for acting and for learning, after so many iterations."""
    return jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(key), iteration + 1))


def noise(spec: Spec, shape: tuple[int, int], key: UInt32[Array, "2"], iteration: Int[Array, ""]) -> Array:
    """The randomness of the actions of a batch [T, E]."""
    return policy.noise(keys(key, iteration)[0], spec, shape)


def act(
    network: Network,
    params: Params,
    stats: normalize.Stats,
    obs: Float[Array, "E O"],
    noise: Float[Array, "E A"],
) -> tuple[normalize.Stats, Float[Array, "E O"], Array]:
    """(statistics, normalised obs, action). Statistics take in every observation the moment it is seen, as in the
    authors' program."""
    stats = normalize.observe(stats, obs)
    obs = normalize.apply(stats, obs)
    return stats, obs, policy.distribution(network, params, obs).sample(noise)


def learn(
    algorithm: ModuleType,
    state: RunState,
    trajectories: Trajectories,
    stats: normalize.Stats,
    progress: Float[Array, ""],
    config: Any,
) -> tuple[RunState, Report]:
    """The run after a batch that ended with `stats`; its environments are still those of `state`."""
    rollout = normalised(trajectories, stats)
    key = keys(state.key, state.iteration)[1]
    config = with_room_for_spread(config, state.episodes)
    learner, info = algorithm.update(key, state.learner, rollout, stats, progress, config)
    is_finite = finite.all_finite((trajectories, stats)) & finite.still_finite(learner, state.learner)
    counted = episodes.count(state.episodes, trajectories, jnp.array(config.cost_discounts))
    kept = state.candidates
    if kept is not None:  # J_C is of the policy that made the batch
        within = jnp.all(info.cost_return <= info.cost_aim)
        kept = candidates.keep(kept, state.learner.policy, state.stats, state.iteration, within, progress)
    after = RunState(learner, stats, state.sims, counted, state.key, state.iteration + 1, kept)
    return after, Report(info, is_finite, episodes.means(counted), counted.finished)


def normalised(trajectories: Trajectories, stats: normalize.Stats) -> Rollout:
    """Successors normalised: as seen one step later, or by `stats` where the episode or the batch ends there.

    J_C sums γ·V(next_obs) − V(obs of the next step), which must vanish for one and the same state. Normalised at two
    moments it does not, and the remainders add up over an episode to a false cost, where V is large beside J_C."""
    fields = trajectories._asdict()
    last = normalize.apply(stats, jnp.asarray(fields.pop("raw_next_obs")))
    later = jnp.concatenate([jnp.asarray(trajectories.obs)[1:], last[-1:]])
    ended = trajectories.terminated | trajectories.truncated
    return Rollout(**fields, next_obs=jnp.where(ended[..., None], last, later))


def with_room_for_spread(config: Any, counted: episodes.EpisodeStatistics) -> Any:
    """The margin of each constraint with `margin_spread` standard deviations of the latest episodes' costs in it."""
    limits = jnp.array(config.limits)
    share = config.margin_spread * episodes.cost_deviation(counted) / jnp.maximum(limits, 1e-9)
    return dataclasses.replace(config, margin=config.margin + jnp.minimum(share, _MOST_SPREAD))


def of_run(config: TrainConfig, spec: Spec) -> Any:
    """The algorithm's config with the network, the constraints' numbers, the margin and the number of updates."""
    constraints = spec.constraints
    margin = config.margin if is_constrained(config.algorithm) else 0.0  # of no use to one that does not look at costs
    auto = margin == "auto"
    return dataclasses.replace(
        config.algo,
        network=network_for(config.algo, spec, config.task),
        limits=tuple(float(c.limit) for c in constraints),
        cost_discounts=tuple(float(c.discount) for c in constraints),
        updates=float(config.iterations),
        margin=_AUTO_MARGIN if auto else float(margin),
        margin_errors=_AUTO_MARGIN_ERRORS if auto else 0.0,
        margin_spread=_AUTO_MARGIN_SPREAD if auto else 0.0,
    )


def record(config: TrainConfig, spec: Spec, iteration: int, report: Report, diverged: int) -> Record:
    """An iteration as a flat record."""
    names = [c.name for c in spec.constraints]
    m = len(names)
    length, reward, *costs = report.means if report.finished else [None] * (2 + 2 * m)
    values: Record = {
        "iteration": iteration,
        "iterations": config.iterations,
        "samples": iteration * config.batch_size,
        "steps": config.iterations * config.batch_size,
        "return_mean": reward,
        "episode_length_mean": length,
        "episodes_finished": int(report.finished),
        "diverged": diverged,
    }
    for i, constraint in enumerate(spec.constraints):
        values[f"discounted_cost_mean/{constraint.name}"] = costs[i]
        values[f"undiscounted_cost_mean/{constraint.name}"] = costs[m + i]
        values[f"cost_limit/{constraint.name}"] = constraint.limit
    for field, value in report.info._asdict().items():
        label = "cost_return_estimate" if field == "cost_return" else field
        if np.ndim(value):
            values |= {f"{label}/{name}": v.item() for name, v in zip(names, value, strict=True)}
        else:
            values[label] = value.item()
    if hasattr(config.algo, "trust_region"):
        values["trust_region"] = config.algo.trust_region
    return {k: float(v) if isinstance(v, np.floating) else v for k, v in values.items()}
