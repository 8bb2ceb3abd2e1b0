"""`action, _ = policy.predict(obs)`, as in Stable-Baselines3, is refused where it is written: here `predict` returns
the action alone, and Python would unpack that, silently where it has two entries.

An array does not know that it is being unpacked, and a class of its own would also refuse `left, right = action` in an
environment. So the caller's next instruction is read. Other Pythons than CPython refuse nothing.
"""

import dis
import inspect

import numpy as np

from focops.errors import UsageError

_CACHE, _UNPACK = dis.opmap.get("CACHE", 0), dis.opmap["UNPACK_SEQUENCE"]


def refuse_pair(action: np.ndarray) -> None:
    """UsageError if the caller of `predict`, which calls this, unpacks the action into two names."""
    predict = getattr(inspect.currentframe(), "f_back", None)
    caller = getattr(predict, "f_back", None)
    if caller is None or "predict" not in caller.f_code.co_names:  # compiled code has no frame of its own
        return
    code, following = caller.f_code.co_code, caller.f_lasti + 2
    while following < len(code) and code[following] == _CACHE:  # room that belongs to the call
        following += 2
    if code[following : following + 2] == bytes((_UNPACK, 2)):
        raise UsageError(
            f"predict returns the action alone, here of shape {action.shape}, not SB3's pair of action and state;"
            " write `action = policy.predict(obs)`, and unpack the action in a statement of its own"
        )
