"""PCPO: Projection-Based Constrained Policy Optimization (Yang, Rosca, Narasimhan, Ramadge; ICLR 2020), Algorithm 1.

| here                 | paper          | where                                                                |
|----------------------|----------------|----------------------------------------------------------------------|
| g, b, c              | g, a, b        | gradients of reward and costs, J_C(π_k) − h                          |
| length · h_g         | θ^{k+½} − θ^k  | reward improvement: TRPO's step                                      |
| metric               | L              | of the projection: H ("kl") or I ("l2")                              |
| trust_region.project | max(0, ·)      | projection; by active sets for several constraints                   |
| cost.worth           | 1/(1 − γ)      | as in CPO                                                            |
| curved               |                | H·step, from what the conjugate gradients solved                     |
| nu                   |                | length of the projection along each constraint, reported only        |

No multiplier; the direction is the reward's natural gradient, then the shortest way back to where the linearised
constraints hold; the step is TRPO's. Projecting from an infeasible policy, or in the L2 metric, may lead out of the
trust region, where the linear model does not hold: such a step is cut to δ, and all steps are shortened as in CPO.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from focops.core import second_order, trust_region
from focops.core.description import Description
from focops.core.estimate import estimate
from focops.core.fields import pytree_config, static
from focops.core.normalize import Stats
from focops.core.second_order import Info, State
from focops.core.spec import Spec
from focops.core.types import Rollout

DESCRIPTION = Description("second", "none: projection", "bounded violation per update", "Yang et al. 2020")


@pytree_config
class Config(second_order.Config):
    """Defaults: those of CPO in Table 3 of the FOCOPS paper."""

    metric: Literal["kl", "l2"] = static("kl")
    """Distance in which the reward's step is projected: the KL's Hessian, or plain parameters."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return second_order.init(key, spec, config)


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: Stats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    critics, batch, cost = estimate(state.critics, state.policy, rollout, stats, progress, config)
    near = second_order.local(state.policy, batch, config)
    objectives = second_order.objectives(near, cost.worth)
    old, gradients = objectives(near.zero), jax.jacrev(objectives)(near.zero)
    g, b, c = gradients[0], gradients[1:], cost.cost_return - cost.aim

    natural = second_order.natural(near, gradients if config.metric == "kl" else g[None], config)
    h_g, way_back = natural[0], natural[1:] if config.metric == "kl" else b
    length = jnp.sqrt(2 * config.trust_region / jnp.maximum(g @ h_g, 1e-30))
    s = b @ way_back.T
    w = trust_region.project((s + s.T) / 2, c + length * (b @ h_g))
    step = length * h_g - w @ way_back
    curved = length * g - w @ (b if config.metric == "kl" else jax.vmap(near.product)(b))
    step = step * jnp.minimum(1.0, jnp.sqrt(2 * config.trust_region / jnp.maximum(step @ curved, 1e-30)))

    within = lambda x: jnp.all((objectives(x) - old)[1:] <= jnp.maximum(-c, 0))
    state = state._replace(critics=critics, nu=w)
    return second_order.finish(state, near, step, within, batch, progress, cost, config)
