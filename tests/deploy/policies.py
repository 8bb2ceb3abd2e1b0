"""Policies of every kind, without training: random weights, large enough for actions beyond their bounds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from focops.core import normalize
from focops.core import policy as core_policy
from focops.core.networks import MLP, NatureCNN, Network
from focops.core.spec import Spec
from focops.runs.policy import Policy

SPECS = {
    "continuous": Spec(11, 3, False, (), None, (-1.0, -2.0, -0.4), (1.0, 2.0, 0.4)),
    "unbounded": Spec(5, 2, False, (), None),
    "discrete": Spec(7, 4, True, (), None),
    "several": Spec(6, 9, True, (), None, nvec=(2, 3, 4)),
    "one of several": Spec(6, 3, True, (), None, nvec=(3,)),
    "image": Spec(36 * 40 * 3, 2, False, (), None, (-1.0, -1.0), (1.0, 1.0), image=(36, 40, 3)),
    "grey image": Spec(37 * 36, 5, True, (), None, image=(37, 36)),
    "channels first": Spec(4 * 36 * 36, 3, True, (), None, image=(4, 36, 36)),
}
KINDS = list(SPECS)


def make(kind: str, seed: int = 0, network: Network | None = None, evaluation: Any = None) -> Policy:
    spec = SPECS[kind]
    hidden = (16, 8)
    network = network or (MLP(hidden, 1.0) if spec.image is None else NatureCNN(spec.image, (16,)))
    keys = jax.random.split(jax.random.key(seed), 2)
    params = core_policy.init(keys[0], network, spec, -0.5)
    larger = jax.tree.map(lambda x: 2 * x, params.network) if spec.image is None else params.network
    params = params._replace(network=larger) if isinstance(params, tuple) else type(params)(larger, spec.nvec)
    stats = normalize.of(spec)
    if isinstance(stats, normalize.RunningStats):  # with an entry that never changed
        seen = 3.0 + 2.0 * jax.random.normal(keys[1], (50, spec.obs_size))
        stats = normalize.observe(stats, seen.at[:, 0].set(1.5))
    described = {
        "task": "Task-v0", "iteration": 7, "obs_size": spec.obs_size, "action_size": spec.action_size,
        "discrete": spec.discrete, "action_low": spec.action_low, "action_high": spec.action_high, "hidden": hidden,
        "nvec": spec.nvec, "image": spec.image, "layout": "", "network": None,
    }  # fmt: skip
    return Policy(network, params, stats, described, evaluation)


def observations(policy: Policy, number: int = 64) -> np.ndarray:
    rng, size = np.random.default_rng(1), policy.description["obs_size"]
    if policy.description["image"]:
        return rng.integers(0, 256, (number, size)).astype(np.float32)
    return (3 + 4 * rng.standard_normal((number, size))).astype(np.float32)


def output(policy: Policy, obs: np.ndarray) -> np.ndarray:
    """The network's output by JAX: means or logits."""
    found: Any = core_policy.distribution(
        policy.network, policy.params, normalize.apply(policy.stats, jnp.asarray(obs))
    )
    return np.asarray(found.logits if policy.description["discrete"] else found.mean)
