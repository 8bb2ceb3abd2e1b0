"""The stochastic policy π_θ: a network and, for continuous actions, a state-independent log standard deviation."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from focops.core.distributions import Categorical, DiagonalGaussian, Distribution, MultiCategorical
from focops.core.fields import pytree_config, static
from focops.core.networks import Network
from focops.core.spec import Spec
from focops.core.types import Params


class GaussianParams(NamedTuple):
    network: Params
    log_std: Float[Array, "A"]


class CategoricalParams(NamedTuple):
    network: Params


@pytree_config
class MultiCategoricalParams:
    network: Params
    nvec: tuple[int, ...] = static(())


PolicyParams = GaussianParams | CategoricalParams | MultiCategoricalParams
_NO_BOUND = 1e3
"""A range wider than this does not indicate the scale of an action."""


def init(
    key: Key[Array, ""],
    network: Network,
    spec: Spec,
    init_log_std: Float[Array, ""] | float,
    std_units: Bool[Array, ""] | Float[Array, ""] | bool = False,
) -> PolicyParams:
    """A new network; σ = e^init_log_std, with `std_units` times half of each action's range."""
    params = network.init(key, spec.obs_size, spec.action_size)
    if spec.nvec is not None:
        return MultiCategoricalParams(params, spec.nvec)
    if spec.discrete:
        return CategoricalParams(params)
    return GaussianParams(params, init_log_std + std_units * jnp.asarray(np.log(_half_range(spec)), jnp.float32))


def _half_range(spec: Spec) -> Float[np.ndarray, "A"]:
    """Half the range of each continuous action; 1 where the range is empty or unbounded."""
    if spec.action_low is None or spec.action_high is None:
        return np.ones(spec.action_size)
    half = (np.array(spec.action_high, np.float64) - np.array(spec.action_low, np.float64)) / 2
    return np.where((half > 0) & (half <= _NO_BOUND), half, 1.0)


def distribution(network: Network, params: PolicyParams, obs: Float[Array, "*batch O"]) -> Distribution:
    """π_θ(·|s) for a batch of states."""
    output = network.apply(params.network, obs)
    if isinstance(params, GaussianParams):
        return DiagonalGaussian(output, params.log_std)
    if isinstance(params, MultiCategoricalParams):
        return MultiCategorical(output, params.nvec)
    return Categorical(output)


def noise(key: Key[Array, ""], spec: Spec, shape: tuple[int, ...]) -> Float[Array, "*batch A"]:
    """Randomness for `shape` samples of the policy's distribution."""
    kind = Categorical if spec.discrete else DiagonalGaussian
    return kind.noise(key, shape, spec.action_size)
