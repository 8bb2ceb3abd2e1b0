"""Where a new run's directory is: as the user names it, or a free name in runs/."""

import time
from pathlib import Path

from focops.config import TrainConfig
from focops.errors import UsageError


def out_path(out: Path | str) -> Path:
    """`out` as a path; '' is refused, which Path would take for the current directory."""
    if out == "":
        raise UsageError("--out is ''; it must name a directory (. is this one), or be left out for one in runs/")
    return Path(out)


def default_path(config: TrainConfig, what: str | None = None) -> Path:
    """runs/TASK-ALGO-SEED-TIME, or `what` for SEED; with a number behind it if it is taken."""
    task = "".join(c if c.isalnum() or c in "-_." else "_" for c in config.task)
    name = f"{task}-{config.algorithm}-{config.seed if what is None else what}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = Path("runs") / name, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{name}-{number}"
    return path
