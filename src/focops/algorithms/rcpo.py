"""RCPO: Reward Constrained Policy Optimization (Tessler, Mankowitz, Mannor; ICLR 2019), Algorithm 1.

| here                 | paper          | where                                                                |
|----------------------|----------------|----------------------------------------------------------------------|
| penalised            | r̂(λ, s, a)     | penalised reward r − λ·c                                             |
| critics.values[0]    | V̂(λ, s)        | one critic, of the penalised reward                                  |
| nu                   | λ              | Γ_λ[λ + η_1 (J_C − α)]                                               |
| nu_rate, policy_rate | η_1, η_2       | three time scales: the multiplier is the slowest                     |
| limits, cost_return  | α, J_C         |                                                                      |

The multiplier prices costs in the reward's own units, and moves slowest; the policy, PPO as in the publication's MuJoCo
experiments, sees nothing but the penalised reward; the step is K epochs of minibatches. The cost critics only serve the
estimate of J_C. Discounted by γ of the reward, as printed.
"""

from jaxtyping import Array, Float, Key

from focops.core import first_order, multipliers, surrogates
from focops.core.description import Description
from focops.core.estimate import Batch, estimate
from focops.core.fields import InnerFraction, NotNegative, pytree_config
from focops.core.first_order import Info, State
from focops.core.normalize import Stats
from focops.core.spec import Spec
from focops.core.types import Params, Rollout

DESCRIPTION = Description("first", "integrates J_C − b", "converges, if ν is slowest", "Tessler et al. 2019")


@pytree_config
class Config(multipliers.Config, first_order.Config):
    """Defaults: PPO's of Table 3 of the FOCOPS paper; the multiplier's rate is half of that table's: the
    publication asks it to be the slowest. (On HalfCheetahSpeed 0.001 and less let the cost swing by a quarter.)"""

    clip: InnerFraction = 0.2
    """ε: how far from 1 the ratio of probabilities still counts. In (0, 1)."""
    nu_max: NotNegative = 100.0
    """λ_max: upper bound of the multipliers; `inf` for none. ≥ 0."""
    nu_rate: NotNegative = 0.005
    """η_1: step size of the multipliers; not annealed. ≥ 0."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return first_order.init(key, spec, config, config.nu_init)


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: Stats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    penalised = rollout._replace(reward=rollout.reward - rollout.cost @ state.nu)
    critics, batch, cost = estimate(state.critics, state.policy, penalised, stats, progress, config)

    state = state._replace(critics=critics)
    loss = lambda theta, minibatch: policy_loss(theta, minibatch, config)
    state, epochs, kl = first_order.improve(key, state, batch, loss, None, progress, config)

    rate = multipliers.step_size(cost.cost_return, cost.aim, cost.error, config)
    settled = multipliers.settled(rate, progress, cost.cost_return - cost.aim, cost.error, config)
    nu = multipliers.step(state.nu, cost.cost_return, cost.aim, settled, config.nu_max)
    state = state._replace(nu=nu)
    return state, first_order.report(state, batch, cost, epochs, kl, config)


def policy_loss(theta: Params, batch: Batch, config: Config) -> Float[Array, ""]:
    return -surrogates.clipped(surrogates.ratio(theta, batch, config), batch.advantage, config.clip)
