"""The stochastic policy π_θ: a network and, for continuous actions, a state-independent log standard deviation."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from focops.core.distributions import Categorical, DiagonalGaussian, Distribution
from focops.core.networks import Network
from focops.core.spec import Spec
from focops.core.types import Params


class GaussianParams(NamedTuple):
    network: Params
    log_std: Float[Array, "A"]


class CategoricalParams(NamedTuple):
    network: Params


PolicyParams = GaussianParams | CategoricalParams


def init(key: Key[Array, ""], network: Network, spec: Spec, init_log_std: Float[Array, ""] | float) -> PolicyParams:
    params = network.init(key, spec.obs_size, spec.action_size)
    if spec.discrete:
        return CategoricalParams(params)
    return GaussianParams(params, jnp.full(spec.action_size, init_log_std, jnp.float32))


def distribution(network: Network, params: PolicyParams, obs: Float[Array, "*batch O"]) -> Distribution:
    """π_θ(·|s) for a batch of states."""
    output = network.apply(params.network, obs)
    if isinstance(params, GaussianParams):
        return DiagonalGaussian(output, params.log_std)
    return Categorical(output)


def noise(key: Key[Array, ""], spec: Spec, shape: tuple[int, ...]) -> Float[Array, "*batch A"]:
    """Randomness for `shape` samples of the policy's distribution."""
    kind = Categorical if spec.discrete else DiagonalGaussian
    return kind.noise(key, shape, spec.action_size)
