"""Lyapunov-projected policy gradient (Chow, Nachum, Faust, Duéñez-Guzmán, Ghavamzadeh 2019), its θ-projection.

| here                 | paper                | where                                                          |
|----------------------|----------------------|----------------------------------------------------------------|
| slack                | ε̃                    | (1 − γ)(d_0 − D_{π_B}(x_0)), here summed over an episode       |
| critics.values[1:]   | L, up to a constant  | L_{π_B}(x) = D_{π_B}(x) + ε̃/(1 − γ)                            |
| b                    | ∇_θ ∫π_θ Q_L         | at π_B = π_k; Â_C is Q_L up to what depends on x alone         |
| free                 | θ − θ_B              | of the unconstrained policy gradient (PPO: their SPPO)         |
| trust_region.project | θ-projection         | nearest parameters, in the L2 norm, that meet the constraint   |

A Lyapunov function L of the constrained problem has T_π[L] ≤ L for every safe step from the baseline π_B = π_k. For all
states at once that is  E_{a∼π}[Q_L(s,a)] − E_{a∼π_B}[Q_L(s,a)] ≤ ε̃; the publication's θ-projection linearises it in θ
and, since there is one per state, averages over the batch's states: b_iᵀ(θ − θ_k) ≤ (1 − γ)(d_0 − D), which summed over
an episode is  J_C + worth·∇E[ratio·Â_C]ᵀ(θ − θ_k) ≤ d_0. This file does it once per update:

1. direction and step of the reward: K epochs of PPO;
2. projection: the nearest θ that meets the linearised Lyapunov constraints. From an unsafe baseline the constraints
   ask for no more than a step as long as the reward's can achieve (the publication steps on the constraint alone);
3. shortened until the mean KL from the baseline is within δ, where the linearisation may be trusted.

No multiplier. Not here: the publication's a-projection, which needs Q_L(s, a) and changes how the policy acts.
"""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key

from focops.core import first_order, policy, surrogates, trust_region
from focops.core.base import network
from focops.core.description import Description
from focops.core.estimate import Batch, estimate
from focops.core.fields import Count, InnerFraction, Positive, pytree_config, static
from focops.core.first_order import Info, State
from focops.core.normalize import Stats
from focops.core.spec import Spec
from focops.core.types import Params, Rollout

DESCRIPTION = Description("first", "none: projection", "safe from safe, to first order", "Chow et al. 2019")


@pytree_config
class Config(first_order.Config):
    """Defaults: PPO's of Table 3 of the FOCOPS paper; δ and its line search are FOCOPS's and CPO's of that table."""

    clip: InnerFraction = 0.2
    """ε: how far from 1 the ratio of probabilities still counts. In (0, 1)."""
    trust_region: Positive = 0.02
    """δ: bound of the mean KL(new‖old) of the projected step. > 0."""
    backtracking: InnerFraction = 0.8
    """Factor by which a rejected step is shortened. In (0, 1)."""
    max_backtracks: Count = static(10)
    """Lengths tried before the policy is left as it is. ≥ 1."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return first_order.init(key, spec, config)


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: Stats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    critics, batch, cost = estimate(state.critics, state.policy, rollout, stats, progress, config)
    baseline, unravel = ravel_pytree(state.policy)
    loss = lambda theta, minibatch: policy_loss(theta, minibatch, config)
    state = state._replace(critics=critics)
    state, epochs, _ = first_order.improve(key, state, batch, loss, None, progress, config)
    free = ravel_pytree(state.policy)[0] - baseline

    costs = lambda flat: cost.worth * (surrogates.ratio(unravel(flat), batch, config) @ batch.cost_advantage)
    b = jax.jacrev(costs)(baseline) / batch.advantage.size
    slack = cost.aim - cost.cost_return
    slack = jnp.maximum(slack, -jnp.linalg.norm(free) * jnp.linalg.norm(b, axis=1))
    step = free - trust_region.project(b @ b.T, b @ free - slack) @ b

    kl = lambda x: jnp.mean(policy.distribution(network(config), unravel(baseline + x), batch.obs).kl(batch.old))
    check = lambda x: (kl(x) <= config.trust_region, kl(x))
    step, _, moved = trust_region.backtrack(check, step, config.backtracking, config.max_backtracks)
    state = state._replace(policy=unravel(baseline + step))
    return state, first_order.report(state, batch, cost, epochs, moved, config)


def policy_loss(theta: Params, batch: Batch, config: Config) -> Float[Array, ""]:
    return -surrogates.clipped(surrogates.ratio(theta, batch, config), batch.advantage, config.clip)
