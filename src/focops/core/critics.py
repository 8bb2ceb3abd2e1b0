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

    value: Params
    cost_value: Params
    """m critics, stacked along each leaf's first axis."""
    value_adam: Any
    cost_value_adam: Any
    cost_return: cost_return.State


def init(value_key: Key[Array, ""], cost_key: Key[Array, ""], spec: Spec, config: Config) -> Critics:
    net, m = network(config), len(spec.constraints)
    params = net.init(value_key, spec.obs_size, 1)
    cost_params = jax.vmap(lambda k: net.init(k, spec.obs_size, 1))(jax.random.split(cost_key, m))
    estimator = cost_return.init(m, spec.obs_size, spec.time_limit)
    return Critics(params, cost_params, sgd.ADAM.init(params), sgd.ADAM.init(cost_params), estimator)


def value(params: Params, obs: Float[Array, "*batch O"], config: Config) -> Float[Array, "*batch"]:
    """V_φ(s)."""
    return network(config).apply(params, obs)[..., 0]


def cost_value(params: Params, obs: Float[Array, "*batch O"], config: Config) -> Float[Array, "m *batch"]:
    """V^C_ψ(s) of each constraint."""
    return jax.vmap(lambda p: value(p, obs, config))(params)


def value_loss(params: Params, obs: Float[Array, "N O"], target: Float[Array, "N"], config: Config) -> Float[Array, ""]:
    """Mean squared error plus the L2 penalty."""
    error = value(params, obs, config) - target
    return jnp.mean(error**2) + config.value_l2 * sum(jnp.sum(p**2) for p in jax.tree.leaves(params))


def cost_value_loss(
    params: Params, obs: Float[Array, "N O"], target: Float[Array, "N m"], config: Config
) -> Float[Array, ""]:
    """The m cost critics' losses, summed; each critic sees only the gradient of its own."""
    losses = jax.vmap(lambda p, y: value_loss(p, obs, y, config), (0, 1))(params, target)
    return jnp.sum(losses)


def step(
    critics: Critics,
    obs: Float[Array, "N O"],
    target: Float[Array, "N"],
    cost_target: Float[Array, "N m"],
    annealed: Float[Array, ""] | float,
    config: Config,
) -> Critics:
    """One Adam step of every critic on its own loss; `annealed` scales the learning rates."""
    params, adam = sgd.descend(
        critics.value, critics.value_adam,
        jax.grad(value_loss)(critics.value, obs, target, config),
        annealed * config.value_rate,
    )  # fmt: skip
    cost_params, cost_adam = sgd.descend(
        critics.cost_value, critics.cost_value_adam,
        jax.grad(cost_value_loss)(critics.cost_value, obs, cost_target, config),
        annealed * config.cost_value_rate,
    )  # fmt: skip
    return critics._replace(value=params, value_adam=adam, cost_value=cost_params, cost_value_adam=cost_adam)


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
    return (
        jnp.mean((value(critics.value, obs, config) - target) ** 2),
        jnp.mean((cost_value(critics.cost_value, obs, config) - cost_target.T) ** 2, -1),
    )
