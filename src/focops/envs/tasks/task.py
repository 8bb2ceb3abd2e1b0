"""A task: a robot, its constraints, and pure functions for the outcome of a step and for the start of an episode."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from focops.core.spec import Constraint
from focops.envs.tasks.families import ANY, Family
from focops.envs.tasks.robots import Array, Namespace, Physics, Robot


class Outcome(NamedTuple):
    """Reward, costs and end of one control step."""

    reward: Array
    """[...]"""
    cost: Array
    """[..., m]"""
    terminated: Array
    """[...] bool"""


class Draws(NamedTuple):
    """Where the start of an episode takes its random numbers from. Each call draws new ones."""

    xp: Namespace
    uniform: Callable[[tuple[int, ...]], Array]
    """In [−1, 1), of a shape."""
    normal: Callable[[tuple[int, ...]], Array]
    """Standard normal, of a shape."""
    fraction: Callable[[], Array | float]
    """One number in [0, 1)."""


def numpy_draws(rng: np.random.Generator) -> Draws:
    return Draws(np, lambda shape: rng.uniform(-1.0, 1.0, shape), rng.standard_normal, rng.uniform)


def stay(xp: Namespace, qpos: Array, u: Array) -> Array:
    """Start at the model's own position."""
    return qpos


@dataclass(frozen=True, eq=False)  # equal only to itself: functions cannot be compared
class Task:
    """A constrained task. Functions take leading axes `...` and `xp` = numpy or jax.numpy."""

    name: str
    robot: Robot
    constraints: tuple[Constraint, ...]
    time_limit: int
    """Control steps after which an episode is truncated."""
    outcome: Callable[[Namespace, Physics, Array, Array, Array], Outcome]
    """(xp, physics after the step, position before, position after, action) -> Outcome"""
    hidden: int
    """Root coordinates left out of the observation."""
    place: Callable[[Namespace, Array, Array], Array] = stay
    """(xp, qpos [..., nq], u [...] uniform in [0, 1)) -> qpos of the start"""
    family: Family = ANY
    """Values of the presets that differ from those of other tasks."""
    walls: tuple[float, ...] = ()
    """In pictures: the x of walls that the cost is about."""
    radius: float | None = None
    """In pictures: a circle to run along."""
    cost_at_most: float = math.inf
    """What a step can cost, of each constraint; costs that are 0 or 1 have 1."""

    def costliest(self, discount: float) -> float:
        """What a whole episode can cost: Σ discount^t · cost_at_most over its steps."""
        return self.cost_at_most * sum(discount**t for t in range(self.time_limit))

    def features(self, xp: Namespace, p: Physics) -> tuple[Array, ...]:
        """Parts of the observation, [..., n] each. Parts, so that a backend joins and casts them in one pass."""
        return self.robot.features(xp, p, self.hidden)

    def observe(self, xp: Namespace, p: Physics) -> Array:
        """The observation, [..., O]."""
        return xp.concatenate(self.features(xp, p), axis=-1)

    def start(self, draws: Draws, qpos0: Array, nv: int) -> tuple[Array, Array]:
        """Draw the (qpos [nq], qvel [nv]) of a new episode; velocities at rest are 0 in every model."""
        robot = self.robot
        qpos = qpos0 + robot.noise * draws.uniform(qpos0.shape)
        qvel = robot.noise * (draws.normal if robot.normal_velocity else draws.uniform)((nv,))
        return self.place(draws.xp, qpos, draws.fraction()), qvel
