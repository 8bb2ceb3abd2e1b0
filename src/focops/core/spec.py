"""Constraints, and what an algorithm must know about an environment. (No JAX here: `import focops` needs them.)"""

from dataclasses import dataclass

from focops.errors import UsageError


@dataclass(frozen=True)
class Constraint:
    """J_C <= limit, where J_C is the expected sum over an episode of discount**t * cost_t.

    A discount of 1 makes it the plain (undiscounted) episode sum.
    """

    name: str
    limit: float
    discount: float = 0.99


@dataclass(frozen=True)
class Spec:
    """What an algorithm must know about an environment."""

    obs_size: int
    action_size: int
    """Continuous: number of action dimensions. Discrete: number of actions, or with `nvec` their sum."""
    discrete: bool
    constraints: tuple[Constraint, ...]
    time_limit: int | None
    """Steps after which an episode is truncated; None when unknown or unlimited."""
    action_low: tuple[float, ...] | None = None
    """Bounds of continuous actions, where the environment has them."""
    action_high: tuple[float, ...] | None = None
    nvec: tuple[int, ...] | None = None
    """Where an action is several discrete choices: the number of each one's actions."""
    image: tuple[int, ...] | None = None
    """The shape of an observation that is an image of bytes."""
    layout: str = ""
    """The spaces of observations and actions in words, in the order in which they are flattened; "" for vectors."""

    @property
    def action_shape(self) -> tuple[int, ...]:
        """The axes of one action."""
        if self.nvec is not None:
            return (len(self.nvec),)
        return () if self.discrete else (self.action_size,)

    @property
    def action_dtype(self) -> str:
        return "int32" if self.discrete else "float32"

    def require_layout(self, own: str | None, whose: str) -> None:
        """Refuse spaces of the same sizes and another meaning than `own`, those of a policy. What was saved by a
        version that did not record them has none."""
        if own and own != self.layout:
            raise UsageError(
                f"the environment's spaces are {self.layout or 'vectors'}; {whose} has {own}: give the environment that"
                " it was trained in"
            )
