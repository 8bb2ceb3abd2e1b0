"""Finite CMDPs as JSON files: readable by hand where small, sparse where large."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from focops.errors import UsageError
from focops.tabular.cmdp import CMDP
from focops.tabular.generate import gridworld

_REQUIRED = ("transition", "reward", "cost", "start", "limits", "discount")
_OPTIONAL = ("cost_discounts", "names", "action_names", "grid")
_GRID = {"grid", "limit", "slip", "discount"}
_DENSE = 1000
"""Up to this many transition entries are written as nested lists."""

_SHAPE = """a problem is {"transition": [S][A][S] or {"row": [s·A + a …], "next": […], "probability": […]}, "reward": \
[S][A], "cost": [S][A][m], "start": [S], "limits": [m], "discount": γ}, or {"grid": ["S.", "HG"], "limit": b}"""


def load(path: Path | str) -> CMDP:
    """The problem in a file; `UsageError` says what is wrong with it."""
    path = Path(path)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read ({error}); give a JSON file: {_SHAPE}") from error
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON ({error}); {_SHAPE}") from error
    try:
        return _from_json(given)
    except OverflowError as error:
        raise UsageError(f"{path}: a number is too large ({error}); numbers go to {sys.float_info.max:.2g}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def save(cmdp: CMDP, path: Path | str) -> None:
    """Write the problem to a file for `load`."""
    try:
        Path(path).write_text(json.dumps(_to_json(cmdp)) + "\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}); name another file with --save") from error


def _from_json(given: Any) -> CMDP:
    """The problem that a parsed JSON object describes."""
    if not isinstance(given, dict):
        raise UsageError(f"it holds {type(given).__name__}, not an object; {_SHAPE}")
    if "grid" in given and "transition" not in given:
        if unknown := set(given) - _GRID:
            raise UsageError(f"unknown field {min(unknown)!r} of a grid; there are: {', '.join(sorted(_GRID))}")
        try:
            return gridworld(**given)
        except (TypeError, AttributeError) as error:
            raise UsageError(f"the grid cannot be read ({error}); {_SHAPE}") from error
    missing = [name for name in _REQUIRED if name not in given]
    unknown = set(given) - {*_REQUIRED, *_OPTIONAL}
    if missing:
        raise UsageError(f"{missing[0]!r} is missing; {_SHAPE}")
    if unknown:
        raise UsageError(f"unknown field {min(unknown)!r}; there are: {', '.join((*_REQUIRED, *_OPTIONAL))}")
    fields = dict(given)
    if not isinstance(fields["discount"], int | float):
        raise UsageError(f"discount is {fields['discount']!r}; it must be a number in (0, 1)")
    if isinstance(fields["transition"], dict):
        fields["transition"] = _sparse(fields["transition"], np.shape(fields["reward"]))
    return CMDP(**fields)


def _to_json(cmdp: CMDP) -> dict[str, Any]:
    """A JSON object from which `_from_json` makes the same problem."""
    matrix = cmdp.transition.tocoo()
    if cmdp.transition.shape[0] * cmdp.num_states <= _DENSE:
        transition: Any = cmdp.transition.toarray().reshape(*cmdp.reward.shape, -1).tolist()
    else:
        row, successor = matrix.coords
        transition = {"row": row.tolist(), "next": successor.tolist(), "probability": matrix.data.tolist()}
    return {
        "discount": cmdp.discount,
        "names": list(cmdp.names),
        "limits": cmdp.limits.tolist(),
        "cost_discounts": np.asarray(cmdp.cost_discounts).tolist(),
        "action_names": list(cmdp.action_names),
        "start": cmdp.start.tolist(),
        "transition": transition,
        "reward": cmdp.reward.tolist(),
        "cost": cmdp.cost.tolist(),
        **({"grid": list(cmdp.grid)} if cmdp.grid else {}),
    }


def _sparse(given: dict[str, Any], shape: tuple[int, ...]) -> sp.coo_array:
    try:
        entries = [np.asarray(given[name]) for name in ("row", "next", "probability")]
        return sp.coo_array((entries[2], (entries[0], entries[1])), shape=(shape[0] * shape[1], shape[0]))
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise UsageError(f"transition cannot be read ({error!r}); {_SHAPE}") from error
