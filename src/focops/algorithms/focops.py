"""FOCOPS: First Order Constrained Optimization in Policy Space (Zhang, Vuong, Ross; NeurIPS 2020), Algorithm 1.

| here                        | paper        | where                                                    |
|-----------------------------|--------------|----------------------------------------------------------|
| temperature                 | λ            | Theorem 1; fixed, as in the practical algorithm          |
| nu                          | ν            | Eq. 12, one per constraint                               |
| trust_region                | δ            | indicator of Eq. 13 and the stopping rule                |
| limits, cost_return         | b, J_C       | Eq. 12                                                   |
| advantage, cost_advantage   | Â, Â_C       | GAE, each standardised over the batch                    |
| policy_loss                 | ∇̂L(θ)        | Eq. 13 is its gradient                                   |
| value, cost_value           | V_φ, V^C_ψ   | Appendix, pseudocode                                     |
| gae, cost_gae               | β            | "GAE parameter" of Table 3                               |

The multiplier moves first, by how far J_C is from its limit; the policy then goes towards the optimal update policy
π* ∝ π_k exp((A − ν·A_C)/λ); the step is as long as K epochs of minibatches, or shorter once the mean KL exceeds δ.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from focops.core import first_order, multipliers, policy
from focops.core.base import network
from focops.core.card import Card
from focops.core.config import Fraction, Positive, pytree_config, static
from focops.core.estimate import Batch, estimate
from focops.core.first_order import Info, State
from focops.core.spec import Spec
from focops.core.types import Params, Rollout

CARD = Card("first", "integrates J_C − b", "bounded violation per update, for exact π*", "Zhang et al. 2020")


@pytree_config
class Config(multipliers.LeadConfig, first_order.Config):
    """Defaults: Table 3 of the paper."""

    temperature: Positive = 1.5
    """λ: how far π* may go towards the better actions; greedier when smaller. > 0."""
    trust_region: Positive = 0.02
    """δ: states whose KL(new‖old) exceeds it are left out; epochs end once the mean KL does. > 0."""
    scale_free: Fraction = 0.0
    """How far λ counts in deviations of Â − ν·Â_C instead of Â's: λ·dev^this. Where cost follows reward the two cancel
    at the limit, and with 0, as published, the policy then hardly moves. Keep it below 1: there steps stay as long
    however little is left, and a policy whose optimum randomises never settles. In [0, 1]."""
    cost_fade: Fraction = 0.0
    """Weight of a sample's Â_C: γ_C^(this·age). 0, as published: all ages alike. 1: the exact gradient of J_C, which
    lets the policy pay late, where it counts little. In [0, 1]."""
    early_stop: bool = static(True)
    """End the epochs once the mean KL(new‖old) exceeds δ."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return first_order.init(key, spec, config, config.nu_init)


def update(key: Key[Array, ""], state: State, rollout: Rollout, config: Config) -> tuple[State, Info]:
    """One pass of Algorithm 1's loop, from a batch of trajectories to the next policy."""
    critics, batch, cost = estimate(state.critics, state.policy, rollout, config)
    limits = jnp.array(config.limits)
    batch = batch._replace(cost_advantage=fade(batch.cost_advantage, rollout.age, config))
    nu = multipliers.step(state.nu, cost.cost_return, limits, config.nu_rate, config.nu_max)
    pressure = multipliers.lead(nu, cost.cost_return, limits, config.nu_rate, config.nu_max, config.nu_lead)

    state = state._replace(critics=critics, nu=nu)
    spread = jnp.std(batch.advantage - batch.cost_advantage @ pressure) + 1e-6
    measured = dataclasses.replace(config, temperature=config.temperature * spread**config.scale_free)
    loss = lambda theta, minibatch: policy_loss(theta, minibatch, pressure, measured)
    max_kl = config.trust_region if config.early_stop else None
    state, epochs, kl = first_order.improve(key, state, batch, loss, max_kl, rollout.progress, config)
    return state, first_order.report(state, batch, cost.cost_return, epochs, kl, config)


def fade(cost_advantage: Float[Array, "N m"], age: Int[Array, "T E"], config: Config) -> Float[Array, "N m"]:
    """Â_C weighted by age, to unit deviation again."""
    weight = jnp.array(config.cost_discounts) ** (config.cost_fade * age.reshape(-1, 1).astype(jnp.float32))
    weighted = weight * cost_advantage
    scale = jnp.where(config.cost_fade > 0, 1.0 / (jnp.std(weighted, 0) + 1e-6), 1.0)
    return weighted * scale


def policy_loss(theta: Params, batch: Batch, nu: Float[Array, "m"], config: Config) -> Float[Array, ""]:
    """Its gradient is Eq. 13: towards the optimal update policy, only where still inside the trust region."""
    new = policy.distribution(network(config), theta, batch.obs)
    kl = new.kl(batch.old)
    ratio = jnp.exp(new.log_prob(batch.action) - batch.old_log_prob)
    advantage = batch.advantage - batch.cost_advantage @ nu
    inside = kl <= config.trust_region
    return jnp.mean(inside * (kl - ratio * advantage / config.temperature))
