"""MuJoCo's renderer on whatever OpenGL there is: without a display EGL, else OSMesa."""

import contextlib
import functools
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator

import mujoco

from focops.errors import UsageError

_NAMES = {"egl": "EGL", "osmesa": "OSMesa", "glfw": "GLFW"}
INSTALL = (
    "Install EGL (Debian: apt-get install libegl1 libgl1-mesa-dri, or the driver of the GPU) or OSMesa (apt-get install"
    " libosmesa6), or choose one that you have: MUJOCO_GL=egl, osmesa, or with a display glfw"
)
_ATTEMPT = """
import mujoco
mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 8, 8).close()
"""
_SECONDS = 60


def renderer(model: mujoco.MjModel, width: int, height: int) -> mujoco.Renderer:
    """A renderer that must be closed. UsageError if there is no OpenGL here, or not the one that MUJOCO_GL names."""
    model.vis.global_.offwidth = max(model.vis.global_.offwidth, width)
    model.vis.global_.offheight = max(model.vis.global_.offheight, height)
    chosen = os.environ.get("MUJOCO_GL")
    if sys.platform == "linux" and not chosen:
        # MuJoCo decides when it is imported, and knows only a display then
        context = importlib.import_module(f"mujoco.{_first_that_works()}").GLContext
        importlib.import_module("mujoco.rendering.classic.gl_context").GLContext = context
    try:
        return mujoco.Renderer(model, height, width)
    except Exception as error:
        which = f"MUJOCO_GL={chosen}: " if chosen else ""
        raise UsageError(f"no picture can be drawn here ({which}{error}). {INSTALL}") from error


@contextlib.contextmanager
def chosen_for_environments() -> Iterator[None]:
    """While an environment draws itself: without MUJOCO_GL those of Gymnasium take GLFW, which needs a display."""
    name = ""
    if sys.platform == "linux" and not any(map(os.environ.get, ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"))):
        with contextlib.suppress(UsageError):  # it may need no OpenGL
            name = _first_that_works()
    if name:
        os.environ["MUJOCO_GL"] = name
    try:
        yield
    finally:
        if name:
            del os.environ["MUJOCO_GL"]


@functools.cache
def _first_that_works() -> str:
    """Each is tried in a process of its own: one that fails leaves a library behind that disturbs the next."""
    failed = []
    for name in ("egl", "osmesa", *["glfw"] * bool(os.environ.get("DISPLAY"))):
        why = _failure(name)
        if not why:
            return name
        failed.append(f"{_NAMES[name]}: {why}")
    raise UsageError(f"no picture can be drawn here ({'; '.join(failed)}). {INSTALL}")


def _failure(name: str) -> str:
    """Why it does not work; "" if it does."""
    command, env = [sys.executable, "-c", _ATTEMPT], os.environ | {"MUJOCO_GL": name}
    try:
        ran = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"no answer in {_SECONDS} s"
    said = [line for line in ran.stderr.splitlines() if "Error" in line and not line.startswith(" ")]
    return "" if ran.returncode == 0 else said[0] if said else f"exit status {ran.returncode}"
