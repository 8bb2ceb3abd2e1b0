"""What the first-order algorithms share: Adam on a policy loss and on the critics', minibatch by minibatch."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from focops.core import base, critics, policy, sgd
from focops.core.base import network
from focops.core.critics import Critics
from focops.core.estimate import Batch, CostEstimate
from focops.core.fields import Count, Positive, pytree_config, static
from focops.core.spec import Spec
from focops.core.types import Params


@pytree_config
class Config(base.Config):
    """Defaults: Table 3 of the FOCOPS paper, the same for PPO, PPO-L and FOCOPS."""

    policy_rate: Positive = 3e-4
    """α_π: learning rate of the policy, annealed linearly to 0. > 0."""
    max_grad_norm: Positive = 40.0
    """Clip of the policy gradient's norm (in the authors' program, not in the paper); `inf` for none. > 0."""
    epochs: Count = static(10)
    """K: passes over each batch, unless the KL ends them. ≥ 1."""
    minibatch_size: Count = static(64)
    """B: samples per gradient step; must divide the batch. ≥ 1."""
    stop_in_epoch: bool = False
    """A minibatch whose mean KL(new‖old) is beyond the bound takes no step of the policy, and the critics go on for all
    epochs. If not, as published, the KL is looked at after each epoch only: the first may already go far beyond, and
    the critics then end with it."""


class State(NamedTuple):
    """All that an update carries to the next: parameters, multipliers and the optimisers' state."""

    policy: policy.PolicyParams
    policy_adam: Any
    critics: Critics
    nu: Float[Array, "m"]
    """Multipliers; zeros where the algorithm has none."""
    memory: Any = ()
    """Further state of the algorithm's own rule."""


class Info(NamedTuple):
    """What one update did."""

    cost_return: Float[Array, "m"]
    cost_aim: Float[Array, "m"]
    nu: Float[Array, "m"]
    kl: Float[Array, ""]
    epochs: Int[Array, ""]
    entropy: Float[Array, ""]
    value_loss: Float[Array, ""]
    cost_value_loss: Float[Array, "m"]


def init(
    key: Key[Array, ""], spec: Spec, config: Config, nu: Float[Array, ""] | float = 0.0, memory: Any = ()
) -> State:
    policy_key, value_key, cost_key = jax.random.split(key, 3)
    theta: Params = policy.init(policy_key, network(config), spec, config.init_log_std, config.std_units)
    learned = critics.init(value_key, cost_key, spec, config)
    return State(theta, sgd.ADAM.init(theta), learned, jnp.full(len(spec.constraints), nu, jnp.float32), memory)


def improve(
    key: Key[Array, ""],
    state: State,
    batch: Batch,
    policy_loss: Callable[[Params, Batch], Float[Array, ""]],
    max_kl: Float[Array, ""] | float | None,
    progress: Float[Array, ""],
    config: Config,
) -> tuple[State, Int[Array, ""], Float[Array, ""]]:
    """K epochs of minibatch steps on `policy_loss` and on the critics' losses, or fewer once the mean KL(new‖old) is
    beyond `max_kl` after an epoch (None: never). Returns the state, the epochs used and that KL."""
    annealed = 1.0 - progress

    def minibatch_step(state: State, minibatch: Batch) -> State:
        learned = critics.step(state.critics, minibatch.obs, minibatch.target, minibatch.cost_target, annealed, config)
        gradient = sgd.clip_norm(jax.grad(policy_loss)(state.policy, minibatch), config.max_grad_norm)
        moved = sgd.descend(state.policy, state.policy_adam, gradient, annealed * config.policy_rate)
        if max_kl is not None:
            kl = mean_kl(state, minibatch)
            # one that is not finite goes on to parameters that are not, so that the run is stopped
            stay = jnp.where(config.stop_in_epoch, (kl > max_kl) & jnp.isfinite(kl), False)
            moved = jax.tree.map(lambda old, new: jnp.where(stay, old, new), (state.policy, state.policy_adam), moved)
        theta, adam = moved
        return state._replace(policy=theta, policy_adam=adam, critics=learned)

    def mean_kl(state: State, samples: Batch) -> Float[Array, ""]:
        return jnp.mean(policy.distribution(network(config), state.policy, samples.obs).kl(samples.old))

    divergence = lambda state: mean_kl(state, batch)
    most = None if max_kl is None else jnp.where(config.stop_in_epoch, jnp.inf, max_kl)
    return sgd.epochs(key, state, batch, minibatch_step, divergence, most, config.epochs, config.minibatch_size)


def report(
    state: State,
    batch: Batch,
    cost: CostEstimate,
    epochs: Int[Array, ""],
    kl: Float[Array, ""],
    config: Config,
) -> Info:
    """What the update did, of its last state."""
    losses = critics.errors(state.critics, batch.obs, batch.target, batch.cost_target, config)
    return Info(cost.cost_return, cost.aim, state.nu, kl, epochs, jnp.mean(batch.old.entropy()), *losses)
