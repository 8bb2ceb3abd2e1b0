"""An algorithm of somebody else's: PPO on a reward from which a fixed price of the costs is subtracted."""

from jaxtyping import Array, Float, Key

from focops.core import first_order, surrogates
from focops.core.estimate import estimate
from focops.core.fields import InnerFraction, NotNegative, Unbounded, pytree_config
from focops.core.first_order import Info, State
from focops.core.normalize import RunningStats
from focops.core.spec import Spec
from focops.core.types import Rollout


@pytree_config
class Config(first_order.Config):
    price: NotNegative = 1.0
    """Of a unit of cost, in units of reward. ≥ 0."""
    bonus: Unbounded = 0.0
    """Added to every reward."""
    clip: InnerFraction = 0.2
    """How far from 1 the ratio of probabilities still counts. In (0, 1)."""


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    return first_order.init(key, spec, config)


def update(
    key: Key[Array, ""], state: State, rollout: Rollout, stats: RunningStats, progress: Float[Array, ""], config: Config
) -> tuple[State, Info]:
    rollout = rollout._replace(reward=rollout.reward + config.bonus - config.price * rollout.cost.sum(-1))
    critics, batch, cost = estimate(state.critics, state.policy, rollout, stats, progress, config)
    loss = lambda theta, minibatch: (
        -surrogates.clipped(surrogates.ratio(theta, minibatch, config), minibatch.advantage, config.clip)
    )
    state, epochs, kl = first_order.improve(key, state._replace(critics=critics), batch, loss, None, progress, config)
    return state, first_order.report(state, batch, cost, epochs, kl, config)
