"""The networks: what an MLP computes and how it starts."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from focops.core.networks import MLP, NatureCNN, from_json, to_json
from focops.errors import UsageError


def test_an_mlp_is_tanh_layers_and_a_linear_one():
    net = MLP((4, 3))
    params = net.init(jax.random.key(0), 2, 5)
    x = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    h = x
    for layer in params[:-1]:
        h = np.tanh(h @ np.asarray(layer.weight) + np.asarray(layer.bias))
    expected = h @ np.asarray(params[-1].weight) + np.asarray(params[-1].bias)
    np.testing.assert_allclose(net.apply(params, jnp.asarray(x)), expected, atol=1e-6)


def test_an_mlp_starts_uniform_with_a_small_last_layer():
    params = MLP((64, 64)).init(jax.random.key(0), 16, 3)
    first, last = np.asarray(params[0].weight), np.asarray(params[-1].weight)
    assert 0.24 < np.abs(first).max() <= 0.25
    assert np.abs(first.std() - 0.25 / np.sqrt(3)) < 0.01
    assert 0.01 < np.abs(last).max() <= 0.1 / 8
    np.testing.assert_array_equal(params[-1].bias, np.zeros(3))


@pytest.mark.parametrize("shape", [(36, 36, 1), (36, 36), (45, 64, 3), (4, 84, 84)])
def test_a_nature_cnn_is_jaxs_convolutions_and_relu_layers(shape):
    net = NatureCNN(shape, (16,))
    params = net.init(jax.random.key(0), int(np.prod(shape)), 5)
    x = np.random.default_rng(0).random((2, 3, int(np.prod(shape))), np.float32)
    h = x.reshape(6, *shape)
    h = np.moveaxis(h, 1, -1) if shape[0] == 4 else h.reshape(6, *shape[:2], -1)
    assert [layer.weight.shape for layer in params.convolutions] == [
        (8, 8, h.shape[-1], 32), (4, 4, 32, 64), (3, 3, 64, 64),
    ]  # fmt: skip
    for layer, stride in zip(params.convolutions, (4, 2, 1), strict=True):
        numbers = ("NHWC", "HWIO", "NHWC")
        h = jax.lax.conv_general_dilated(h, layer.weight, (stride, stride), "VALID", dimension_numbers=numbers)
        h = np.maximum(h + layer.bias, 0)
    h = np.maximum(h.reshape(6, -1) @ params.dense[0].weight + params.dense[0].bias, 0)
    expected = (h @ params.dense[1].weight + params.dense[1].bias).reshape(2, 3, 5)
    np.testing.assert_allclose(net.apply(params, jnp.asarray(x)), expected, atol=1e-5)


def test_a_nature_cnn_is_that_of_mnih_and_says_its_size():
    net = NatureCNN((4, 84, 84))
    params = jax.eval_shape(lambda: net.init(jax.random.key(0), 4 * 84 * 84, 18))
    assert params.dense[0].weight.shape == (7 * 7 * 64, 512)
    assert str(net) == "NatureCNN 84×84×4, 512"
    assert str(NatureCNN((64, 48), (32, 16))) == "NatureCNN 64×48×1, 32, 16"


def test_images_without_room_for_the_filters_are_refused_with_the_ways_out():
    NatureCNN((36, 36, 3)).require_size("Task")
    message = r"Task observes images of 35×64×3; .* need 36×36 or more.*Resize.*Flatten.*focops.train\(network=…\)"
    with pytest.raises(UsageError, match=message):
        NatureCNN((35, 64, 3)).require_size("Task")


def test_a_nature_cnn_is_rebuilt_from_its_description_and_nothing_else_is():
    net = NatureCNN((3, 40, 50), (7, 8))
    assert from_json(json.loads(json.dumps(to_json(net)))) == net
    assert to_json(MLP((4,))) == repr(MLP((4,)))
    own = to_json(net)["NatureCNN"]
    for wrong in (
        None, "NatureCNN", {}, {"NatureCNN": 3}, {"NatureCNN": {}}, {"NatureCNN": own | {"shape": [9, 9]}},
        {"NatureCNN": own | {"shape": [0, 40, 50]}}, {"NatureCNN": own | {"hidden": ["8"]}},
        {"NatureCNN": own | {"hidden": [True]}}, {"NatureCNN": own | {"hidden": 8}},
    ):  # fmt: skip
        assert from_json(wrong) is None
