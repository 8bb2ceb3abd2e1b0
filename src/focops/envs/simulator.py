"""MuJoCo models of the robots, loaded and run without MuJoCo's own log."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import mujoco

from focops.core.spec import Constraint, Spec
from focops.envs.tasks import Robot, Task


def _silent() -> mujoco.MjLogConfig:
    config = mujoco.MjLogConfig.get()
    config.logto_console = False
    config.logto_file = False
    return config


class Quiet:
    """Context without MuJoCo's warnings on the console and in MUJOCO_LOG.TXT. At 0.5 µs it may enclose every step.

    half_cheetah.xml causes a deprecation warning, and an unstable simulation one per quantity. The backend reports
    unstable simulations itself.
    """

    _silent = _silent()

    def __enter__(self) -> None:
        self._before = mujoco.MjLogConfig.get()
        mujoco.MjLogConfig.set(self._silent)

    def __exit__(self, *error: object) -> None:
        mujoco.MjLogConfig.set(self._before)


def file_of(robot: Robot) -> Path:
    """The robot's XML file, among Gymnasium's assets or elsewhere."""
    spec = find_spec("gymnasium")  # finds the assets without importing Gymnasium
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "envs/mujoco/assets" / robot.xml


def load(robot: Robot) -> mujoco.MjModel:
    """The robot's model. An unstable simulation is left as it is: the backend ends its episode instead."""
    with Quiet():
        model = mujoco.MjModel.from_xml_path(str(file_of(robot)))
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    return model


def spec_of(task: Task, model: mujoco.MjModel, obs_size: int, constraints: Sequence[Constraint] | None) -> Spec:
    """What an algorithm must know about a task; with the task's own constraints if none are given."""
    return Spec(
        obs_size=obs_size,
        action_size=model.nu,
        discrete=False,
        constraints=tuple(constraints or task.constraints),
        time_limit=task.time_limit,
        action_low=tuple(model.actuator_ctrlrange[:, 0].tolist()),
        action_high=tuple(model.actuator_ctrlrange[:, 1].tolist()),
    )


def pictures_per_second(robot: Robot, model: mujoco.MjModel) -> float:
    """Control steps that are shown in a second: as many as it simulates, or 12 of a robot that is only moved."""
    return 12.0 if robot.move else 1 / control_step_seconds(robot, model)


def control_step_seconds(robot: Robot, model: mujoco.MjModel) -> float:
    return 1.0 if robot.move else model.opt.timestep * robot.frame_skip
