"""A trained policy on its own: saved by the trainer, loaded and asked for actions without it."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from focops.core import normalize
from focops.core import policy as core_policy
from focops.core.networks import MLP, Network
from focops.core.spec import Spec
from focops.errors import UsageError
from focops.runs.files import write_atomically

FORMAT = 1
_ARRAYS, _DESCRIPTION = "policy.safetensors", "policy.json"


class Policy:
    """π_θ with its observation normaliser. `predict` takes raw observations."""

    def __init__(
        self,
        network: Network,
        params: core_policy.PolicyParams,
        stats: normalize.RunningStats,
        description: dict[str, Any],
    ):
        self.description = description
        self._key = jax.random.key(0)
        discrete, size = description["discrete"], description["action_size"]
        low = np.array(description["action_low"] if description["action_low"] else -np.inf)
        high = np.array(description["action_high"] if description["action_high"] else np.inf)

        @jax.jit
        def act(key: Any, obs: Any, deterministic: Any) -> Any:
            distribution = core_policy.distribution(network, params, normalize.apply(stats, obs))
            kind = type(distribution)
            sampled = distribution.sample(kind.noise(key, obs.shape[:-1], size))
            action = jnp.where(deterministic, distribution.mode(), sampled)
            return action if discrete else jnp.clip(action, low, high)

        self._act = act

    def predict(self, obs: Any, *, deterministic: bool = False) -> np.ndarray:
        """Actions for one observation [O] or many [N, O]: sampled, or the mean (most likely) action; continuous ones
        are clipped to the environment's bounds."""
        obs = np.asarray(obs, np.float32)
        size = self.description["obs_size"]
        if obs.ndim not in (1, 2) or obs.shape[-1] != size:
            raise UsageError(f"observations have shape {obs.shape}; this policy takes [{size}] or [N, {size}]")
        self._key, key = jax.random.split(self._key)
        return np.asarray(self._act(key, obs, deterministic))

    def seed(self, seed: int) -> None:
        """Make the sampled actions that follow repeatable."""
        self._key = jax.random.key(seed)


def save_policy(
    folder: Path,
    params: core_policy.PolicyParams,
    stats: normalize.RunningStats,
    spec: Spec,
    hidden: tuple[int, ...] | None,
    task: str,
) -> None:
    """Write what `load` needs. `hidden` is None for a network of the user's own."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in _leaves(params, stats)}
    description = {
        "format": FORMAT, "task": task, "obs_size": spec.obs_size, "action_size": spec.action_size,
        "discrete": spec.discrete, "action_low": spec.action_low, "action_high": spec.action_high, "hidden": hidden,
    }  # fmt: skip
    write_atomically(folder / _ARRAYS, save(arrays))
    write_atomically(folder / _DESCRIPTION, json.dumps(description, indent=2).encode())


def load(path: Path | str, network: Network | None = None) -> Policy:
    """The policy of a run directory. `network` is needed only if it was trained with a network of your own."""
    folder = Path(path)
    folder = folder / "policy" if (folder / "policy").is_dir() else folder
    if not (folder / _DESCRIPTION).is_file():
        raise UsageError(f"{path} holds no policy; give the directory of a run (`focops train --out DIR` makes one)")
    try:
        description = json.loads((folder / _DESCRIPTION).read_text())
        arrays = load_file(folder / _ARRAYS)
        if description["format"] > FORMAT:
            raise UsageError(
                f"{folder} has format {description['format']}; this focops reads up to {FORMAT}: update it"
            )
        hidden = description["hidden"]
        if hidden is None and network is None:
            raise UsageError(f"{folder} was trained with a network of its own; pass it: focops.load(path, network=…)")
        network = network or MLP(tuple(hidden))
        spec = Spec(description["obs_size"], description["action_size"], description["discrete"], (), None)
        template = jax.eval_shape(lambda: core_policy.init(jax.random.key(0), network, spec, 0.0))
        stats_template = jax.eval_shape(lambda: normalize.init(spec.obs_size))
        values = {keystr: jnp.asarray(arrays[keystr]) for keystr in arrays}
        leaves = []
        for key_path, leaf in _leaves(template, stats_template):
            value = values[jax.tree_util.keystr(key_path)]
            if value.shape != leaf.shape:
                raise ValueError(f"{jax.tree_util.keystr(key_path)} is {value.shape}, should be {leaf.shape}")
            leaves.append(value)
    except UsageError:
        raise
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as problem:
        raise UsageError(f"{folder} is damaged or not a policy ({problem}); take another copy of the run") from problem
    structure = jax.tree_util.tree_structure((template, stats_template))
    params, stats = jax.tree_util.tree_unflatten(structure, leaves)
    return Policy(network, params, stats, description)


def _leaves(params: Any, stats: Any) -> list[tuple[Any, Any]]:
    return jax.tree_util.tree_leaves_with_path((params, stats))
