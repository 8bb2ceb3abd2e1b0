"""TRPO-Lagrangian (Ray, Achiam, Amodei 2019; FOCOPS paper, appendix "TRPO-Lagrangian").

| here                      | paper         | where                                                         |
|---------------------------|---------------|---------------------------------------------------------------|
| nu                        | ν             | the appendix; one per constraint                              |
| batch.advantage           | of L̃          | the appendix prints + ν(J_C − b); − ν(J_C − b) is meant       |
| trust_region              | δ             | the appendix's KL constraint                                  |
| direction                 | H⁻¹g̃          | its Taylor approximation, solved as TRPO                      |
| limits, cost_return       | b, J_C        |                                                               |

First the policy takes TRPO's step on the advantage Â − ν·Â_C, then ν takes its own.
"""

from jaxtyping import Array, Float, Key

from focops.core import multipliers, second_order
from focops.core.description import Description
from focops.core.estimate import estimate
from focops.core.fields import Finite, pytree_config
from focops.core.normalize import Stats
from focops.core.second_order import Info, State
from focops.core.spec import Spec
from focops.core.types import Rollout

DESCRIPTION = Description("second", "integrates J_C − b", "none proved", "Ray et al. 2019")


@pytree_config
class Config(multipliers.LeadConfig, second_order.Config):
    """Defaults: Table 3 of the FOCOPS paper."""

    init_log_std: Finite = -1.0
    """log σ at the start (continuous actions)."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return second_order.init(key, spec, config, config.nu_init)


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: Stats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    critics, batch, cost = estimate(state.critics, state.policy, rollout, stats, progress, config)
    rate = multipliers.step_size(cost.cost_return, cost.aim, cost.error, config)
    pressure = multipliers.lead(state.nu, cost.cost_return, cost.aim, cost.worth, rate, config)
    settled = multipliers.settled(rate, progress, cost.cost_return - cost.aim, cost.error, config)
    nu = multipliers.step(state.nu, cost.cost_return, cost.aim, settled, config.nu_max)

    batch = batch._replace(advantage=batch.advantage - batch.cost_advantage @ pressure)
    state = state._replace(critics=critics, nu=nu)
    return second_order.natural_gradient_update(state, batch, progress, cost, config)
