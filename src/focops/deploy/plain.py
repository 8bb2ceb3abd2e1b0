"""A policy's networks of JAX as plain arrays."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from focops.core import normalize
from focops.core.networks import MLP, NatureCNN, Network
from focops.core.policy import GaussianParams, PolicyParams
from focops.deploy.numpy_policy import NumpyPolicy


def numpy_policy(
    network: Network, params: PolicyParams, stats: normalize.Stats, description: dict[str, Any]
) -> NumpyPolicy | None:
    """The policy in NumPy; None if its network is neither an `MLP` nor a `NatureCNN`: only JAX knows how to apply it.
    `description` is a policy file's."""
    if type(network) not in (MLP, NatureCNN):
        return None
    own: Any = params.network
    dense, convolutions = (own, []) if isinstance(network, MLP) else (own.dense, own.convolutions)
    arrays = {f"weight{i}": layer.weight for i, layer in enumerate(dense)}
    arrays |= {f"bias{i}": layer.bias for i, layer in enumerate(dense)}
    arrays |= {f"filter{i}": layer.weight for i, layer in enumerate(convolutions)}
    arrays |= {f"filter_bias{i}": layer.bias for i, layer in enumerate(convolutions)}
    if isinstance(stats, normalize.RunningStats):
        arrays |= {"mean": stats.mean, "std": normalize.std(stats)}
    if isinstance(params, GaussianParams):
        arrays["action_std"] = jnp.exp(params.log_std)
        if description["action_low"] and description["action_high"]:
            arrays |= {"low": description["action_low"], "high": description["action_high"]}
    choices = description.get("nvec") or ([description["action_size"]] if description["discrete"] else None)
    form = {
        "clip": normalize.CLIP,
        "layers": len(dense),
        "strides": list(network.strides) if isinstance(network, NatureCNN) else [],
        "image": list(network.size) if isinstance(network, NatureCNN) else None,
        "channels_first": isinstance(network, NatureCNN) and network.channels_first,
        "nvec": choices,
        "several": description.get("nvec") is not None,
    }
    return NumpyPolicy({name: np.asarray(array, np.float32) for name, array in arrays.items()}, form)
