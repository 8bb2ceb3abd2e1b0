"""CVaR-constrained policy gradient (Chow, Ghavamzadeh, Janson, Pavone; JMLR 2017), Algorithm 1, on whole batches.

| here              | paper                     | where                                                            |
|-------------------|---------------------------|------------------------------------------------------------------|
| level             | α                         | CVaR_α: the mean cost of the worst 1 − α of episodes             |
| threshold         | ν                         | the value-at-risk, argmin_ν ν + E[(J − ν)₊]/(1 − α)              |
| nu                | λ                         | multiplier of CVaR_α(J_C) ≤ β                                    |
| limits            | β                         |                                                                  |
| at_risk           | ν + E[(J − ν)₊]/(1 − α)   | the Lagrangian's constraint                                      |
| tail.bound_for    | 1[J ≥ ν]                  | Algorithm 1's gradient: only the worst episodes count            |

The limit holds for the mean of the worst episodes, not of all. The publication moves ν fastest, then θ, then λ, from
whole trajectories. Here episodes are longer than batches, so, faster to slower:

- ν is the fixed point of its own update: the α-quantile of the latest 128 episodes. These were begun under older
  policies, so they are all shifted by how far the current policy's J_C is from their mean. Never above β (a safe
  policy's is not, and any ν bounds CVaR from above);
- θ sees Â_C/(1 − α) where what an episode has paid and its cost critic say that it is bound for the tail, and 0
  elsewhere: the advantage of the publication's augmented state (`core/tail.py`), without its γ^t, as all algorithms
  here count samples of all ages alike. Direction and step are PPO's;
- λ takes its step on CVaR_α − β, with the same shift, last.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from focops.core import first_order, multipliers, surrogates, tail
from focops.core.critics import values
from focops.core.description import Description
from focops.core.estimate import estimate
from focops.core.fields import FractionBelow1, InnerFraction, pytree_config
from focops.core.first_order import State
from focops.core.normalize import Stats
from focops.core.spec import Spec
from focops.core.types import Rollout

DESCRIPTION = Description("first", "integrates CVaR − b", "converges, if ν is slowest", "Chow et al. 2017")


@pytree_config
class Config(multipliers.LeadConfig, first_order.Config):
    """Defaults: PPO's of Table 3 of the FOCOPS paper, and that table's multiplier of FOCOPS."""

    level: FractionBelow1 = 0.95
    """α: the limit holds for the mean cost of the worst 1 − α of episodes; 0 is the mean of all (0.95: the
    publication's experiments). In [0, 1)."""
    clip: InnerFraction = 0.2
    """ε: how far from 1 the ratio of probabilities still counts. In (0, 1)."""


class Info(NamedTuple):
    """What one update did."""

    cost_return: Float[Array, "m"]
    """J_C, the mean over all episodes; the limit is on `cost_at_risk`."""
    cost_aim: Float[Array, "m"]
    cost_at_risk: Float[Array, "m"]
    """CVaR_α(J_C)."""
    threshold: Float[Array, "m"]
    nu: Float[Array, "m"]
    kl: Float[Array, ""]
    epochs: Int[Array, ""]
    entropy: Float[Array, ""]
    value_loss: Float[Array, ""]
    cost_value_loss: Float[Array, "m"]


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return first_order.init(key, spec, config, config.nu_init, tail.init(len(spec.constraints)))


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: Stats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    discounts = jnp.array(config.cost_discounts)
    value = values(state.critics, rollout.obs, config, first=1)
    critics, batch, cost = estimate(state.critics, state.policy, rollout, stats, progress, config)
    memory, paid = tail.pay(state.memory, rollout, discounts)
    risk = tail.risk(memory, config.level)
    shift = cost.cost_return - risk.mean
    threshold, at_risk = jnp.clip(risk.value + shift, 0.0, cost.aim), risk.beyond + shift

    counts = tail.bound_for(paid, value, rollout.age, discounts, threshold).reshape(batch.cost_advantage.shape)
    batch = batch._replace(cost_advantage=batch.cost_advantage * counts / (1 - config.level))
    rate = multipliers.step_size(at_risk, cost.aim, cost.error, config)
    pressure = multipliers.lead(state.nu, at_risk, cost.aim, cost.worth, rate, config)
    loss = lambda theta, minibatch: -surrogates.penalised(theta, minibatch, pressure, config.clip, config)
    state = state._replace(critics=critics, memory=memory)
    state, epochs, kl = first_order.improve(key, state, batch, loss, None, progress, config)

    settled = multipliers.settled(rate, progress, at_risk - cost.aim, cost.error, config)
    state = state._replace(nu=multipliers.step(state.nu, at_risk, cost.aim, settled, config.nu_max))
    info = first_order.report(state, batch, cost, epochs, kl, config)
    return state, Info(cost_at_risk=at_risk, threshold=threshold, **info._asdict())
