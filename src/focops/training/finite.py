"""No silent NaN: one check inside the compiled update. If it fails, the first bad number and its origin are named."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from focops.core.types import Trajectories
from focops.errors import UsageError

_ORDER = {
    "obs": ("environment", "obs"),
    "action": ("learner", "action"),
    "reward": ("environment", "reward"),
    "cost": ("environment", "cost"),
    "raw_next_obs": ("environment", "next_obs"),
}
"""Each array of a step, in order: who produces it, and its name in messages."""


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Whether every number is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))


def still_finite(new: Any, old: Any) -> Bool[Array, ""]:
    """Whether every number is finite, or an infinity that was there before (such as "no time limit")."""
    return jnp.all(jnp.stack(jax.tree.leaves(jax.tree.map(lambda x, y: jnp.all(jnp.isfinite(x) | (x == y)), new, old))))


def require_finite(array: np.ndarray, name: str, before: Any = 0.0) -> None:
    """Refuse a file with numbers that are not finite, except infinities that `before` has in the same place."""
    bad = np.argwhere(~(np.isfinite(array) | (array == before)))
    if len(bad):
        index = tuple(map(int, bad[0]))
        raise UsageError(
            f"{name} holds {array[index]} at index {index}: nothing can be computed from numbers that are not finite;"
            " use an earlier file"
        )


def first_fault(trajectories: Trajectories, old: Any, new: Any) -> str:
    """Names the first number that is not finite; `new` (state, stats) is the iteration's result from `old`."""
    found = []
    for order, (field, (who, name)) in enumerate(_ORDER.items()):
        array = np.asarray(getattr(trajectories, field))
        bad = np.argwhere(~np.isfinite(array))
        if bad.size:
            t, e = map(int, bad[0][:2])
            found.append((t, order, f"the {who} produced {array[tuple(bad[0])]} in {name}, step {t}, environment {e}"))
    if found:
        return min(found)[2]
    for (path, leaf), before in zip(jax.tree_util.tree_leaves_with_path(new), jax.tree.leaves(old), strict=True):
        array = np.asarray(leaf)
        bad = np.argwhere(~np.isfinite(array) & (array != np.asarray(before)))
        if len(bad):
            name = ("", "normaliser")[path[0].idx] + jax.tree_util.keystr(path[1:])
            name = name.removeprefix(".")
            return f"the learner produced {array[tuple(bad[0])]} in {name}, index {tuple(map(int, bad[0]))}"
    raise AssertionError("every number is finite")
