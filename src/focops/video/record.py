"""A run's policy as a video."""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from focops.config import TrainConfig, default_config
from focops.core.networks import Network
from focops.envs.names import Given
from focops.errors import UsageError
from focops.evaluation.host import AT_ONCE
from focops.runs.directory import RunDirectory
from focops.runs.policy import Policy
from focops.runs.policy_file import load
from focops.training.host import configure_jax
from focops.video import encode, overlay
from focops.video.episodes import Asked, Filmed, filmed

WIDTH, HEIGHT, FPS = 854, 480, 30.0
_HOLD = 0.8
"""Seconds that the end of an episode is shown."""
_LEAST_HEIGHT = 360
"""Smaller pictures of an environment are enlarged, so that the panel can be read."""


class Recorded(NamedTuple):
    path: Path
    pictures: int
    fps: float
    sums: np.ndarray
    """Of each episode: return, m discounted costs, m undiscounted costs."""


def record(
    run: Path | str,
    out: Path | str | None = None,
    *,
    episodes: int = 1,
    seed: int = 0,
    deterministic: bool = False,
    steps: int | None = None,
    width: int | None = None,
    height: int | None = None,
    fps: float = FPS,
    network: Network | None = None,
    env: Any = None,
    cost: Any = None,
    progress: Callable[[int, int, str], None] = lambda done, total, note: None,
) -> Recorded:
    """Render episodes of a run's policy to `out`, an mp4 or gif (default: video.mp4 in the run's directory).

    The episodes are those of `focops.evaluate(run, episodes=episodes, seeds=[seed])`, in real time: of more steps a
    second than `fps` every second, third, … is shown. `steps` cuts each. `network`, `env` and `cost` are needed only
    where they are for `evaluate`. `progress` is told how many of how many steps are drawn.
    """
    overlay.imported()
    _require_mujoco()
    asked = Asked(episodes, seed, deterministic, steps)
    _check(asked, width, height, fps)
    path = _out(run, out)
    configure_jax()
    policy = load(run, network)
    config = _config(run, policy, network, Given(env, cost))
    film = filmed(policy, config, asked, (width or WIDTH, height or HEIGHT))
    try:
        every = max(1, round(film.rate / fps))
        sums: list[np.ndarray] = []
        pictures, size = _pictures(film, config.task, asked, every, (width, height), sums, progress)
        count = encode.write(path, pictures, size, film.rate / every)
    finally:
        film.close()
    return Recorded(path, count, film.rate / every, np.stack(sums))


def _pictures(
    film: Filmed,
    title: str,
    asked: Asked,
    every: int,
    given: tuple[int | None, int | None],
    sums: list[np.ndarray],
    progress: Callable[[int, int, str], None],
) -> tuple[Iterator[np.ndarray], tuple[int, int]]:
    """All pictures with their panel, and their size. `sums` gets those of each episode."""
    moments = film.moments(every)
    first = next(moments)
    size = _size(first.picture.shape, *given)
    drawn = overlay.Overlay(title, film.spec.constraints, asked.episodes, size)
    hold = max(1, round(_HOLD * film.rate / every))

    def pictures() -> Iterator[np.ndarray]:
        before = 0
        for moment in itertools.chain([first], moments):
            yield from [drawn(moment)] * (hold if moment.is_last else 1)
            progress(before + moment.step, film.total, f"episode {moment.episode + 1} of {asked.episodes}")
            if moment.is_last:
                before += moment.step
                sums.append(moment.sums)

    return pictures(), size


def _size(shape: tuple[int, ...], width: int | None, height: int | None) -> tuple[int, int]:
    """As asked for; a side that is not, in proportion. Without either small pictures are enlarged. Even, for mp4."""
    if width is None and height is None:
        height = shape[0] * max(1, -(-_LEAST_HEIGHT // shape[0]))
    width = width or round((height or 0) * shape[1] / shape[0])
    height = height or round(width * shape[0] / shape[1])
    return width + width % 2, height + height % 2


def _check(asked: Asked, width: int | None, height: int | None, fps: float) -> None:
    """Refuse what cannot be recorded, before anything is run."""
    if not 1 <= asked.episodes <= AT_ONCE:
        raise UsageError(f"--episodes is {asked.episodes}; it must be from 1 to {AT_ONCE}")
    if not 0 <= asked.seed < 2**32:
        raise UsageError(f"--seed is {asked.seed}; it must be from 0 to 2³² − 1")
    if asked.steps is not None and asked.steps < 1:
        raise UsageError(f"--steps is {asked.steps}; it must be 1 or more")
    for name, value in (("width", width), ("height", height)):
        if value is not None and not (160 <= value <= 4096 and value % 2 == 0):
            raise UsageError(f"--{name} is {value}; it must be an even number from 160 to 4096")
    if not 1 <= fps <= 240:
        raise UsageError(f"--fps is {fps}; it must be from 1 to 240")


def _require_mujoco() -> None:
    """MuJoCo cannot even be imported where MUJOCO_GL names an OpenGL that is missing."""
    try:
        import mujoco  # noqa: F401
    except Exception as error:
        raise UsageError(
            f"MUJOCO_GL is {os.environ.get('MUJOCO_GL')!r}, and MuJoCo cannot be imported with it ({error}): unset it,"
            " and EGL and OSMesa are tried, or install what it names (Debian: apt-get install libosmesa6 for osmesa,"
            " libegl1 libgl1-mesa-dri for egl)"
        ) from error


def _out(run: Path | str, out: Path | str | None) -> Path:
    if out is None:
        return Path(run) / "video.mp4" if Path(run).is_dir() else Path(f"{str(run).rpartition(':')[2]}.mp4")
    if Path(out).suffix not in encode.ENDINGS:
        raise UsageError(f"--out is {out}; its ending must be .mp4 or .gif")
    return Path(out)


def _config(run: Path | str, policy: Policy, network: Network | None, given: Given) -> TrainConfig:
    """The run's; of a policy alone that of its task, with the limits that it was evaluated with."""
    directory = RunDirectory(Path(run))
    if directory.config_file.is_file():
        return directory.config_with(network, given)
    found = (policy.evaluation or {}).get("sampled", {})
    limits = {"cost_limit": found.get("cost_limit"), "cost_discount": found.get("cost_discount")}
    return dataclasses.replace(default_config(policy.description["task"]), given=given, **limits)
