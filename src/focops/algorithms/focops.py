"""FOCOPS: First Order Constrained Optimization in Policy Space (Zhang, Vuong, Ross; NeurIPS 2020), Algorithm 1.

| here                        | paper        | where                                                    |
|-----------------------------|--------------|----------------------------------------------------------|
| temperature                 | λ            | Theorem 1; fixed, as in the practical algorithm          |
| nu                          | ν            | Eq. 14, one per constraint                               |
| trust_region                | δ            | indicator of Eq. 15 and the stopping rule                |
| limits, cost_return         | b, J_C       | Eq. 14                                                   |
| advantage, cost_advantage   | Â, Â_C       | GAE, each standardised over the batch                    |
| policy_loss                 | ∇̂L(θ)        | Eq. 15 is its gradient                                   |
| value, cost_value           | V_φ, V^C_ψ   | Appendix, pseudocode                                     |
| gae, cost_gae               | β            | "GAE parameter" of Table 3                               |

The multiplier moves first, by how far J_C is from its limit; the policy then goes towards the optimal update policy
π* ∝ π_k exp((A − ν·A_C)/λ); the step is as long as K epochs of minibatches, or shorter once the mean KL exceeds δ.

What goes beyond the paper is all in `beyond_the_paper`, the ν and the λ that the policy's step is taken with, in
`solve_dual`, and in `spread`, its σ; `settle` is shared with the other algorithms.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from focops.core import first_order, multipliers, policy
from focops.core.base import network
from focops.core.description import Description
from focops.core.estimate import Batch, CostEstimate, estimate
from focops.core.fields import Fraction, Positive, PositiveFraction, pytree_config
from focops.core.first_order import Info, State
from focops.core.normalize import Stats
from focops.core.spec import Spec
from focops.core.types import Params, Rollout

_MOST_SPREAD = 0.1
"""Bound on an update's change of log σ by projection."""
_LATE = 4
"""Exponent of progress in the narrowing of σ."""
DESCRIPTION = Description(
    "first", "integrates J_C − b", "bounded violation per update, for exact π*", "Zhang et al. 2020"
)


@pytree_config
class Config(multipliers.LeadConfig, first_order.Config):
    """Defaults: Table 3 of the paper."""

    temperature: Positive = 1.5
    """λ: how far π* may go towards the better actions; greedier when smaller. > 0."""
    trust_region: Positive = 0.02
    """δ: states whose KL(new‖old) exceeds it are left out; epochs end once the mean KL does. > 0."""
    scale_free: Fraction = 0.0
    """λ counts in units of σ^this, σ the standard deviation of Â − ν·Â_C. 0: the published λ; where cost follows
    reward, Â and ν·Â_C cancel at the limit, and the policy then hardly moves. 1: it moves as far however little is
    left; more reward on our tasks, but a policy whose optimum randomises never settles. 0.5: such a policy settles,
    so this is for tasks of which little is known. In [0, 1]."""
    project_std: bool = False
    """σ moves by the closed form of its projection of π* (see `spread`), annealed as the learning rates. If not, as
    published, by Adam."""
    solve_dual: bool = False
    """ν is solved for in each update, from Theorem 1's dual to first order in 1/λ (`multipliers.solved`), so that the
    update takes a part of the violation back and no sum of violations has to find ν first. `nu_rate`, `nu_noise` and
    `nu_lead` then do nothing. If not, as published, a step of Eq. 14."""
    std_end: PositiveFraction = 1.0
    """σ is narrowed to this share of itself by the end, by std_end^(progress⁴): hardly in the first half, so that it
    explores, and most when the policy's steps have become small, for a narrow σ shows little of where to go. The mean
    action is then as good and as safe as sampled ones. In (0, 1]."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return first_order.init(key, spec, config, config.nu_init, memory=jnp.zeros(len(spec.constraints)))


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: Stats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    """One pass of Algorithm 1's loop, from a batch of trajectories to the next policy."""
    critics, batch, cost = estimate(state.critics, state.policy, rollout, stats, progress, config)
    rate = multipliers.step_size(cost.cost_return, cost.aim, cost.error, config)
    settled = multipliers.settled(rate, progress, cost.cost_return - cost.aim, cost.error, config)
    nu = multipliers.step(state.nu, cost.cost_return, cost.aim, settled, config.nu_max)
    violation = cost.cost_return - cost.aim
    lower, lasting = multipliers.wanted(state.memory, violation, cost.error, cost.worth, progress, config)
    exact = multipliers.solved(batch.advantage, batch.cost_advantage, lower, config.nu_max)
    nu = jnp.where(config.solve_dual, exact, nu)
    pressure, temperature = beyond_the_paper(nu, batch, cost, rate, config)

    old, state = state.policy, state._replace(critics=critics, nu=nu, memory=lasting)
    loss = lambda theta, minibatch: policy_loss(theta, minibatch, pressure, temperature, config)
    state, epochs, kl = first_order.improve(key, state, batch, loss, config.trust_region, progress, config)
    state = state._replace(policy=spread(old, state.policy, batch, pressure, temperature, progress, config))
    return state, first_order.report(state, batch, cost, epochs, kl, config)


def policy_loss(
    theta: Params,
    batch: Batch,
    nu: Float[Array, "m"],
    temperature: Float[Array, ""] | float,
    config: Config,
) -> Float[Array, ""]:
    """Its gradient is Eq. 15: towards the optimal update policy, only where still inside the trust region."""
    new = policy.distribution(network(config), theta, batch.obs)
    kl = new.kl(batch.old)
    ratio = jnp.exp(new.log_prob(batch.action) - batch.old_log_prob)
    advantage = batch.advantage - batch.cost_advantage @ nu
    inside = kl <= config.trust_region
    return jnp.mean(inside * (kl - ratio * advantage / temperature))


def beyond_the_paper(
    nu: Float[Array, "m"], batch: Batch, cost: CostEstimate, rate: Float[Array, "m"], config: Config
) -> tuple[Float[Array, "m"], Float[Array, ""]]:
    """The ν and λ of the policy's step: ahead of ν by `nu_lead`, unless ν was solved for; λ in units by `scale_free`.
    With both 0, as published, they are ν and λ themselves."""
    ahead = multipliers.lead(nu, cost.cost_return, cost.aim, cost.worth, rate, config)
    pressure = jnp.where(config.solve_dual, nu, ahead)
    left = jnp.std(batch.advantage - batch.cost_advantage @ pressure) + 1e-6
    return pressure, config.temperature * left**config.scale_free


def spread(
    old: policy.PolicyParams,
    new: policy.PolicyParams,
    batch: Batch,
    nu: Float[Array, "m"],
    temperature: Float[Array, ""] | float,
    progress: Float[Array, ""],
    config: Config,
) -> policy.PolicyParams:
    """`new` with the σ of `project_std` and `std_end`; as published, where both are off, σ is Adam's.

    π* ∝ π_k exp(A/λ), A = Â − ν·Â_C, has a spread of its own. Of all Gaussians the nearest to it in KL(·‖π*) has, to
    first order in 1/λ, log σ = log σ_k + E[(z² − 1)·A] / 2λ, z = (a − μ_k)/σ_k: the gradient −E[(z² − 1)·A]/λ over the
    Fisher information of log σ, which is 2. Adam's many small steps of one size follow the noise in it instead.
    """
    if not isinstance(old, policy.GaussianParams) or not isinstance(new, policy.GaussianParams):
        return new
    z = (batch.action - batch.old.mean) * jnp.exp(-batch.old.log_std)
    advantage = (batch.advantage - batch.cost_advantage @ nu) / temperature
    change = jnp.clip(jnp.mean((z**2 - 1) * advantage[:, None], 0) / 2, -_MOST_SPREAD, _MOST_SPREAD)
    log_std = jnp.where(config.project_std, old.log_std + (1.0 - progress) * change, new.log_std)
    narrower = (progress + 1.0 / config.updates) ** _LATE - progress**_LATE
    return new._replace(log_std=log_std + jnp.log(config.std_end) * narrower)
