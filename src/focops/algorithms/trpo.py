"""TRPO: Trust Region Policy Optimization (Schulman et al., 2015), unconstrained: the second-order reference.

| here            | paper           | where                                                            |
|-----------------|-----------------|------------------------------------------------------------------|
| trust_region    | δ               | Schulman 2015, Eq. 12: mean KL                                   |
| Local.product   | A, or H         | Appendix C: Hessian of the mean KL, here by Gauss-Newton         |
| direction       | H⁻¹g            | Appendix C: conjugate gradient                                   |
| backtracking    |                 | Appendix C: line search                                          |

No multiplier; the policy follows the natural gradient of E[ratio·Â]; the step is as long as δ allows.
"""

from jaxtyping import Array, Float, Key

from focops.core import second_order
from focops.core.description import UNCONSTRAINED, Description
from focops.core.estimate import estimate
from focops.core.fields import Finite, pytree_config
from focops.core.normalize import Stats
from focops.core.second_order import Info, State
from focops.core.spec import Spec
from focops.core.types import Rollout

DESCRIPTION = Description("second", "none", UNCONSTRAINED, "Schulman et al. 2015")


@pytree_config
class Config(second_order.Config):
    """Defaults: those of TRPO-L in Table 3 of the FOCOPS paper."""

    init_log_std: Finite = -1.0
    """log σ at the start (continuous actions)."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return second_order.init(key, spec, config)


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: Stats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    critics, batch, cost = estimate(state.critics, state.policy, rollout, stats, progress, config)
    state = state._replace(critics=critics)
    return second_order.natural_gradient_update(state, batch, progress, cost, config)
