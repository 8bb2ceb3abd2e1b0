"""MuJoCo's own log stays silent and leaves no MUJOCO_LOG.TXT: half_cheetah.xml warns when Gymnasium loads it."""

import pytest

from focops.envs.registration import register
from focops.envs.scene import Scene
from focops.envs.simulator import Quiet
from focops.envs.tasks import TASKS
from focops.errors import UsageError

register()


@pytest.fixture(autouse=True)
def _quiet_mujoco():
    with Quiet():
        yield


@pytest.fixture(scope="session")
def needs_opengl() -> None:
    """Skips where no picture can be drawn."""
    try:
        Scene(TASKS["PointCircle-v0"], 160, 120).close()
    except UsageError as error:
        pytest.skip(str(error))
