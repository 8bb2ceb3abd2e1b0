"""The velocity tasks of Safety-Gymnasium (Ji et al. 2023): walk forwards, below a speed in all but a few steps.

reward  w_forward · v_x + w_alive − w_effort · |control|²                    (Gymnasium's -v4)
cost    1[speed > threshold], speed = sqrt(v_x² + v_y²) of Ant and Humanoid, v_x of the others

The limit is 25 such steps in an episode, undiscounted. As in -v4, the step in which a robot falls has the reward for
being alive, too. Thresholds are half of the speed of an unconstrained PPO agent after 10M samples, as published there.
"""

from functools import partial

from focops.core.spec import Constraint
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


def walk_slowly(
    robot: Robot, threshold: float, planar: bool, xp: Namespace, p: Physics, before: Array, after: Array, action: Array
) -> Outcome:
    velocity = (after - before) / p.dt
    speed = xp.sqrt(xp.vecdot(velocity, velocity)) if planar else velocity[..., 0]
    control = robot.control(xp, p, action)
    reward = robot.forward * velocity[..., 0] + robot.alive - robot.effort * xp.vecdot(control, control)
    return Outcome(reward, (speed > threshold)[..., None].astype(reward.dtype), ~robot.healthy(xp, p))


def _velocity_task(name: str, robot: Robot, threshold: float, planar: bool = False) -> Task:
    constraint = Constraint("too_fast", 25.0, discount=1.0)
    outcome = partial(walk_slowly, robot, threshold, planar)
    return Task(name, robot, (constraint,), 1000, outcome, robot.hidden, cost_at_most=1.0)


VELOCITY_TASKS = (
    _velocity_task("AntVelocity-v0", ANT, 2.6222, planar=True),
    _velocity_task("HalfCheetahVelocity-v0", HALF_CHEETAH, 3.2096),
    _velocity_task("HopperVelocity-v0", HOPPER, 0.7402),
    _velocity_task("HumanoidVelocity-v0", HUMANOID, 1.4149, planar=True),
    _velocity_task("SwimmerVelocity-v0", SWIMMER, 0.2282),
    _velocity_task("Walker2dVelocity-v0", WALKER2D, 2.3415),
)
