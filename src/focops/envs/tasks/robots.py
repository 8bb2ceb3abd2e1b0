"""The robots: observation, position, health and start of each one, on the models that Gymnasium ships.

Everything here is a pure function of physics fields over any leading axes, with `xp` = numpy or jax.numpy, so that
the CPU backend, the GPU backend and the single Gymnasium environment share one definition. Numbers are those of
Gymnasium's -v5 classes; contact forces (`cfrc_ext`) are left out of observations and rewards, because they were zero in
the simulator generation of the paper.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Array = Any
"""numpy.ndarray or jax.Array."""
Namespace = Any
"""The module numpy or jax.numpy."""

SELF_CONTACTS = 8
"""Default number of contacts of a robot with itself that fixed buffers have room for."""


class Physics(NamedTuple):
    """Constants of the model, and MuJoCo's fields of the same names over leading axes `...`.

    Derived fields that a robot does not list in `Robot.fields` may be None.
    """

    dt: float
    """Seconds per control step."""
    body_mass: Array
    """[nbody]"""
    ctrlrange: Array
    """[nu, 2]"""
    qpos: Array
    """[..., nq]"""
    qvel: Array
    """[..., nv]"""
    xpos: Array = None
    """[..., nbody, 3]"""
    xipos: Array = None
    """[..., nbody, 3]"""
    cinert: Array = None
    """[..., nbody, 10]"""
    cvel: Array = None
    """[..., nbody, 6]"""
    qfrc_actuator: Array = None
    """[..., nv]"""


def _state_features(xp: Namespace, p: Physics, skip: int) -> tuple[Array, ...]:
    """Joint positions without the first `skip`, and joint velocities."""
    return p.qpos[..., skip:], p.qvel


def _clipped_features(xp: Namespace, p: Physics, skip: int) -> tuple[Array, ...]:
    """As `_state_features`, velocities clipped to ±10."""
    return p.qpos[..., skip:], xp.clip(p.qvel, -10.0, 10.0)


def _humanoid_features(xp: Namespace, p: Physics, skip: int) -> tuple[Array, ...]:
    """Joint state, each body's inertia and velocity about the mass centre, and the actuators' joint forces."""
    inertia, velocity = p.cinert[..., 1:, :], p.cvel[..., 1:, :]  # without the world body
    flat = (*p.qpos.shape[:-1], -1)
    return p.qpos[..., skip:], p.qvel, inertia.reshape(flat), velocity.reshape(flat), p.qfrc_actuator[..., 6:]


def _point_features(xp: Namespace, p: Physics, skip: int) -> tuple[Array, ...]:
    """Position, and the heading as a direction: the angle itself grows without bound."""
    heading = p.qpos[..., 2:]
    return p.qpos[..., skip:2], xp.cos(heading), xp.sin(heading)


def _root_x(xp: Namespace, p: Physics) -> Array:
    return p.qpos[..., :1]


def _root_xy(xp: Namespace, p: Physics) -> Array:
    return p.qpos[..., :2]


def _torso_xy(xp: Namespace, p: Physics) -> Array:
    return p.xpos[..., 1, :2]


def _mass_centre_xy(xp: Namespace, p: Physics) -> Array:
    return p.body_mass @ p.xipos[..., :2] / p.body_mass.sum()


def _always_healthy(xp: Namespace, p: Physics) -> Array:
    return xp.ones(p.qpos.shape[:-1], bool)


def _ant_healthy(xp: Namespace, p: Physics) -> Array:
    z = p.qpos[..., 2]
    finite = xp.isfinite(p.qpos).all(-1) & xp.isfinite(p.qvel).all(-1)
    return finite & (z >= 0.2) & (z <= 1.0)


def _hopper_healthy(xp: Namespace, p: Physics) -> Array:
    z, angle = p.qpos[..., 1], p.qpos[..., 2]
    bounded = (xp.abs(p.qpos[..., 2:]) < 100).all(-1) & (xp.abs(p.qvel) < 100).all(-1)
    return bounded & (z > 0.7) & (z < np.inf) & (xp.abs(angle) < 0.2)


def _humanoid_healthy(xp: Namespace, p: Physics) -> Array:
    z = p.qpos[..., 2]
    return (z > 1.0) & (z < 2.0)


def _walker_healthy(xp: Namespace, p: Physics) -> Array:
    z, angle = p.qpos[..., 1], p.qpos[..., 2]
    return (z > 0.8) & (z < 2.0) & (xp.abs(angle) < 1.0)


def raw(xp: Namespace, p: Physics, action: Array) -> Array:
    return action


def clamped(xp: Namespace, p: Physics, action: Array) -> Array:
    """The control that reaches the actuators: MuJoCo clamps it to their range without writing it back."""
    return xp.clip(action, p.ctrlrange[:, 0], p.ctrlrange[:, 1])


def _glide(xp: Namespace, p: Physics, action: Array) -> Array:
    """rllab's PointEnv: turn by action[1], then go action[0] forwards inside a square of ±40. Returns the new qpos."""
    control = clamped(xp, p, action)
    heading = p.qpos[..., 2:] + control[..., 1:]
    ahead = xp.concatenate((xp.cos(heading), xp.sin(heading)), axis=-1)
    return xp.concatenate((xp.clip(p.qpos[..., :2] + control[..., :1] * ahead, -40.0, 40.0), heading), axis=-1)


@dataclass(frozen=True)
class Robot:
    """One MuJoCo model and how Gymnasium uses it. Defaults are those of a robot that cannot fall."""

    xml: str
    """File among Gymnasium's MuJoCo assets, or the whole path of one of your own."""
    frame_skip: int
    """Simulation steps per control step."""
    hidden: int
    """Root coordinates left out of the observation, so that a gait does not depend on the place."""
    position: Callable[[Namespace, Physics], Array]
    """Where it is, in the one or two dimensions it travels: [..., 1 or 2]."""
    noise: float
    """Start positions are qpos0 + uniform(±noise), start velocities noise · (uniform(±1) or standard normal)."""
    effort: float = 0.0
    """Weight of the control cost |control|²."""
    forward: float = 1.0
    """Weight of the forward velocity in the reward."""
    alive: float = 0.0
    """Reward of a healthy step."""
    normal_velocity: bool = False
    """Whether start velocities are normal rather than uniform."""
    fields: tuple[str, ...] = ()
    """Derived fields of MjData that it reads beside qpos and qvel."""
    features: Callable[[Namespace, Physics, int], tuple[Array, ...]] = _state_features
    """Parts of the observation, [..., n] each, without that many first root coordinates."""
    healthy: Callable[[Namespace, Physics], Array] = _always_healthy
    """[...] bool; an unhealthy state ends the episode."""
    control: Callable[[Namespace, Physics, Array], Array] = raw
    """The control that the control cost sees."""
    move: Callable[[Namespace, Physics, Array], Array] | None = None
    """New qpos of a robot that is moved, not simulated; its control step is one second."""


ANT = Robot(
    "ant.xml", 5, 2, _torso_xy, 0.1, effort=0.5, alive=1.0, normal_velocity=True, fields=("xpos",), healthy=_ant_healthy
)
HALF_CHEETAH = Robot("half_cheetah.xml", 5, 1, _root_x, 0.1, effort=0.1, normal_velocity=True)
HOPPER = Robot(
    "hopper.xml", 4, 1, _root_x, 5e-3, effort=1e-3, alive=1.0, features=_clipped_features, healthy=_hopper_healthy
)
HUMANOID = Robot(
    "humanoid.xml",
    5,
    2,
    _mass_centre_xy,
    1e-2,
    effort=0.1,
    forward=1.25,
    alive=5.0,
    fields=("xipos", "cinert", "cvel", "qfrc_actuator"),
    features=_humanoid_features,
    healthy=_humanoid_healthy,
    control=clamped,
)
SWIMMER = Robot("swimmer.xml", 4, 2, _root_xy, 0.1, effort=1e-4)
# walker2d.xml and not walker2d_v5.xml: the -v5 model has other foot friction than the paper's
WALKER2D = Robot(
    "walker2d.xml", 4, 1, _root_x, 5e-3, effort=1e-3, alive=1.0, features=_clipped_features, healthy=_walker_healthy
)
POINT = Robot("point.xml", 1, 0, _root_xy, 1e-2, features=_point_features, move=_glide)
