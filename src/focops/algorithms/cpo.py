"""CPO: Constrained Policy Optimization (Achiam, Held, Tamar, Abbeel; ICML 2017), Algorithm 1.

| here                 | paper         | where                                                                 |
|----------------------|---------------|-----------------------------------------------------------------------|
| g, b                 | g, B          | gradients of the reward's and of the costs' surrogates                |
| c                    | c             | J_C(π_k) − d, in units of the return                                  |
| Local.product        | H             | Hessian of the mean KL                                                |
| trust_region         | δ             | bound of the mean KL                                                  |
| trust_region.solve   | λ*, ν*        | the dual; by active sets for several constraints                      |
| solution.feasible    | recovery      | if not, the step back when no point of the trust region is feasible   |
| cost.worth           | 1/(1 − γ)     | Proposition 2; here the episodes' mean discounted length              |
| nu                   | ν*            | multiplier of the step, λ·w, reported only                            |

The multiplier is solved for anew in every update; the direction is H⁻¹(g − Bν); the step is as long as δ allows,
shortened until KL, costs and, from a feasible policy, the reward's surrogate agree with what the linear model promised.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from focops.core import second_order, trust_region
from focops.core.description import Description
from focops.core.estimate import estimate
from focops.core.fields import pytree_config
from focops.core.normalize import Stats
from focops.core.second_order import Info, State
from focops.core.spec import Spec
from focops.core.types import Rollout

DESCRIPTION = Description("second", "solved per update", "bounded violation per update", "Achiam et al. 2017")


@pytree_config
class Config(second_order.Config):
    """Defaults: Table 3 of the FOCOPS paper."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return second_order.init(key, spec, config)


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: Stats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    critics, batch, cost = estimate(state.critics, state.policy, rollout, stats, progress, config)
    near = second_order.local(state.policy, batch, config)
    objectives = second_order.objectives(near, cost.worth)
    old, gradients = objectives(near.zero), jax.jacrev(objectives)(near.zero)
    c = cost.cost_return - cost.aim

    natural = second_order.natural(near, gradients, config)
    (g, b), (h_g, h_b) = (gradients[0], gradients[1:]), (natural[0], natural[1:])
    s = b @ h_b.T
    solution = trust_region.solve(g @ h_g, b @ h_g, (s + s.T) / 2, c, config.trust_region)
    step = solution.reward * h_g - solution.cost @ h_b

    def agree(x):
        gain = objectives(x) - old
        rises = (gain[0] >= 0) | jnp.any(c > 0)
        return rises & jnp.all(gain[1:] <= jnp.maximum(-c, 0))

    nu = solution.cost / jnp.maximum(solution.reward, 1e-8) * solution.feasible
    state = state._replace(critics=critics, nu=nu)
    return second_order.finish(state, near, step, agree, batch, progress, cost, config)
