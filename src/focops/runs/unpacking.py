"""`action, _ = policy.predict(obs)`, as in Stable-Baselines3, is refused where it is written: here `predict` returns
the action alone, and Python would unpack that, silently where it has two entries.

Nothing of an array shows that it is about to be unpacked, so the caller's bytecode is read, once for each place of a
program. Elsewhere than in CPython nothing is refused.
"""

import dis
import sys
from types import CodeType, FrameType

import numpy as np

from focops.errors import UsageError

_seen: dict[tuple[int, int], tuple[str | None, CodeType]] = {}
"""Of each place that has called, by its code's id and the instruction: what `_second_target` found; and the code, so
that no other gets its id."""
_MOST_SEEN = 1000
"""Places that are remembered: a notebook makes new ones all the time."""


def refuse_pair(action: np.ndarray) -> None:
    """UsageError if the caller of `predict`, which calls this, unpacks the action into two names: unless it has two
    entries, and the second name does not begin with an underscore."""
    try:
        frame: FrameType = sys._getframe(2)
        place = id(frame.f_code), frame.f_lasti
    except (AttributeError, ValueError):
        return
    if place not in _seen:
        if len(_seen) >= _MOST_SEEN:
            _seen.clear()
        _seen[place] = _second_target(frame.f_code, frame.f_lasti), frame.f_code
    target, _ = _seen[place]
    if target is not None and (target.startswith("_") or action.ndim == 0 or len(action) != 2):
        raise UsageError(
            f"predict returns the action alone, an array of shape {action.shape}, not SB3's pair of action and state;"
            " write `action = policy.predict(obs)`"
        )


def _second_target(code: CodeType, call: int) -> str | None:
    """The second name of `a, b = ….predict(…)` if that is what follows the call; "" if it is no plain name."""
    if "predict" not in code.co_names:  # called by compiled code, which has no frame of its own
        return None
    following = (each for each in dis.get_instructions(code) if each.offset > call)
    unpack = next(following, None)
    if unpack is None or unpack.opname != "UNPACK_SEQUENCE" or unpack.arg != 2:
        return None
    names: list[str] = []
    for each in following:
        if not each.opname.startswith("STORE") or len(names) >= 2:
            break
        names += each.argval if isinstance(each.argval, tuple) else [str(each.argval)]  # 3.13 stores two at once
    return names[1] if len(names) > 1 else ""
