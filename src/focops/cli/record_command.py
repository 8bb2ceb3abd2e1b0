"""`focops record`: a video of a policy."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro


def _default(metavar: str, meaning: str) -> Any:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {meaning})")


@dataclass(frozen=True)
class RecordOptions:
    """Render episodes of a run's policy as a video, with the return and each cost against its limit drawn into it.

    The episodes are those that `focops evaluate RUN --episodes N --seeds S` runs. They are shown in real time.
    """

    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """The directory of a run, zoo:NAME, or a policy file."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: video.mp4 in RUN)")] = None
    """The video: .mp4 or .gif."""
    episodes: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Shown one after another."""
    seed: Annotated[int, tyro.conf.arg(metavar="S")] = 0
    """Of the episodes; none of training is among them."""
    deterministic: tyro.conf.FlagCreatePairsOff[bool] = False
    """Take the mean (most likely) actions instead of sampled ones."""
    steps: Annotated[int | None, _default("N", "all")] = None
    """Show at most so many steps of each episode."""
    width: Annotated[int | None, _default("N", "854 of our tasks; what a Gymnasium environment renders")] = None
    """Pixels, even."""
    height: Annotated[int | None, _default("N", "480, or what the environment renders")] = None
    """Pixels, even."""
    fps: Annotated[float, tyro.conf.arg(metavar="N")] = 30.0
    """Pictures a second, about: of more steps every second, third, … is shown."""


def record(words: list[str]) -> int:
    options = tyro.cli(RecordOptions, args=words, prog="focops record")
    from focops.display.counter import Counter
    from focops.display.numbers import number
    from focops.video import record

    how = {name: value for name, value in vars(options).items() if name not in ("run", "out")}
    with Counter(f"recording {options.run}", "steps") as counter:
        made = record(options.run, options.out, progress=counter.update, **how)
    returns = ", ".join(number(float(each)) for each in made.sums[:, 0])
    seconds = made.pictures / made.fps
    print(f"written to {made.path}: {seconds:.0f} s, {made.fps:g} pictures a second; return {returns}")
    return 0
