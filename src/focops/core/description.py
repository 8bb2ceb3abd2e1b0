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


NO_DESCRIPTION = Description("–", "–", "–", "–")
"""For an algorithm without one."""
