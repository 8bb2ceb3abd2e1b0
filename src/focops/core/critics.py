"""The reward critic V_φ and the m cost critics V^C_ψ: their losses, a minibatch's step, and a full-batch fit."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from focops.core import cost_return, sgd
from focops.core.base import Config, network
from focops.core.spec import Spec
from focops.core.types import Params

_PACE = 0.1
"""Share of the way to a batch's own units: they may not jump, since every value jumps with them."""


class Critics(NamedTuple):
    """The critics of the current policy, with all that their training carries from batch to batch."""

    params: Params
    """1 + m networks, the reward's first, stacked along each leaf's first axis; evaluated and fitted as one."""
    adam: Any
    units: Float[Array, "k"]
    """V(s) = unit · network(s) for each of the k = 1 + m; 0 before the first batch of targets (counts as 1)."""
    cost_return: cost_return.State

    @property
    def scale(self) -> Float[Array, "k"]:
        return jnp.where(self.units > 0, self.units, 1.0)


def init(value_key: Key[Array, ""], cost_key: Key[Array, ""], spec: Spec, config: Config) -> Critics:
    net, m = network(config), len(spec.constraints)
    keys = jnp.concatenate([value_key[None], jax.random.split(cost_key, m)])
    params = jax.vmap(lambda k: net.init(k, spec.obs_size, 1))(keys)
    return Critics(params, sgd.ADAM.init(params), jnp.zeros(1 + m), cost_return.init(m, spec.obs_size, spec.time_limit))


def value(
    params: Params, unit: Float[Array, ""] | float, obs: Float[Array, "*batch O"], config: Config
) -> Float[Array, "*batch"]:
    """V_φ(s) of one critic."""
    return unit * network(config).apply(params, obs)[..., 0]


def values(critics: Critics, obs: Float[Array, "*batch O"], config: Config, first: int = 0) -> Float[Array, "k *batch"]:
    """V(s) of each critic: the reward's and the costs', or with `first` = 1 the costs' alone."""
    chosen = jax.tree.map(lambda x: x[first:], (critics.params, critics.scale))
    return jax.vmap(lambda p, unit: value(p, unit, obs, config))(*chosen)


def in_units_of(critics: Critics, targets: Float[Array, "N k"], config: Config) -> Critics:
    """Move the units towards the size of a batch's targets: by the fraction `_PACE`, the first time all the way."""
    asked = jnp.where(config.value_units, jnp.sqrt(jnp.mean(targets**2, 0)), 1.0)
    known = critics.units > 0
    return critics._replace(units=jnp.where(known, critics.units + _PACE * (asked - critics.units), asked))


def value_loss(
    params: Params,
    unit: Float[Array, ""] | float,
    obs: Float[Array, "N O"],
    target: Float[Array, "N"],
    config: Config,
) -> Float[Array, ""]:
    """Mean squared error plus the L2 penalty."""
    error = value(params, unit, obs, config) - target
    return jnp.mean(error**2) + config.value_l2 * sum(jnp.sum(p**2) for p in jax.tree.leaves(params))


def losses(
    params: Params, units: Float[Array, "k"], obs: Float[Array, "N O"], targets: Float[Array, "N k"], config: Config
) -> Float[Array, ""]:
    """The losses of k stacked critics, summed; each sees only the gradient of its own."""
    return jnp.sum(jax.vmap(lambda p, u, y: value_loss(p, u, obs, y, config), (0, 0, 1))(params, units, targets))


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
    gradient = jax.grad(losses)(critics.params, critics.scale, obs, targets, config)
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
    found = values(critics, obs, config)
    return (
        jnp.mean((found[0] - target) ** 2),
        jnp.mean((found[1:] - cost_target.T) ** 2, -1),
    )
