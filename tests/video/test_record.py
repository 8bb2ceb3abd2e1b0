"""A video shows the episodes of an evaluation, with their sums, and is whole or absent."""

import dataclasses
import sys
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

import focops
from focops import api, cli
from focops.envs.names import Given
from focops.errors import RunError, UsageError
from focops.evaluation import host
from focops.runs.directory import RunDirectory
from focops.runs.policy_file import load
from focops.training.host import make_envs
from tests.resume.tiny import tiny
from tests.video import drawn

BLINK = "tests.video.drawn:Blink-v0"


class Grey:
    """A scene that needs no OpenGL: the robot's x as a shade."""

    def __init__(self, task, width, height):
        self._shape, self.drawn = (height, width, 3), 0

    def restart(self): ...

    def draw(self, qpos):
        return np.full(self._shape, 100 + int(qpos[0]), np.uint8)

    def close(self): ...


@pytest.fixture(scope="module")
def point(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return api.run(tiny("PointCircle-v0", tmp_path_factory.mktemp("point") / "run", iterations=1)).path


@pytest.fixture(scope="module")
def blink(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return api.run(tiny(BLINK, tmp_path_factory.mktemp("blink") / "run", iterations=1)).path


@pytest.fixture(autouse=True)
def no_opengl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("focops.envs.scene.Scene", Grey)


def evaluated(run: Path, episodes: int, seed: int, deterministic: bool = False) -> np.ndarray:
    """Return, discounted and undiscounted cost of each episode, as `focops evaluate` runs them."""
    env = make_envs(RunDirectory(run).config, episodes)
    rows, _, _ = host.run_episodes(load(run), env, seed, episodes, deterministic)
    env.close()
    return rows[:, 1:]


@pytest.mark.parametrize(("task", "deterministic"), [("point", False), ("blink", False), ("blink", True)])
def test_the_episodes_are_those_of_an_evaluation(task, deterministic, tmp_path, request):
    run = request.getfixturevalue(task)
    made = focops.record(
        run, tmp_path / "a.mp4", episodes=3, seed=4, deterministic=deterministic, width=160, height=160
    )
    np.testing.assert_allclose(made.sums, evaluated(run, 3, 4, deterministic), rtol=1e-12)
    assert imageio_ffmpeg.count_frames_and_secs(str(made.path))[0] == made.pictures


def test_a_video_is_in_real_time_whatever_its_pictures_a_second(blink, tmp_path):
    length = focops.record(blink, tmp_path / "a.gif", seed=1).pictures - 8  # the end is shown for 0.8 s
    half = focops.record(blink, tmp_path / "b.gif", seed=1, fps=5)
    assert half.fps == 5
    assert half.pictures == -(-length // 2) + 4
    with Image.open(half.path) as gif:
        assert gif.info["duration"] == 200


def test_small_pictures_are_enlarged_and_the_panel_is_drawn_into_them(blink, tmp_path):
    focops.record(blink, tmp_path / "a.gif", steps=2)
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.size == (480, 360)
        picture = np.asarray(gif.convert("RGB"))
    assert (picture[-20:] == 0).all()  # step 0 is black
    assert (picture[:150, :300] > 240).any()  # text


def test_steps_cut_every_episode(point, tmp_path):
    made = focops.record(point, tmp_path / "a.mp4", episodes=2, steps=7, width=160, height=160)
    assert made.pictures == 2 * (7 + 10)  # at 12 pictures a second the end is shown for ten


def test_a_policy_alone_is_recorded_with_the_limits_of_its_task(point, tmp_path):
    made = focops.record(point / "policy", tmp_path / "a.gif", seed=4, steps=3)
    whole = focops.record(point, tmp_path / "b.gif", seed=4, steps=3)
    np.testing.assert_array_equal(made.sums, whole.sums)


def test_the_command_writes_into_the_run_and_says_the_return(blink, capsys):
    assert cli.main(["record", str(blink), "--seed", "2", "--steps", "3"]) == 0
    captured = capsys.readouterr()
    assert (blink / "video.mp4").stat().st_size > 500
    assert f"written to {blink / 'video.mp4'}" in captured.out
    assert captured.err.startswith(f"recording {blink}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--out x.avi", "--out is x.avi; its ending must be .mp4 or .gif"),
        ("--episodes 0", "--episodes is 0; it must be from 1 to 128"),
        ("--width 161", "--width is 161; it must be an even number from 160 to 4096"),
        ("--steps 0", "--steps is 0; it must be 1 or more"),
        ("--fps 0", "--fps is 0.0; it must be from 1 to 240"),
        ("--seed -1", "--seed is -1; it must be from 0"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_loaded(words, message, capsys):
    assert cli.main(["record", "nowhere", *words.split()]) == cli.USAGE
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("env", "error", "message"),
    [
        ("Blind", UsageError, r"Blind cannot be drawn: its render_mode is None .* render_modes, now \['human'\]"),
        ("Floats", RunError, r"rendered float64\[90, 120\]: it must be a picture of bytes"),
    ],
)
def test_an_environment_that_cannot_be_drawn_is_refused_and_nothing_is_left(
    blink, tmp_path, monkeypatch, env, error, message
):
    config = dataclasses.replace(RunDirectory(blink).config, given=Given(getattr(drawn, env)))
    monkeypatch.setattr(RunDirectory, "config_with", lambda *_: config)
    with pytest.raises(error, match=message):
        focops.record(blink, tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


def test_an_environment_under_another_python_is_refused(blink, tmp_path, monkeypatch):
    config = dataclasses.replace(RunDirectory(blink).config, env_python=Path("/other/python"))
    monkeypatch.setattr(RunDirectory, "config_with", lambda *_: config)
    with pytest.raises(UsageError, match=r"runs under another Python \(/other/python\), from which no pictures come"):
        focops.record(blink, tmp_path / "a.mp4")


def test_an_interrupted_recording_leaves_what_was_there(blink, tmp_path):
    (tmp_path / "a.mp4").write_text("before")

    def interrupt(done: int, total: int, note: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        focops.record(blink, tmp_path / "a.mp4", progress=interrupt)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.mp4", "before")]


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UsageError, match=r"a video needs imageio_ffmpeg: pip install 'focops\[video\]'"):
        focops.record("nowhere")
