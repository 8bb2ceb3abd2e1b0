"""Robots with a speed limit: walk forwards, but the discounted sum of the speed is bounded.

reward  w_forward · v_x + w_alive · 1[healthy] − w_effort · |control|²       (Gymnasium's)
cost    |v|, over the dimensions in which the robot travels: |v_x| or sqrt(v_x² + v_y²)

v is the finite difference of the robot's position over a control step. Limits are half of the speed of an unconstrained
agent (the paper's appendix), as *discounted* sums with gamma_C = 0.99.
"""

from functools import partial

from focops.core.spec import Constraint
from focops.envs.tasks.families import HUMANOID_SPEED, SPEED, Family
from focops.envs.tasks.robots import (
    ANT,
    HALF_CHEETAH,
    HOPPER,
    HUMANOID,
    SWIMMER,
    WALKER2D,
    Array,
    Namespace,
    Physics,
    Robot,
)
from focops.envs.tasks.task import Outcome, Task


def walk(robot: Robot, xp: Namespace, p: Physics, before: Array, after: Array, action: Array) -> Outcome:
    velocity = (after - before) / p.dt
    speed = xp.sqrt(xp.vecdot(velocity, velocity))
    control = robot.control(xp, p, action)
    healthy = robot.healthy(xp, p)
    reward = robot.forward * velocity[..., 0] + robot.alive * healthy - robot.effort * xp.vecdot(control, control)
    return Outcome(reward, speed[..., None], ~healthy)


def _speed_task(name: str, robot: Robot, limit: float, family: Family = SPEED) -> Task:
    constraint = Constraint("speed", limit, discount=0.99)
    return Task(name, robot, (constraint,), 1000, partial(walk, robot), robot.hidden, family=family)


SPEED_TASKS = (
    _speed_task("AntSpeed-v0", ANT, 103.115),
    _speed_task("HalfCheetahSpeed-v0", HALF_CHEETAH, 151.989),
    _speed_task("HopperSpeed-v0", HOPPER, 82.748),
    _speed_task("HumanoidSpeed-v0", HUMANOID, 20.140, HUMANOID_SPEED),
    _speed_task("SwimmerSpeed-v0", SWIMMER, 24.516),
    _speed_task("Walker2dSpeed-v0", WALKER2D, 81.886),
)
