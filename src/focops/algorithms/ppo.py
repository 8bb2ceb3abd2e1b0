"""PPO: Proximal Policy Optimization (Schulman et al., 2017), which sees no constraint: the unconstrained reference.

| here        | paper   | where                                                              |
|-------------|---------|--------------------------------------------------------------------|
| clip        | ε       | Schulman 2017, Eq. 7                                               |
| policy_loss | −L^CLIP | Schulman 2017, Eq. 7; FOCOPS paper, appendix on PPO-L              |
| advantage   | Â       | GAE, standardised over the batch                                   |

No multiplier; the policy climbs the clipped surrogate; the step is K epochs of minibatches. Costs are estimated and
their critics trained all the same, so that a run reports what ignoring the constraint costs.
"""

from jaxtyping import Array, Float, Key

from focops.core import first_order, surrogates
from focops.core.description import UNCONSTRAINED, Description
from focops.core.estimate import Batch, estimate
from focops.core.fields import InnerFraction, pytree_config
from focops.core.first_order import Info, State
from focops.core.normalize import Stats
from focops.core.spec import Spec
from focops.core.types import Params, Rollout

DESCRIPTION = Description("first", "none", UNCONSTRAINED, "Schulman et al. 2017")


@pytree_config
class Config(first_order.Config):
    """Defaults: Table 3 of the FOCOPS paper."""

    clip: InnerFraction = 0.2
    """ε: how far from 1 the ratio of probabilities still counts. In (0, 1)."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return first_order.init(key, spec, config)


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: Stats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    critics, batch, cost = estimate(state.critics, state.policy, rollout, stats, progress, config)
    state = state._replace(critics=critics)
    loss = lambda theta, minibatch: policy_loss(theta, minibatch, config)
    state, epochs, kl = first_order.improve(key, state, batch, loss, None, progress, config)
    return state, first_order.report(state, batch, cost, epochs, kl, config)


def policy_loss(theta: Params, batch: Batch, config: Config) -> Float[Array, ""]:
    """−L^CLIP(θ)."""
    return -surrogates.clipped(surrogates.ratio(theta, batch, config), batch.advantage, config.clip)
