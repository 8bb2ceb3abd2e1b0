"""Networks as plain pytrees, behind a protocol of two functions so that users can plug in their own."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from focops.core.types import Params


@runtime_checkable
class Network(Protocol):
    """A function of observations with parameters: anything with these two functions can replace an MLP."""

    def init(self, key: Key[Array, ""], in_size: int, out_size: int) -> Params: ...

    def apply(self, params: Params, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]: ...


class Layer(NamedTuple):
    weight: Float[Array, "in out"]
    bias: Float[Array, "out"]


class MLP(NamedTuple):
    """tanh layers of the given widths, then a linear one.

    Weights and biases start uniform in ±1/√fan_in; the last layer's weights are then scaled by `last_scale` and its
    bias is 0, so that a new policy acts near 0 and a new critic predicts near 0.
    """

    hidden: Sequence[int] = (64, 64)
    last_scale: float = 0.1

    def init(self, key: Key[Array, ""], in_size: int, out_size: int) -> list[Layer]:
        sizes = (in_size, *self.hidden, out_size)
        layers = []
        for k, fan_in, fan_out in zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True):
            bound = fan_in**-0.5
            k_weight, k_bias = jax.random.split(k)
            weight = jax.random.uniform(k_weight, (fan_in, fan_out), minval=-bound, maxval=bound)
            layers.append(Layer(weight, jax.random.uniform(k_bias, (fan_out,), minval=-bound, maxval=bound)))
        last = layers[-1]
        layers[-1] = Layer(last.weight * self.last_scale, jnp.zeros_like(last.bias))
        return layers

    def apply(self, params: list[Layer], x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        for layer in params[:-1]:
            x = jnp.tanh(x @ layer.weight + layer.bias)
        return x @ params[-1].weight + params[-1].bias
