"""Circle tasks: run along a circle of radius r, but stay between two walls that cut it.

reward  (−y·v_x + x·v_y) / (1 + |sqrt(x² + y²) − r|)
cost    1[|x| > x_lim]

(x, y) is the position *after* the step and v its finite difference; there are no alive, control or contact terms.
Root x and y stay in the observation.

Ant and Humanoid: r, x_lim and limit are the FOCOPS paper's; its authors' program starts uniformly *on* the circle, and
so do we (about 81% and 84% of the starts are in the unsafe region).

Point is CPO's (Achiam et al. 2017): rllab's kinematic PointEnv, r = 15, x_lim = 2.5, at most 65 steps and a limit of 5.
It starts at the centre, as rllab's does: from the circle, the way into the safe region alone would cost more than 5.
"""

from functools import partial

import numpy as np

from focops.core.spec import Constraint
from focops.envs.tasks.families import CIRCLE
from focops.envs.tasks.robots import ANT, HUMANOID, POINT, Array, Namespace, Physics, Robot
from focops.envs.tasks.task import Outcome, Task, stay


def run_round(
    robot: Robot, radius: float, x_lim: float, xp: Namespace, p: Physics, before: Array, after: Array, action: Array
) -> Outcome:
    velocity = (after - before) / p.dt
    x, y = after[..., 0], after[..., 1]
    turning = x * velocity[..., 1] - y * velocity[..., 0]
    reward = turning / (1.0 + xp.abs(xp.sqrt(x * x + y * y) - radius))
    outside = xp.abs(x) > x_lim
    return Outcome(reward, outside[..., None].astype(reward.dtype), ~robot.healthy(xp, p))


def _on_circle(radius: float, xp: Namespace, qpos: Array, u: Array) -> Array:
    """Move the root's x, y to the angle 2πu of the circle."""
    angle = 2.0 * np.pi * xp.asarray(u)[..., None]
    return xp.concatenate((radius * xp.cos(angle), radius * xp.sin(angle), qpos[..., 2:]), axis=-1)


def _circle_task(
    name: str, robot: Robot, radius: float, x_lim: float, limit: float, time_limit: int = 1000, centred: bool = False
) -> Task:
    constraint = Constraint("outside", limit, discount=0.995)
    place = stay if centred else partial(_on_circle, radius)
    outcome = partial(run_round, robot, radius, x_lim)
    walls = (-x_lim, x_lim)
    return Task(name, robot, (constraint,), time_limit, outcome, 0, place, CIRCLE, walls, radius, cost_at_most=1.0)


CIRCLE_TASKS = (
    _circle_task("AntCircle-v0", ANT, radius=10.0, x_lim=3.0, limit=50.0),
    _circle_task("HumanoidCircle-v0", HUMANOID, radius=10.0, x_lim=2.5, limit=50.0),
    _circle_task("PointCircle-v0", POINT, radius=15.0, x_lim=2.5, limit=5.0, time_limit=65, centred=True),
)
