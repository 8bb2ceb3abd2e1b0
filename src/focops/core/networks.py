"""Networks as plain pytrees, behind a protocol of two functions so that users can plug in their own."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from focops.core.types import Params
from focops.errors import UsageError


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
        keys = jax.random.split(key, len(sizes) - 1)
        layers = [Layer(*_uniform(*each)) for each in zip(keys, itertools.pairwise(sizes), strict=True)]
        last = layers[-1]
        layers[-1] = Layer(last.weight * self.last_scale, jnp.zeros_like(last.bias))
        return layers

    def apply(self, params: list[Layer], x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        return _dense(params, x, jnp.tanh)


def _uniform(key: Key[Array, ""], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """A weight whose last axis is the output, and a bias, both uniform in ±1/√fan_in."""
    bound = math.prod(shape[:-1]) ** -0.5
    k_weight, k_bias = jax.random.split(key)
    uniform = lambda k, shape: jax.random.uniform(k, shape, minval=-bound, maxval=bound)
    return uniform(k_weight, shape), uniform(k_bias, shape[-1:])


def _dense(
    layers: list[Layer], x: Float[Array, "*batch in"], activation: Callable[[Array], Array]
) -> Float[Array, "*batch out"]:
    for layer in layers[:-1]:
        x = activation(x @ layer.weight + layer.bias)
    return x @ layers[-1].weight + layers[-1].bias


class Convolution(NamedTuple):
    weight: Float[Array, "side side in out"]
    bias: Float[Array, "out"]


class Convolutional(NamedTuple):
    """The parameters of a `NatureCNN`."""

    convolutions: list[Convolution]
    dense: list[Layer]


_CONVOLUTIONS = (32, 8, 4), (64, 4, 2), (64, 3, 1)
"""Channels, side of the filters, stride (Mnih 2015)."""
SMALLEST_IMAGE = 36
"""The side of an image at which the last filter has just one place."""


def _convolve(
    x: Float[Array, "N height width in"], weight: Float[Array, "side side in out"], stride: int
) -> Float[Array, "N rows columns out"]:
    """A convolution without padding whose filters' side is a multiple of the stride, as one product of matrices.

    XLA's own convolution takes ten times as long on a CPU inside a loop, and training is one; and it is slow where
    several networks are evaluated at once (grouped), as the critics are.
    """
    n, height, width, channels = x.shape
    k, out = weight.shape[0] // stride, weight.shape[-1]
    rows, columns = height // stride, width // stride
    # blocks of stride×stride pixels: a filter covers k×k whole ones
    blocks = x[:, : rows * stride, : columns * stride].reshape(n, rows, stride, columns, stride, channels)
    blocks = blocks.transpose(0, 1, 3, 2, 4, 5).reshape(n, rows, columns, -1)
    rows, columns = rows - k + 1, columns - k + 1
    covered = [blocks[:, i : i + rows, j : j + columns] for i in range(k) for j in range(k)]
    weight = weight.reshape(k, stride, k, stride, channels, out).transpose(0, 2, 1, 3, 4, 5).reshape(-1, out)
    return jnp.concatenate(covered, -1) @ weight


class NatureCNN(NamedTuple):
    """The network of Mnih et al. (2015) for images: three convolutions, then dense layers, all with ReLU, and a linear
    one. Weights start as an `MLP`'s.

    It takes images as flat vectors. Their shape is [height, width], [height, width, channels], or, where the first
    number is less than the last, [channels, height, width], as stacks of frames are.
    """

    shape: tuple[int, ...]
    hidden: Sequence[int] = (512,)

    def __str__(self) -> str:
        height, width, channels = self.size
        return f"NatureCNN {height}×{width}×{channels}, {', '.join(map(str, self.hidden))}"

    @property
    def channels_first(self) -> bool:
        return len(self.shape) == 3 and self.shape[0] < self.shape[2]

    @property
    def size(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        if len(self.shape) == 2:
            return (*self.shape, 1)
        first, second, third = self.shape
        return (second, third, first) if self.channels_first else (first, second, third)

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the convolutions."""
        return tuple(stride for _, _, stride in _CONVOLUTIONS)

    @property
    def is_large_enough(self) -> bool:
        """Whether an image has room for the filters."""
        return min(self.size[:2]) >= SMALLEST_IMAGE

    def require_size(self, whose: str) -> None:
        height, width, channels = self.size
        if not self.is_large_enough:
            raise UsageError(
                f"{whose} observes images of {height}×{width}×{channels}; the convolutions need {SMALLEST_IMAGE}×"
                f"{SMALLEST_IMAGE} or more. Enlarge them (gymnasium.wrappers.ResizeObservation), flatten them for an"
                " MLP (gymnasium.wrappers.FlattenObservation), or give a network of your own: focops.train(network=…)"
            )

    def init(self, key: Key[Array, ""], in_size: int, out_size: int) -> Convolutional:
        height, width, channels = self.size
        *keys, dense_key = jax.random.split(key, len(_CONVOLUTIONS) + 1)
        convolutions = []
        for k, (out, side, stride) in zip(keys, _CONVOLUTIONS, strict=True):
            convolutions.append(Convolution(*_uniform(k, (side, side, channels, out))))
            height, width, channels = (height - side) // stride + 1, (width - side) // stride + 1, out
        return Convolutional(convolutions, MLP(self.hidden).init(dense_key, height * width * channels, out_size))

    def apply(self, params: Convolutional, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        batch = x.shape[:-1]
        x = x.reshape(-1, *self.shape)
        x = jnp.moveaxis(x, 1, -1) if self.channels_first else x.reshape(-1, *self.size)
        for layer, stride in zip(params.convolutions, self.strides, strict=True):
            x = jax.nn.relu(_convolve(x, layer.weight, stride) + layer.bias)
        return _dense(params.dense, x.reshape(*batch, -1), jax.nn.relu)


def to_json(network: Any) -> Any:
    """What rebuilds a network of focops; of another, its name."""
    return {"NatureCNN": network._asdict()} if isinstance(network, NatureCNN) else repr(network)


def from_json(described: Any) -> NatureCNN | None:
    """The network of focops that `to_json` described; None for anything else."""
    fields = described.get("NatureCNN") if isinstance(described, dict) and len(described) == 1 else None
    if not isinstance(fields, dict) or fields.keys() != set(NatureCNN._fields):
        return None
    whole = lambda x: isinstance(x, list | tuple) and all(type(each) is int and 0 < each < 2**31 for each in x)
    if not all(map(whole, fields.values())) or len(fields["shape"]) not in (2, 3):
        return None
    found = NatureCNN(tuple(fields["shape"]), tuple(fields["hidden"]))
    return found if found.is_large_enough else None
