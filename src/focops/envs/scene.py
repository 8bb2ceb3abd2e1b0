"""Pictures of our tasks: a camera that follows the robot, a floor without end, and what the cost is about."""

import math
import warnings
from collections.abc import Iterator

import mujoco
import numpy as np

from focops.envs.gl import renderer
from focops.envs.simulator import Quiet, file_of
from focops.envs.tasks import Robot, Task

_FOLLOW = 0.35
"""The share of the way to the robot that the camera makes from one picture to the next."""
_SKY, _HORIZON = (0.42, 0.60, 0.80), (0.90, 0.94, 0.97)
_FLOOR = (0.50, 0.55, 0.60), (0.57, 0.62, 0.67)
_WALL, _RING = (0.86, 0.16, 0.13, 0.45), (0.13, 0.47, 0.24, 0.9)
_SEGMENTS = 90
"""Straight parts that a circle is drawn with."""


class Scene:
    """Draws states of a task; must be closed."""

    def __init__(self, task: Task, width: int, height: int) -> None:
        self._task, self.model = task, _model(task.robot)
        self._data = mujoco.MjData(self.model)
        self._renderer = renderer(self.model, width, height)
        self._camera = mujoco.MjvCamera()
        mujoco.mj_forward(self.model, self._data)
        circling = task.radius is not None
        self._camera.distance = (7.0 if circling else 4.2) * self._reach() + 0.4
        self._camera.azimuth, self._camera.elevation = (90.0, -28.0) if circling else (105.0, -16.0)
        self._height = 0.85 * self._data.subtree_com[1][2]
        self.restart()

    def restart(self) -> None:
        """Of a new episode: the camera jumps to the robot."""
        self._centre: np.ndarray | None = None

    def draw(self, qpos: np.ndarray) -> np.ndarray:
        """The picture [height, width, 3] of joint positions, as bytes."""
        self._data.qpos[:] = qpos
        with Quiet():
            mujoco.mj_forward(self.model, self._data)
        robot = self._data.subtree_com[1][:2].copy()
        jumped = self._centre is None
        centre = robot if self._centre is None else self._centre + _FOLLOW * (robot - self._centre)
        self._camera.lookat[:] = (*centre, self._height)
        self._centre = centre
        self.model.light_pos[:, :2] = robot  # a light has shadows only around it
        mujoco.mj_camlight(self.model, self._data)
        for _ in range(1 + jumped):  # MuJoCo lays an endless floor around where the camera was before
            self._renderer.update_scene(self._data, self._camera)
        for kind, size, place, turned, colour in self._marks():
            self._add(kind, size, place, turned, colour)
        return self._renderer.render()

    def close(self) -> None:
        self._renderer.close()

    def _reach(self) -> float:
        """How far the robot's parts are from its centre."""
        parts = np.flatnonzero(self.model.geom_bodyid > 0)
        away = np.linalg.norm(self._data.geom_xpos[parts] - self._data.subtree_com[1], axis=1)
        return float((away + 0.5 * self.model.geom_rbound[parts]).max())

    def _marks(self) -> Iterator[tuple]:
        radius = self._task.radius
        if radius is not None:
            side = math.pi * radius / _SEGMENTS
            for angle in np.linspace(0, 2 * math.pi, _SEGMENTS, endpoint=False):
                place = radius * math.cos(angle), radius * math.sin(angle), 0.012
                yield "BOX", (0.05, 1.02 * side, 0.01), place, angle, _RING
        for x in self._task.walls:
            yield "BOX", (0.04, 1.6 * (radius or 10.0), 0.35), (x, 0.0, 0.35), 0.0, _WALL

    def _add(self, kind: str, size: tuple, place: tuple, turned: float, colour: tuple) -> None:
        scene = self._renderer.scene
        if scene.ngeom >= scene.maxgeom:
            return
        cos, sin = math.cos(turned), math.sin(turned)
        mujoco.mjv_initGeom(
            scene.geoms[scene.ngeom], getattr(mujoco.mjtGeom, f"mjGEOM_{kind}"), np.array(size), np.array(place),
            np.array([cos, -sin, 0, sin, cos, 0, 0, 0, 1]), np.array(colour, np.float32),
        )  # fmt: skip
        scene.ngeom += 1


def _model(robot: Robot) -> mujoco.MjModel:
    """The robot's model, to look at: the same but for the floor, which has no end, and for colours and light."""
    with Quiet():
        spec = mujoco.MjSpec.from_file(str(file_of(robot)))
        for texture in spec.textures:
            if texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
                texture.rgb1, texture.rgb2 = _SKY, _HORIZON
            elif texture.builtin == mujoco.mjtBuiltin.mjBUILTIN_CHECKER:
                texture.rgb1, texture.rgb2 = _FLOOR
        for geom in spec.geoms:
            if geom.type == mujoco.mjtGeom.mjGEOM_PLANE:
                geom.size = [0, 0, 0.1]
                geom.rgba = [1, 1, 1, 1]
        for material in spec.materials:
            if material.name == "MatPlane":
                material.texuniform, material.texrepeat, material.reflectance = True, [0.5, 0.5], 0.0
                material.specular, material.shininess = 0.1, 0.1
        for light in spec.lights:
            light.pos, light.dir = [0, 0, 4], [0, 0, -1]
            light.diffuse = [0.75, 0.75, 0.75]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # half_cheetah.xml has a deprecated attribute
            model = spec.compile()
    model.vis.headlight.ambient[:] = 0.35
    model.vis.headlight.diffuse[:] = 0.25
    model.vis.quality.shadowsize = 1024
    model.stat.extent = 3.0  # metres; the infinite floor has none, and shadows are as fine as this is small
    model.vis.map.zfar, model.vis.map.znear = 60, 0.02
    return model
