"""The description of an algorithm that `focops algos` prints."""

from typing import Literal, NamedTuple


class Description(NamedTuple):
    """A row of that table."""

    order: Literal["first", "second", "–"]
    """Derivatives of the policy that its step uses."""
    multiplier: str
    guarantee: str
    """What the algorithm guarantees about the constraints, and under which condition."""
    reference: str


UNCONSTRAINED = "none: unconstrained"
"""The guarantee of an algorithm that ignores costs: it needs none."""
NO_DESCRIPTION = Description("–", "–", "–", "–")
"""For an algorithm without one."""
