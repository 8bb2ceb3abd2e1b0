"""The reward critic V_φ and the m cost critics V^C_ψ: their losses, a minibatch's step, and a full-batch fit."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from focops.core import cost_return, sgd
from focops.core.base import Config, network
from focops.core.spec import Spec
from focops.core.types import Params


class Critics(NamedTuple):
    """What is learned about the current policy, and what learning it remembers."""

    params: Params
    """1 + m networks, the reward's first, stacked along each leaf's first axis; evaluated and fitted as one."""
    adam: Any
    cost_return: cost_return.State

    @property
    def value(self) -> Params:
        return jax.tree.map(lambda p: p[0], self.params)

    @property
    def cost_value(self) -> Params:
        """m critics, stacked along each leaf's first axis."""
        return jax.tree.map(lambda p: p[1:], self.params)


def init(value_key: Key[Array, ""], cost_key: Key[Array, ""], spec: Spec, config: Config) -> Critics:
    net, m = network(config), len(spec.constraints)
    keys = jnp.concatenate([value_key[None], jax.random.split(cost_key, m)])
    params = jax.vmap(lambda k: net.init(k, spec.obs_size, 1))(keys)
    return Critics(params, sgd.ADAM.init(params), cost_return.init(m, spec.obs_size, spec.time_limit))


def value(params: Params, obs: Float[Array, "*batch O"], config: Config) -> Float[Array, "*batch"]:
    """V_φ(s) of one critic."""
    return network(config).apply(params, obs)[..., 0]


def values(params: Params, obs: Float[Array, "*batch O"], config: Config) -> Float[Array, "k *batch"]:
    """V(s) of each of k stacked critics."""
    return jax.vmap(lambda p: value(p, obs, config))(params)


def value_loss(params: Params, obs: Float[Array, "N O"], target: Float[Array, "N"], config: Config) -> Float[Array, ""]:
    """Mean squared error plus the L2 penalty."""
    error = value(params, obs, config) - target
    return jnp.mean(error**2) + config.value_l2 * sum(jnp.sum(p**2) for p in jax.tree.leaves(params))


def losses(params: Params, obs: Float[Array, "N O"], targets: Float[Array, "N k"], config: Config) -> Float[Array, ""]:
    """The losses of k stacked critics, summed; each sees only the gradient of its own."""
    return jnp.sum(jax.vmap(lambda p, y: value_loss(p, obs, y, config), (0, 1))(params, targets))


def step(
    critics: Critics,
    obs: Float[Array, "N O"],
    target: Float[Array, "N"],
    cost_target: Float[Array, "N m"],
    annealed: Float[Array, ""] | float,
    config: Config,
) -> Critics:
    """One Adam step of every critic on its own loss; `annealed` scales the learning rates."""
    targets = jnp.concatenate([target[:, None], cost_target], 1)
    gradient = jax.grad(losses)(critics.params, obs, targets, config)
    costs = jnp.arange(targets.shape[1]) > 0
    rates = annealed * jnp.where(costs, config.cost_value_rate, config.value_rate)
    params, adam = sgd.descend(critics.params, critics.adam, gradient, rates)
    return critics._replace(params=params, adam=adam)


def fit(
    critics: Critics,
    obs: Float[Array, "N O"],
    target: Float[Array, "N"],
    cost_target: Float[Array, "N m"],
    annealed: Float[Array, ""] | float,
    iterations: int,
    config: Config,
) -> Critics:
    """`iterations` Adam steps on the whole batch."""
    once = lambda _, critics: step(critics, obs, target, cost_target, annealed, config)
    return jax.lax.fori_loop(0, iterations, once, critics)


def errors(
    critics: Critics,
    obs: Float[Array, "N O"],
    target: Float[Array, "N"],
    cost_target: Float[Array, "N m"],
    config: Config,
) -> tuple[Float[Array, ""], Float[Array, "m"]]:
    """Mean squared errors of the reward critic and of each cost critic."""
    found = values(critics.params, obs, config)
    return (
        jnp.mean((found[0] - target) ** 2),
        jnp.mean((found[1:] - cost_target.T) ** 2, -1),
    )
