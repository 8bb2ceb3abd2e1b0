"""CPPO-PID: the multiplier as a PID controller (Stooke, Achiam, Abbeel; ICML 2020), Algorithms 1 and 2.

| here                 | paper            | where                                                              |
|----------------------|------------------|--------------------------------------------------------------------|
| k_p, k_i, k_d        | K_P, K_I, K_D    | Algorithm 2                                                        |
| nu                   | λ                | Algorithm 2; one controller per constraint                         |
| memory               | I, J_C,prev      | Algorithm 2                                                        |
| policy_loss          |                  | (A − λA_C)/(1 + λ), in PPO's clipped surrogate                     |
| limits, cost_return  | d, J_C           |                                                                    |

The multiplier answers the violation itself and its rise, not only their sum; the direction is PPO's on the penalised
advantage, rescaled so that a large multiplier does not lengthen it; the step is K epochs of minibatches.
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

DESCRIPTION = Description("first", "PID on J_C − b", "none proved", "Stooke et al. 2020")


@pytree_config
class Config(first_order.Config):
    """Defaults: PPO's of Table 3 of the FOCOPS paper. The publication's gains fit undiscounted costs of other tasks;
    here K_I is that table's rate of ν, and K_P is ten times K_I: a violation counts at once as in ten updates."""

    clip: InnerFraction = 0.2
    """ε: how far from 1 the ratio of probabilities still counts. In (0, 1)."""
    k_p: NotNegative = 0.1
    """K_P: answer to the violation J_C − b. ≥ 0."""
    k_i: NotNegative = 0.01
    """K_I: answer to the sum of violations. ≥ 0."""
    k_d: NotNegative = 0.01
    """K_D: answer to a rise of J_C since the update before. ≥ 0."""
    nu_max: NotNegative = 100.0
    """ν_max: upper bound of the multipliers; `inf` for none. ≥ 0."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    m = len(spec.constraints)
    return first_order.init(key, spec, config, memory=multipliers.PID(jnp.zeros(m), jnp.full(m, jnp.inf)))


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: Stats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    critics, batch, cost = estimate(state.critics, state.policy, rollout, stats, progress, config)
    gains = (config.k_p, config.k_i, config.k_d)
    memory, nu = multipliers.pid(state.memory, cost.cost_return, cost.aim, gains, config.nu_max)

    state = state._replace(critics=critics, nu=nu, memory=memory)
    loss = lambda theta, minibatch: policy_loss(theta, minibatch, nu, config)
    state, epochs, kl = first_order.improve(key, state, batch, loss, None, progress, config)
    return state, first_order.report(state, batch, cost, epochs, kl, config)


def policy_loss(theta: Params, batch: Batch, nu: Float[Array, "m"], config: Config) -> Float[Array, ""]:
    return -surrogates.penalised(theta, batch, nu, config.clip, config)
