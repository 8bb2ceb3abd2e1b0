"""Our tasks as ordinary Gymnasium environments, for use with any other library."""

from typing import Any

import gymnasium
import mujoco
import numpy as np

from focops.envs.mujoco_batch import ABSURD
from focops.envs.scene import Scene
from focops.envs.simulator import Quiet, control_step_seconds, load, pictures_per_second
from focops.envs.tasks import TASKS, Physics
from focops.envs.tasks.task import numpy_draws


class TaskEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One simulation of a task; `info["cost"]` is the cost of the step.

    The time limit is Gymnasium's `TimeLimit` wrapper, as registered. A simulation that becomes unstable ends its
    episode as truncated, with its last finite observation and no reward or cost.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 - Gymnasium's own convention

    def __init__(self, task: str, render_mode: str | None = None, width: int = 480, height: int = 480):
        self.task = TASKS[task]
        self.render_mode, self._size = render_mode, (width, height)
        self.model = model = load(self.task.robot)
        self.data = mujoco.MjData(model)
        self._scene: Scene | None = None
        dt = control_step_seconds(self.task.robot, model)
        self.metadata = {**self.metadata, "render_fps": round(pictures_per_second(self.task.robot, model))}
        self._physics = Physics(
            dt=dt,
            body_mass=model.body_mass.copy(),
            ctrlrange=model.actuator_ctrlrange.copy(),
            **{field: getattr(self.data, field) for field in ("qpos", "qvel", *self.task.robot.fields)},
        )
        low, high = self._physics.ctrlrange.astype(np.float32).T
        self.action_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        size = self._observe().size
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        qpos, qvel = self.task.start(numpy_draws(self.np_random), self.model.qpos0, self.model.nv)
        self.data.qpos[:], self.data.qvel[:] = qpos, qvel
        mujoco.mj_forward(self.model, self.data)
        if self._scene is not None:
            self._scene.restart()
        self._position = np.array(self.task.robot.position(np, self._physics))
        self._obs = self._observe()
        return self._obs.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        robot, p = self.task.robot, self._physics
        control = np.asarray(action, np.float64)
        self.data.ctrl[:] = control
        with Quiet():
            if robot.move:
                p.qpos[:] = robot.move(np, p, control)
                mujoco.mj_forward(self.model, self.data)
            else:
                mujoco.mj_step(self.model, self.data, nstep=robot.frame_skip)
        if not (np.abs(p.qpos).max() < ABSURD and np.abs(p.qvel).max() < ABSURD):
            return self._obs.copy(), 0.0, False, True, {"cost": _cost(np.zeros(len(self.task.constraints)))}
        before, self._position = self._position, np.array(robot.position(np, p))
        reward, cost, terminated = self.task.outcome(np, p, before, self._position, control)
        self._obs = self._observe()
        return self._obs.copy(), float(reward), bool(terminated), False, {"cost": _cost(cost)}

    def render(self) -> np.ndarray | None:
        """The picture [height, width, 3] of a camera that follows the robot; None without a render mode."""
        if self.render_mode is None:
            return None
        if self._scene is None:
            self._scene = Scene(self.task, *self._size)
        return self._scene.draw(self.data.qpos)

    def close(self) -> None:
        if self._scene is not None:
            self._scene.close()
            self._scene = None

    def _observe(self) -> np.ndarray:
        return self.task.observe(np, self._physics)


def _cost(cost: np.ndarray) -> float | np.ndarray:
    """A number where there is one cost, else a vector."""
    return float(cost[0]) if len(cost) == 1 else cost
