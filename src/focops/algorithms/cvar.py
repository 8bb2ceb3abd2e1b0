"""CVaR-constrained policy gradient (Chow, Ghavamzadeh, Janson, Pavone; JMLR 2017), Algorithm 1, on whole batches.

| here              | paper                     | where                                                            |
|-------------------|---------------------------|------------------------------------------------------------------|
| level             | α                         | CVaR_α: the mean cost of the worst 1 − α of episodes             |
| threshold         | ν                         | the value-at-risk, argmin_ν ν + E[(J − ν)₊]/(1 − α)              |
| nu                | λ                         | multiplier of CVaR_α(J_C) ≤ β                                    |
| limits            | β                         |                                                                  |
| at_risk           | ν + E[(J − ν)₊]/(1 − α)   | the Lagrangian's constraint                                      |
| tail.beyond       | (J − ν) 1[J ≥ ν]          | Algorithm 1's gradient weight, spread over the episode's steps   |

The limit holds for the mean of the worst episodes, not of all. The publication moves ν fastest, then θ, then λ, from
whole trajectories. Here episodes are longer than batches, so, faster to slower:

- ν is the fixed point of its own update: the α-quantile of the latest 128 episodes, never above β (a safe policy's is
  not, and any ν bounds CVaR from above);
- θ sees the tail as an ordinary cost that counts only from where its episode has paid ν (`core/tail.py`), with GAE and
  critics as every cost has; direction and step are PPO-Lagrangian's. The critics see the state but not what has been
  paid, where the publication's actor-critic augments the state by it;
- λ takes its step on ν + E[(J − ν)₊]/(1 − α) − β, last.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from focops.algorithms import ppo_lagrangian
from focops.core import first_order, multipliers, tail
from focops.core.base import network as network
from focops.core.card import Card
from focops.core.config import pytree_config
from focops.core.estimate import estimate
from focops.core.first_order import State
from focops.core.spec import Spec
from focops.core.types import Rollout

CARD = Card("first", "integrates CVaR − b", "converges, if ν is slowest", "Chow et al. 2017")


@pytree_config
class Config(ppo_lagrangian.Config):
    """Defaults: PPO-L's of Table 3 of the FOCOPS paper but for the multiplier's, whose signal is 1/(1 − α) noisier."""

    level: float = 0.95
    """α: the limit holds for the mean cost of the worst 1 − α of episodes; 0 is the mean of all (0.95: the
    publication's experiments). In [0, 1)."""
    nu_max: float = 2.0
    """ν_max: upper bound of the multipliers; `inf` for none. ≥ 0."""
    nu_rate: float = 0.001
    """α_ν: step size of the multipliers; not annealed. ≥ 0."""


class Info(NamedTuple):
    """What one update did."""

    cost_return: Float[Array, "m"]
    """Mean cost of the latest episodes (0 before the first); the limit is on `cost_at_risk`."""
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


def update(key: Key[Array, ""], state: State, rollout: Rollout, config: Config) -> tuple[State, Info]:
    limits, discounts = jnp.array(config.limits), jnp.array(config.cost_discounts)
    memory, paid = tail.pay(state.memory, rollout, discounts, state.critics.cost_return.time_limit)
    threshold = tail.value_at_risk(memory, config.level, limits)
    worst = rollout._replace(cost=tail.beyond(rollout.cost, paid, rollout.age, discounts, threshold))
    critics, batch, excess = estimate(state.critics, state.policy, worst, config)
    at_risk = threshold + excess.cost_return / (1 - config.level)

    pressure = multipliers.lead(state.nu, at_risk, limits, config.nu_rate, config.nu_max, config.nu_lead)
    loss = lambda theta, minibatch: ppo_lagrangian.policy_loss(theta, minibatch, pressure, config)
    state = state._replace(critics=critics, memory=memory)
    state, epochs, kl = first_order.improve(key, state, batch, loss, None, rollout.progress, config)

    state = state._replace(nu=multipliers.step(state.nu, at_risk, limits, config.nu_rate, config.nu_max))
    mean = jnp.sum(memory.episodes, 0) / jnp.clip(memory.num_episodes, 1, tail.NUM_EPISODES)
    info = first_order.report(state, batch, mean, epochs, kl, config)
    return state, Info(cost_at_risk=at_risk, threshold=threshold, **info._asdict())
