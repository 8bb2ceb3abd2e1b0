"""Everything that determines a run's next iteration, as data; and its conversion to and from named arrays."""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Int, UInt32

from focops.config import TrainConfig
from focops.core import normalize
from focops.core.types import Params
from focops.errors import RunError, UsageError
from focops.training import finite
from focops.training.candidates import Candidates
from focops.training.episodes import RECENT, EpisodeStatistics

Arrays = dict[str, np.ndarray]
Record = dict[str, Any]
"""What an iteration reports, by name."""

_LATER = ("cost_return.start", "cost_return.last", "cost_return.variance", "cost_return.share", "].memory")
"""Ends of names that checkpoints have not always had: J_C's standard error, the lasting part of violations."""
_NETWORKS = re.compile(r"learner\[0\](\.policy|\.critics\.params|\.critics\.units)(?=[.\[]|$)|learner\[1\]")
"""The names of networks' parameters and of the normaliser among a run's arrays."""


class RunState(NamedTuple):
    """A run after an iteration. On a device every array has an axis of runs in front."""

    learner: Any
    """The algorithm's State."""
    stats: normalize.Stats
    """The statistics that normalise observations."""
    sims: Any
    """The environments: `Simulations` on a device, the arrays of `VectorEnv.state` by name on the host."""
    episodes: EpisodeStatistics
    key: UInt32[Array, "2"]
    """The data of the run's random key, which never changes: an iteration's keys are made of it and its number."""
    iteration: Int[Array, ""]
    """Iterations done."""
    candidates: Candidates | None = None
    """Policies to choose the delivered one from; None if that is the last one."""


@dataclass(frozen=True)
class Failure:
    """A run whose iteration failed: the error, its last valid state, and the evidence (the batch and the rejected
    state)."""

    error: RunError
    state: RunState
    evidence: Arrays


def key_of(seed: int) -> UInt32[np.ndarray, "2"]:
    """The data of a run's random key. JAX itself uses only the low 32 bits of a seed."""
    key = jax.random.key(seed & 0xFFFFFFFF)
    return np.asarray(jax.random.key_data(jax.random.fold_in(key, seed >> 32) if seed >> 32 else key))


def checkpoint_due(config: TrainConfig, iteration: int) -> bool:
    """Whether the state after that iteration is saved."""
    every = config.checkpoint_every
    return iteration == config.iterations or (every > 0 and iteration % every == 0)


def to_arrays(state: RunState) -> Arrays:
    """What a checkpoint holds of a run. The key is not part of it: the seed is in the configuration."""
    return {
        **named_leaves((state.learner, state.stats)),
        **{f"env/{name}": np.asarray(value) for name, value in _fields(state.sims).items()},
        **{f"episodes/{name}": np.asarray(value) for name, value in state.episodes._asdict().items()},
        "iteration": np.array(int(state.iteration)),
        **named_leaves(state.candidates, "candidates"),
    }


def from_arrays(state: RunState, arrays: Arrays) -> RunState:
    """Inverse of `to_arrays`; names, shapes and the key are those of `state`."""
    arrays = _with_candidates(_with_later_ones(_with_ring(arrays), state), state)
    learner, stats = fill((state.learner, state.stats), arrays)
    candidates = fill(state.candidates, arrays, "candidates")
    for name, value in to_arrays(state).items():
        # how many rows an environment's array has may change with its episodes: `VectorEnv.restore` checks them
        free = isinstance(state.sims, dict) and name.startswith("env/") and name in arrays
        _require(name, arrays[name].shape if free else value.shape, arrays)
    sims: Any = {name: arrays[f"env/{name}"] for name in _fields(state.sims)}
    own: dict[str, Any] = {
        name: np.asarray(arrays[f"episodes/{name}"], value.dtype) for name, value in state.episodes._asdict().items()
    }
    number: Any = np.asarray(arrays["iteration"], np.int32)
    sims = sims if isinstance(state.sims, dict) else type(state.sims)(**sims)
    return RunState(learner, stats, sims, EpisodeStatistics(**own), state.key, number, candidates)


def take_over(state: RunState, arrays: Arrays, source: str, task: str) -> RunState:
    """`state` with the networks and the normaliser of another run's `arrays`, and nothing else of it; critics that the
    other run does not have are left as they are."""
    mine = named_leaves((state.learner, state.stats))
    taken = {k: v for k, v in arrays.items() if k in mine and _NETWORKS.match(k)}
    for name, value in mine.items():
        if name not in taken and re.match(r"learner(\[0\]\.policy[.\[]|\[1\])", name):
            raise UsageError(f"{source} has another kind of network or action than {task}: no {name}")
        if name in taken and taken[name].shape != value.shape:
            raise UsageError(
                f"{source} does not fit {task}: {name} is {list(taken[name].shape)} there and"
                f" {list(value.shape)} here. Start from a run with the same observations, actions and networks"
            )
    learner, stats = fill((state.learner, state.stats), mine | taken)
    return state._replace(learner=learner, stats=stats)


def named_leaves(tree: Params, prefix: str = "learner") -> Arrays:
    """The leaves of a pytree by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def fill(tree: Params, arrays: Arrays, prefix: str = "learner") -> Params:
    """`tree` with its leaves replaced by the arrays of their names."""
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    leaves = []
    for path, leaf in paths:
        name = prefix + jax.tree_util.keystr(path)
        _require(name, leaf.shape, arrays)
        finite.require_finite(arrays[name], f"the checkpoint's {name}", np.asarray(leaf))
        leaves.append(np.asarray(arrays[name], leaf.dtype))
    return jax.tree_util.tree_unflatten(structure, leaves)


def _require(name: str, shape: tuple[int, ...], arrays: Arrays) -> None:
    if name not in arrays or arrays[name].shape != shape:
        found = arrays[name].shape if name in arrays else "nothing"
        raise UsageError(f"the checkpoint does not fit this run: {name} should be {shape}, found {found}")


def _fields(sims: Any) -> dict[str, Any]:
    return sims if isinstance(sims, dict) else sims._asdict()


def _with_ring(arrays: Arrays) -> Arrays:
    """Checkpoints of the CPU once held the latest episodes in float64, oldest first and no more rows than episodes."""
    recent = arrays.get("episodes/recent")
    if recent is None or recent.dtype != np.float64 or "episodes/finished" not in arrays:
        return arrays
    ring, last = np.zeros((RECENT, *recent.shape[1:])), int(arrays["episodes/finished"])
    ring[np.arange(last - len(recent), last) % RECENT] = recent
    return arrays | {"episodes/recent": ring}


def _with_later_ones(arrays: Arrays, state: RunState) -> Arrays:
    """What a checkpoint once did not hold starts anew."""
    later = {k: v for k, v in named_leaves(state.learner, "learner[0]").items() if k.endswith(_LATER)}
    return later | arrays


def _with_candidates(arrays: Arrays, state: RunState) -> Arrays:
    """Checkpoints once held no candidates, or fewer: those of this run start anew."""
    mine = named_leaves(state.candidates, "candidates")
    fit = all(name in arrays and arrays[name].shape == value.shape for name, value in mine.items())
    return arrays if fit else arrays | mine
