"""PPO-Lagrangian (Ray, Achiam, Amodei 2019; FOCOPS paper, appendix "PPO-Lagrangian").

| here                      | paper         | where                                                         |
|---------------------------|---------------|---------------------------------------------------------------|
| clip                      | ε             | clipped objective of the appendix                             |
| nu                        | ν             | same appendix; one per constraint                             |
| policy_loss               | −L̃            | the appendix prints L + ν(J_C − b); L − ν(J_C − b) is meant   |
| limits, cost_return       | b, J_C        |                                                               |
| advantage, cost_advantage | Â, Â_C        | GAE, each standardised over the batch                         |

L̃(θ) = L^CLIP(θ) − ν·(J_C(π_θ) − b), where J_C(π_θ) is E[ratio·Â_C] up to what θ does not change: only the reward is
clipped, as printed. First the policy ascends (K epochs of minibatches), then ν descends on the same objective.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from focops.core import first_order, multipliers, surrogates
from focops.core.description import Description
from focops.core.estimate import Batch, estimate
from focops.core.fields import InnerFraction, NotNegative, pytree_config
from focops.core.first_order import Info, State
from focops.core.normalize import Stats
from focops.core.spec import Spec
from focops.core.types import Params, Rollout

DESCRIPTION = Description("first", "integrates J_C − b", "none proved", "Ray et al. 2019")


@pytree_config
class Config(multipliers.LeadConfig, first_order.Config):
    """Defaults: Table 3 of the FOCOPS paper."""

    clip: InnerFraction = 0.2
    """ε: how far from 1 the ratio of probabilities still counts. In (0, 1)."""
    nu_max: NotNegative = 1.0
    """ν_max: upper bound of the multipliers; `inf` for none. ≥ 0."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return first_order.init(key, spec, config, config.nu_init)


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: Stats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    critics, batch, cost = estimate(state.critics, state.policy, rollout, stats, progress, config)
    rate = multipliers.step_size(cost.cost_return, cost.aim, cost.error, config)
    pressure = multipliers.lead(state.nu, cost.cost_return, cost.aim, cost.worth, rate, config)
    loss = lambda theta, minibatch: policy_loss(theta, minibatch, pressure, config)
    state = state._replace(critics=critics)
    state, epochs, kl = first_order.improve(key, state, batch, loss, None, progress, config)

    settled = multipliers.settled(rate, progress, cost.cost_return - cost.aim, cost.error, config)
    nu = multipliers.step(state.nu, cost.cost_return, cost.aim, settled, config.nu_max)
    state = state._replace(nu=nu)
    return state, first_order.report(state, batch, cost, epochs, kl, config)


def policy_loss(theta: Params, batch: Batch, nu: Float[Array, "m"], config: Config) -> Float[Array, ""]:
    """−L̃(θ)."""
    ratio = surrogates.ratio(theta, batch, config)
    return jnp.mean(ratio * (batch.cost_advantage @ nu)) - surrogates.clipped(ratio, batch.advantage, config.clip)
