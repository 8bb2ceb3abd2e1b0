"""Constraints from what the user asks for, checked before anything is built."""

import math
from collections.abc import Mapping, Sequence

from focops.core.spec import Constraint
from focops.envs.contract import unnamed
from focops.errors import UsageError

Numbers = Sequence[float | int]
"""One for each cost."""
PerCost = Numbers | Mapping[str, float | int]
"""One for each cost, in the costs' order or by name."""


def constrain(
    env: str,
    names: Sequence[str],
    limits: PerCost | None,
    discounts: PerCost | None,
    time_limit: int | None,
    own: Sequence[Constraint] = (),
) -> tuple[Constraint, ...]:
    """One constraint per cost name; what is not given is that of `own`, or a discount of 0.99. `UsageError` where
    limits or discounts do not fit."""
    known = {each.name: each for each in own}
    chosen_limits = _per_name(env, names, limits, {name: each.limit for name, each in known.items()}, "limit")
    own_discounts = {name: known[name].discount if name in known else 0.99 for name in names}
    chosen_discounts = _per_name(env, names, discounts, own_discounts, "discount")
    for name, limit in chosen_limits.items():
        if not (math.isfinite(limit) and limit >= 0):
            raise UsageError(f"the limit of {name} is {limit}: it must be finite and at least 0 (--cost-limit)")
    for name, discount in chosen_discounts.items():
        if not 0 < discount <= 1:
            raise UsageError(f"the discount of {name} is {discount}: it must be in (0, 1] (--cost-discount)")
        if discount == 1 and time_limit is None:
            raise UsageError(
                f"the discount of {name} is 1, but {env} has no time limit, so the sum of its costs may be endless:"
                " use a discount below 1, or register the environment with max_episode_steps (around a class or an"
                " instance put gymnasium.wrappers.TimeLimit)"
            )
    return tuple(Constraint(name, float(chosen_limits[name]), float(chosen_discounts[name])) for name in names)


def _per_name(
    env: str, names: Sequence[str], given: PerCost | None, own: Mapping[str, float], what: str
) -> dict[str, float | int]:
    """A value for each name, in their order: the given one, or else the environment's own."""
    flag, called = f"--cost-{what}", ", ".join(names)
    if given and not names:
        raise UsageError(f"{flag} is given, but {env} returns no cost: leave it out, or compute one with --cost")
    if given is not None and not isinstance(given, Mapping):
        if len(given) != len(names):
            raise UsageError(
                f"{env} has {len(names)} cost(s) ({called}), but {len(given)} {what}(s) were given"
                f" ({', '.join(map(str, given))}): give {flag} one number per cost, in that order"
            )
        return dict(zip(names, given, strict=True))
    chosen = dict(own) | dict(given or {})
    unknown, missing = [name for name in chosen if name not in names], [name for name in names if name not in chosen]
    if unknown:
        raise UsageError(f"{flag} is given for {', '.join(unknown)}; the costs of {env} are: {called}")
    if missing:
        each = "B, one number per cost" if len(names) == 1 else " ".join(f"{name}=B" for name in names)
        raise UsageError(f"{env} has {len(names)} cost(s) and no limit of its own for {missing[0]}: give {flag} {each}")
    return {name: chosen[name] for name in names}


def by_name(
    constraints: Sequence[Constraint], given: tuple[float, ...] | dict[str, float] | None
) -> tuple[float, ...] | dict[str, float] | None:
    """What was given in the order of costs that the environment names, by those names: their order may be another one
    in the next process."""
    names = tuple(each.name for each in constraints)
    if given is None or isinstance(given, dict) or names == unnamed(len(names)):
        return given
    return dict(zip(names, given, strict=True))
