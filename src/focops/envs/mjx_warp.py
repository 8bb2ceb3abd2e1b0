"""MJX's Warp functions with fewer calls: every call from XLA into Warp goes through Python, which takes longer than a
small robot's simulation step.

MJX's own functions are generated; each consists of `_NAME_shim`, which calls `mjwarp.NAME(model, data)` with the arrays
in place, and `_NAME_jax_impl`, which declares them to XLA. Here the same two run with another `mjwarp.NAME`: n steps
instead of one, and the three kinematic stages instead of a whole forward pass.

On a CUDA device a call is a graph of kernels with fixed addresses. The addresses of
XLA's arrays change from one iteration to the next, and capturing a new graph takes longer than the steps. So Warp has
arrays of its own (`STAGED`), and only what the tasks set and read is copied.
"""

import functools
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import jax
import warp as wp
from mujoco.mjx.third_party import mujoco_warp
from mujoco.mjx.warp import ffi
from mujoco.mjx.warp import forward as generated

_Stage = Callable[[Any, Any], Any]
"""(mjx.Model, mjx.Data of N simulations) -> mjx.Data"""

STAGED = wp.JaxCallableGraphMode.WARP_STAGED_EX
"""For `mjx.put_model`. Warp has one such set of arrays per call in a program, not one per device."""
SET = frozenset(("qpos", "qvel", "qacc_warmstart", "ctrl", "overflow"))
"""Fields that may have changed since the previous call."""
READ = frozenset(("qpos", "qvel", "qacc_warmstart", "overflow", "solver_niter"))
"""Fields that are read after a call, beside those it is asked for. If staged, the others are not updated."""


@functools.cache
def steps(number: int, fields: tuple[str, ...] = ()) -> _Stage:
    """`number` simulation steps as one call, which updates `READ` and `fields`."""

    def many(model: Any, data: Any) -> None:
        for _ in range(number):
            mujoco_warp.step(model, data)

    return _batched("step", many, READ.union(fields))


@functools.cache
def place(fields: tuple[str, ...]) -> _Stage:
    """Compute `fields`, of the bodies' positions, inertias and velocities, from qpos and qvel."""

    def kinematics(model: Any, data: Any) -> None:
        mujoco_warp.kinematics(model, data)
        mujoco_warp.com_pos(model, data)
        mujoco_warp.com_vel(model, data)

    return _batched("forward", kinematics, frozenset(fields))


def _batched(name: str, work: Callable[[Any, Any], None], read: frozenset[str]) -> _Stage:
    """`generated.NAME` for N simulations, doing `work`; `read` is what it may change."""
    shim = getattr(generated, f"_{name}_shim").__wrapped__
    shim = ffi.format_args_for_warp(_with_globals(shim, mjwarp=SimpleNamespace(**{name: work})))

    def declare(function: Any, **options: Any) -> Any:
        staged: dict[str, Any] = dict(stage_in_argnames=SET, stage_out_argnames=read)
        return ffi.jax_callable_variadic_tuple(function, **options | staged)

    names = {f"_{name}_shim": shim, "ffi": SimpleNamespace(jax_callable_variadic_tuple=declare)}
    implementation = _with_globals(getattr(generated, f"_{name}_jax_impl"), **names)

    @jax.custom_batching.custom_vmap
    @ffi.marshal_jax_warp_callable
    def stage(model: Any, data: Any) -> Any:
        return implementation(model, data)

    @stage.def_vmap
    @ffi.marshal_custom_vmap
    def many(axis_size: int, is_batched: Any, model: Any, data: Any) -> Any:
        return stage(model, data), is_batched[1]

    return jax.vmap(stage, (None, 0))


def _with_globals(function: Any, **names: Any) -> Any:
    """A copy of the function in which some global names of its module are replaced."""
    twin = FunctionType(
        function.__code__, function.__globals__ | names, function.__name__, function.__defaults__, function.__closure__
    )
    twin.__annotations__, twin.__kwdefaults__ = function.__annotations__, function.__kwdefaults__
    twin.__module__ = function.__module__
    return twin
