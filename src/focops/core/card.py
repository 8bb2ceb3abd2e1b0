"""What `focops algos` says of an algorithm."""

from typing import Literal, NamedTuple


class Card(NamedTuple):
    order: Literal["first", "second", "–"]
    """Derivatives of the policy that its step uses."""
    multiplier: str
    guarantee: str
    """What holds of the constraints, and on what condition."""
    reference: str


NO_CARD = Card("–", "–", "–", "–")
"""Of an algorithm that says nothing of itself."""
