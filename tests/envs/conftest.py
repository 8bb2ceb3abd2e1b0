"""MuJoCo's own log stays silent and leaves no MUJOCO_LOG.TXT: half_cheetah.xml warns when Gymnasium loads it."""

import pytest

from focops.envs.registration import register
from focops.envs.simulator import Quiet

register()


@pytest.fixture(autouse=True)
def _quiet_mujoco():
    with Quiet():
        yield
