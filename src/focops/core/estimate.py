"""From a batch of trajectories to what every algorithm learns from: J_C, advantages, critics' targets."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from focops.core import cost_return, normalize, policy
from focops.core.advantages import gae, standardize
from focops.core.base import Config, network
from focops.core.critics import Critics, in_units_of, values
from focops.core.distributions import Distribution
from focops.core.normalize import Stats
from focops.core.types import Params, Rollout

_MOST_MARGIN = 0.05
"""Share of a limit that is left free at most for the error of J_C."""


class Batch(NamedTuple):
    """Samples of one policy; N of them, or a minibatch."""

    obs: Float[Array, "N O"]
    action: Float[Array, "N A"] | Int[Array, "N"] | Int[Array, "N K"]
    old: Distribution
    old_log_prob: Float[Array, "N"]
    advantage: Float[Array, "N"]
    cost_advantage: Float[Array, "N m"]
    target: Float[Array, "N"]
    cost_target: Float[Array, "N m"]


class CostEstimate(NamedTuple):
    """The costs of the current policy, and how a step of the policy changes them."""

    cost_return: Float[Array, "m"]
    """J_C(π_k)."""
    aim: Float[Array, "m"]
    """What the update takes for the limits: below them by the margin."""
    error: Float[Array, "m"]
    """Standard error of `cost_return`."""
    worth: Float[Array, "m"]
    """J_C(π) − J_C(π_k) per unit of E[ratio·Â_C]: the mean discounted length of an episode times the standard deviation
    of Â_C. The expectation is over the batch, where all ages count alike; in the theory a sample of age t counts γ_C^t.
    So an effect on young states is taken for less than it is, one on old states for more (docs/algorithms.md)."""


def estimate(
    critics: Critics,
    theta: Params,
    rollout: Rollout,
    stats: Stats,
    progress: Float[Array, ""] | float,
    config: Config,
) -> tuple[Critics, Batch, CostEstimate]:
    """J_C, advantages and critics' targets of a batch of trajectories, flattened to N = T·E samples; `stats` normalise
    observations at the end of the batch, `progress` is the share of the training budget spent before it."""
    discounts = jnp.array(config.cost_discounts)
    over = rollout.terminated if config.bootstrap_time_limit else rollout.terminated | rollout.truncated
    ended = rollout.terminated | rollout.truncated

    v, v_c = _apart(values(critics, rollout.obs, config))
    next_v, next_v_c = _apart(values(critics, rollout.next_obs, config))
    advantage = gae(rollout.reward, v, next_v, ~over, ended, config.discount, config.gae)
    # of an undiscounted sum, as of the reward's: its own V would be of a time to go that no observation shows
    seen_ahead = jnp.where(discounts == 1.0, config.discount, discounts)
    cost_advantage = jax.vmap(gae, (-1, 0, 0, None, None, 0, None))(
        rollout.cost, v_c, next_v_c, ~over, ended, seen_ahead, config.cost_gae
    )

    estimator = cost_return.remember_starts(critics.cost_return, rollout)
    # as the policy would see them now: the first starts were seen when few observations had been
    start_v_c = values(critics, normalize.apply(stats, estimator.starts), config, first=1)
    # batches in which the policy moves as far as in one at the start; counted back from the end √(2K) of K
    most = jnp.where(config.settle, (2 * config.updates) ** 0.5, 1.0)
    longer = jnp.minimum(jnp.where(config.settle, 1 / (1 - progress), 1.0), most)
    estimator, j_c = cost_return.estimate(estimator, rollout, v_c, next_v_c, start_v_c, discounts, longer)
    if config.cost_estimator == "episodes":
        published, finished = cost_return.of_finished_episodes(rollout, discounts)
        j_c = jnp.where(finished > 0, published, j_c)
    worth = cost_return.discounted_length(estimator, discounts) * jnp.std(cost_advantage, (1, 2))

    flat = lambda x: x.reshape(-1, *x.shape[2:])
    obs, action = flat(rollout.obs), flat(rollout.action)
    old = policy.distribution(network(config), theta, obs)
    # one row per sample, so that a minibatch is a plain slice
    old = jax.tree.map(lambda x: jnp.broadcast_to(x, (obs.shape[0], x.shape[-1])), old)
    batch = Batch(
        obs, action, old,
        old_log_prob=old.log_prob(action),
        advantage=standardize(flat(advantage)),
        cost_advantage=jax.vmap(lambda a: standardize(flat(a)), out_axes=-1)(cost_advantage),
        target=flat(advantage + v),
        cost_target=jax.vmap(flat, out_axes=-1)(cost_advantage + v_c),
    )  # fmt: skip
    critics = in_units_of(critics, jnp.concatenate([batch.target[:, None], batch.cost_target], 1), config)
    return (
        critics._replace(cost_return=estimator),
        batch,
        CostEstimate(j_c, aim(estimator, most / longer, config), cost_return.standard_error(estimator), worth),
    )


def aim(estimator: cost_return.State, longer: Float[Array, ""] | float, config: Config) -> Float[Array, "m"]:
    """b less the margin: a share of b, and some standard errors of J_C, but of these no more than `_MOST_MARGIN`·b.
    They are those of the end, when J_C will remember `longer` than now, so that the aim does not move with them."""
    limits = jnp.array(config.limits)
    errors = config.margin_errors * cost_return.standard_error(estimator, longer)
    return limits * (1.0 - config.margin) - jnp.minimum(errors, _MOST_MARGIN * limits)


def _apart(found: Float[Array, "k *n"]) -> tuple[Float[Array, "*n"], Float[Array, "m *n"]]:
    """The reward critic's values and the cost critics'."""
    return found[0], found[1:]
