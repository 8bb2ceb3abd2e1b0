"""Constraints from what the user asks for, checked before anything is built."""

import math
from collections.abc import Sequence

from focops.core.spec import Constraint
from focops.errors import UsageError

Numbers = Sequence[float | int]
"""One for each cost."""


def constrain(
    env: str,
    names: Sequence[str],
    limits: Numbers,
    discounts: Numbers,
    time_limit: int | None,
) -> tuple[Constraint, ...]:
    """One constraint per cost name; `UsageError` where limits or discounts do not fit."""
    for what, flag, values in (("limit", "--cost-limit", limits), ("discount", "--cost-discount", discounts)):
        if len(values) != len(names):
            raise UsageError(
                f"{env} has {len(names)} cost(s) ({', '.join(names)}), but {len(values)} {what}(s) were given"
                f" ({', '.join(map(str, values))}): give {flag} one number per cost, in that order"
            )
    for name, limit in zip(names, limits, strict=True):
        if not (math.isfinite(limit) and limit >= 0):
            raise UsageError(f"the limit of {name} is {limit}: it must be finite and at least 0 (--cost-limit)")
    for name, discount in zip(names, discounts, strict=True):
        if not 0 < discount <= 1:
            raise UsageError(f"the discount of {name} is {discount}: it must be in (0, 1] (--cost-discount)")
        if discount == 1 and time_limit is None:
            raise UsageError(
                f"the discount of {name} is 1, but {env} has no time limit, so the sum of its costs may be endless:"
                " use a discount below 1, or register the environment with max_episode_steps"
            )
    return tuple(Constraint(*each) for each in zip(names, map(float, limits), map(float, discounts), strict=True))
