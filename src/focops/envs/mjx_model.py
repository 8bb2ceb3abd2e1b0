"""A model in MJX's form, and the buffer sizes that its contacts need."""

import contextlib
import copy
from typing import Any, Literal, NamedTuple

import jax
import mujoco
import numpy as np

with contextlib.redirect_stdout(None):  # it prints a message where Warp is not installed
    from mujoco import mjx

Impl = Literal["warp", "jax"]
TOLERANCE = 1e-6
"""Tolerance of the constraint solver: MuJoCo's 1e-8 is below the resolution of float32 and only costs iterations."""


class Buffers(NamedTuple):
    """Buffer sizes of one simulation."""

    contacts: int
    constraints: int


def for_mjx(model: mujoco.MjModel) -> mujoco.MjModel:
    """The model as MJX runs it."""
    model = copy.copy(model)
    model.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)  # it never resets by itself
    model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    model.opt.tolerance = max(model.opt.tolerance, TOLERANCE)
    return model


def put_model(model: mujoco.MjModel, impl: Impl, several_devices: bool = False) -> Any:
    """MJX's form of the model. Warp would print a line from the device for every buffer too small and every solve cut
    short; the former is reported by `MjxTask.overflow`, the latter harmless."""
    if impl == "jax":
        return mjx.put_model(model, impl=impl)
    from focops.envs import mjx_warp

    staged = jax.default_backend() == "gpu" and not several_devices
    put = mjx.put_model(model, impl=impl, graph_mode=mjx_warp.STAGED if staged else None)
    return put.tree_replace({"opt._impl.warn_overflow": 0})


def buffer_sizes(model: mujoco.MjModel, self_contacts: int) -> Buffers:
    """Every contact with the floor that the geoms can have, some of the robot with itself, every joint limit."""
    plane = mujoco.mjtGeom.mjGEOM_PLANE
    touches = lambda i, j: (
        (model.geom_contype[i] & model.geom_conaffinity[j]) or (model.geom_contype[j] & model.geom_conaffinity[i])
    )
    floors = [i for i in range(model.ngeom) if model.geom_type[i] == plane]
    others = [i for i in range(model.ngeom) if model.geom_type[i] != plane]
    points = {int(mujoco.mjtGeom.mjGEOM_SPHERE): 1, int(mujoco.mjtGeom.mjGEOM_CAPSULE): 2}
    contacts, rows = 0, int(np.sum(model.jnt_limited)) + model.ntendon + model.neq * 6
    for geom in others:
        for floor in floors:
            if touches(geom, floor):
                number = points.get(int(model.geom_type[geom]), 4)
                contacts += number
                rows += number * _rows(max(model.geom_condim[geom], model.geom_condim[floor]))
    if any(touches(i, j) for i in others for j in others if i < j):
        contacts += self_contacts
        rows += self_contacts * _rows(max(model.geom_condim[others]))
    return Buffers(max(contacts, 1), max(rows, 1))


def _rows(condim: int | np.integer) -> int:
    """Constraint rows of a contact with a pyramidal cone."""
    return 1 if condim == 1 else 2 * (int(condim) - 1)
