"""The file of a trained policy: saved by the trainer, loaded without it."""

import math
import reprlib
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from focops import zoo
from focops.core import networks, normalize
from focops.core import policy as core_policy
from focops.core.networks import MLP, NatureCNN, Network
from focops.core.spec import Spec
from focops.display.summary import ACTING, VERDICTS
from focops.errors import UsageError
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory
from focops.runs.files import make_own_folder, resume_command, write_atomically
from focops.runs.identity import Identity, difference
from focops.runs.policy import Policy
from focops.training import finite

FILE = "policy.safetensors"
_DESCRIBED = ("task", "iteration", "obs_size", "action_size", "discrete", "action_low", "action_high", "hidden")
_ALSO_DESCRIBED = ("nvec", "image", "layout", "network")
"""Left out where there is none, as in the files of older versions."""


_LEAST_HELD = 2**24
"""Numbers that any file may hold: an image's policy has no statistics of its pixels, and may have fewer weights."""


def save_policy(
    folder: Path,
    params: core_policy.PolicyParams,
    stats: normalize.Stats,
    spec: Spec,
    hidden: tuple[int, ...] | None,
    task: str,
    iteration: int,
    run: Identity | None = None,
    evaluation: dict[str, Any] | None = None,
    network: Network | None = None,
) -> None:
    """Write what `load` needs as one file. `hidden` is that of an MLP, `network` another network; `run` identifies the
    run; `evaluation` is what was found of this policy."""
    arrays = _arrays(params, stats)
    bounds = spec.action_low, spec.action_high
    values = (task, iteration, spec.obs_size, spec.action_size, spec.discrete, *bounds, hidden)
    described = dict(zip(_DESCRIBED, values, strict=True))
    also = {"nvec": spec.nvec, "image": spec.image, "layout": spec.layout}
    if isinstance(network, NatureCNN):
        also["network"] = networks.to_json(network)
    described |= {name: value for name, value in also.items() if value}
    meta = {"policy": described, "run": run}
    data = checkpoint.serialize(arrays, meta if evaluation is None else meta | {"evaluation": evaluation})
    path = folder / FILE
    with checkpoint.explained(f"could not write the policy {path}"):
        make_own_folder(folder)
        write_atomically(path, data)


def evaluation_of(folder: Path, params: core_policy.PolicyParams, stats: normalize.Stats) -> Any:
    """What the policy file in `folder` says was found of this very policy; None if it is of another one, or absent."""
    file, own = folder / FILE, _arrays(params, stats)
    try:
        arrays, meta = checkpoint.deserialize(file.read_bytes(), str(file), "policy")
        same = arrays.keys() == own.keys() and all(np.array_equal(arrays[name], own[name]) for name in own)
        return _evaluated(meta, file) if same else None
    except (OSError, UsageError):
        return None


def load(path: Path | str, network: Network | None = None) -> Policy:
    """The policy of a run directory, of a policy file, or of the zoo ("zoo:AntSpeed"; `focops zoo` lists them).
    `network` is needed only if it was trained with a network of your own."""
    path = zoo.located(path)
    file = next((f for f in (path / "policy" / FILE, path / FILE, path) if f.is_file()), None)
    if file is None:
        raise UsageError(f"{path} holds no policy; give the directory of a run (`focops train --out DIR` makes one)")
    with checkpoint.explained(f"could not read the policy {file}"):
        data = file.read_bytes()
    arrays, meta = checkpoint.deserialize(data, str(file), "policy")
    described = _described(meta, file, arrays)
    _require_own(RunDirectory(path), file, meta.get("run") or {"task": described["task"]})
    if network is None:
        network = networks.from_json(described["network"])
    if network is None:
        if described["hidden"] is None:
            raise UsageError(f"{file} was trained with a network of its own; pass it: focops.load(path, network=…)")
        network = MLP(tuple(described["hidden"]))
    sizes: dict[str, Any] = {name: described[name] and tuple(described[name]) for name in ("nvec", "image")}
    spec = Spec(described["obs_size"], described["action_size"], described["discrete"], (), None, **sizes)
    templates = jax.eval_shape(lambda: (core_policy.init(jax.random.key(0), network, spec, 0.0), normalize.of(spec)))
    leaves = []
    for key_path, leaf in _leaves(*templates):
        name = jax.tree_util.keystr(key_path)
        value = arrays.get(name)
        if value is None or value.shape != leaf.shape or value.dtype != leaf.dtype:
            found = "nothing" if value is None else f"{value.dtype}{list(value.shape)}"
            raise UsageError(f"{file} does not fit its network: {name} is {found}, not {leaf.dtype}{list(leaf.shape)}")
        finite.require_finite(value, f"{file}: {name}")
        leaves.append(jnp.asarray(arrays.pop(name)))
    if arrays:
        raise UsageError(f"{file} does not fit its network, which has no {min(arrays)}")
    params, stats = jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(templates), leaves)
    return Policy(network, params, stats, described, _evaluated(meta, file))


def _require_own(directory: RunDirectory, file: Path, found: Any) -> None:
    """Refuse a policy that belongs to another run than the directory it is in."""
    if file.parent == directory.policy and directory.config_file.is_file():
        other = difference(found, directory.identity)
        if other:
            raise UsageError(
                f"{file} is of another run ({other}); `{resume_command(directory.path)}` writes the policy of its own"
                f" newest checkpoint again, and focops.load({str(file)!r}) loads this one by itself"
            )


def _described(meta: Any, file: Path, arrays: checkpoint.Arrays) -> dict[str, Any]:
    """A policy's description, with types and sizes checked against the arrays: the file may come from anywhere."""
    described = meta.get("policy") if isinstance(meta, dict) else None
    if not isinstance(described, dict) or described.keys() - set(_ALSO_DESCRIBED) != set(_DESCRIBED):
        raise UsageError(f"{file} is not a focops policy")
    described = {**dict.fromkeys(_ALSO_DESCRIBED), **described}
    size, held = described["action_size"], max(sum(array.size for array in arrays.values()), _LEAST_HELD)
    whole = lambda x: isinstance(x, int) and not isinstance(x, bool) and 0 < x <= held
    wholes = lambda x: isinstance(x, list) and 2 * (len(x) + 1) <= len(arrays) and all(map(whole, x))
    number = lambda x: isinstance(x, int | float) and (abs(x) <= sys.float_info.max or abs(x) == math.inf)
    bound = lambda x: x is None or (isinstance(x, list) and len(x) == size and all(map(number, x)))
    checks = {
        "obs_size": whole, "action_size": whole, "discrete": lambda x: isinstance(x, bool),
        "action_low": bound, "action_high": bound, "hidden": lambda x: x is None or wholes(x),
    }  # fmt: skip
    choices = lambda x: isinstance(x, list) and all(map(whole, x)) and sum(x) == size and described["discrete"] is True
    pixels = lambda x: isinstance(x, list) and all(map(whole, x)) and math.prod(x) == described["obs_size"]
    checks["nvec"] = lambda x: x is None or choices(x)
    checks["image"] = lambda x: x is None or (pixels(x) and len(x) in (2, 3))
    checks["layout"] = lambda x: x is None or isinstance(x, str)
    checks["network"] = lambda x: x is None or _fits(networks.from_json(x), described["image"], held)
    for name, fits in checks.items():
        if not fits(described[name]):
            raise UsageError(f"{file} is damaged or not a policy: its {name} is {reprlib.repr(described[name])}")
    return described


def _fits(network: NatureCNN | None, image: Any, held: int) -> bool:
    """Whether a network that a file describes takes its images, and is no larger than what the file holds."""
    return network is not None and list(network.shape) == image and sum(network.hidden) <= held


def _evaluated(meta: Any, file: Path) -> dict[str, Any] | None:
    """The evaluation in a policy file, with the parts that are used checked."""
    found = meta.get("evaluation")
    if found is None:
        return None
    number = lambda x: isinstance(x, int | float) and not isinstance(x, bool)
    numbers = lambda x, names: isinstance(x, dict) and x.keys() == names and all(map(number, x.values()))

    def interval(x: Any) -> bool:
        return isinstance(x, list | tuple) and len(x) == 2 and all(map(number, x))

    def valid(part: Any) -> bool:
        judged = part.get("verdict") if isinstance(part, dict) else None
        return (
            isinstance(judged, dict)
            and all(isinstance(each, str) and each in VERDICTS for each in judged.values())
            and all(numbers(part.get(name), judged.keys()) for name in ("discounted_cost", "cost_limit"))
            and isinstance(part.get("discounted_cost_interval"), dict)
            and part["discounted_cost_interval"].keys() == judged.keys()
            and all(map(interval, part["discounted_cost_interval"].values()))
            and number(part.get("episodes"))
        )

    if not isinstance(found, dict) or not all(valid(found.get(acting)) for acting in ACTING):
        raise UsageError(f"{file} is damaged or not a policy: its evaluation is {reprlib.repr(found)}")
    return found


def _arrays(params: Any, stats: Any) -> checkpoint.Arrays:
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in _leaves(params, stats)}


def _leaves(params: Any, stats: Any) -> list[tuple[Any, Any]]:
    return jax.tree_util.tree_leaves_with_path((params, stats))
