"""Pictures of tasks."""

import os
import sys

import gymnasium
import numpy as np
import pytest

from focops.envs import gl
from focops.envs.scene import Scene
from focops.envs.tasks import TASKS
from focops.errors import UsageError


def pictures(task: str, *places: tuple[float, float]) -> list[np.ndarray]:
    scene, found = Scene(TASKS[task], 160, 120), []
    for place in places:
        qpos = scene.model.qpos0.copy()
        qpos[:2] = place
        scene.restart()
        found.append(scene.draw(qpos).astype(int))
    scene.close()
    return found


@pytest.mark.usefixtures("needs_opengl")
def test_far_away_a_robot_looks_the_same_on_a_floor_without_end():
    """The floor repeats every two metres."""
    here, there, between = pictures("AntSpeed-v0", (0, 0), (200, -100), (0.7, 0))
    assert here.std() > 20
    assert np.abs(here - there).mean() < 1
    assert np.abs(here - between).mean() > 3


@pytest.mark.usefixtures("needs_opengl")
def test_the_walls_of_a_circle_task_are_seen_where_they_are():
    near, far = pictures("AntCircle-v0", (3, 0), (3, 100))
    red = lambda picture: ((picture[..., 0] - picture[..., 1]) > 60) & ((picture[..., 0] - picture[..., 2]) > 60)
    middle = red(near)[:, 60:100]
    assert middle.sum() > 100  # the robot stands in the wall
    assert red(far)[:, 60:100].sum() < middle.sum() / 4


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is one OpenGL")
def test_without_opengl_it_is_said_what_was_tried_and_what_to_install(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr(gl, "_first_that_works", gl._first_that_works.__wrapped__)
    monkeypatch.setattr(gl, "_ATTEMPT", "raise ImportError('no driver')")
    tried = r"\(EGL: ImportError: no driver; OSMesa: ImportError: no driver\)"
    with pytest.raises(UsageError, match=tried + r"\. Install EGL .* or OSMesa .*MUJOCO_GL=egl, osmesa"):
        Scene(TASKS["PointCircle-v0"], 160, 120)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is one OpenGL")
def test_where_egl_fails_osmesa_is_next(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr(gl, "_ATTEMPT", "import os; assert os.environ['MUJOCO_GL'] == 'osmesa'")
    assert gl._first_that_works.__wrapped__() == "osmesa"


@pytest.mark.usefixtures("needs_opengl")
def test_an_environment_of_gymnasium_that_mujoco_draws_is_drawn_without_a_display(monkeypatch):
    for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    env = gymnasium.make("InvertedPendulum-v5", render_mode="rgb_array")
    env.reset(seed=0)
    with gl.chosen_for_environments():
        assert np.asarray(env.render()).std() > 10
    assert "MUJOCO_GL" not in os.environ
    env.close()
