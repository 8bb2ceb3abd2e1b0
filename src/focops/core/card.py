"""The description of an algorithm that `focops algos` prints."""

from typing import Literal, NamedTuple


class Card(NamedTuple):
    order: Literal["first", "second", "–"]
    """Derivatives of the policy that its step uses."""
    multiplier: str
    guarantee: str
    """What the algorithm guarantees about the constraints, and under which condition."""
    reference: str


NO_CARD = Card("–", "–", "–", "–")
"""Of an algorithm that says nothing of itself."""
