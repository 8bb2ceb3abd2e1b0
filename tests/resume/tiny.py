"""Runs so small that dozens can be begun, interrupted and gone on with, and what must be the same of two of them."""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from focops.config import TrainConfig, default_config
from focops.runs.loop import Trainer
from focops.training.state import from_arrays, to_arrays

OURS = "PointCircle-v0"
NOWHERE = Path("unused")
SMALL = {"hidden": (8,), "epochs": 2, "minibatch_size": 32, "cg_iterations": 2, "value_iterations": 2}
"""Of the algorithm's settings, those that it has."""
OPTIONS: dict[str, Any] = {
    "hidden": (8,), "epochs": 2, "minibatch_size": 32,
    "batch_size": 64, "num_envs": 4, "checkpoint_every": 2, "seed": 3, "steps": 64 * 6,
    "final_episodes": 0,
}  # fmt: skip
"""`tiny` for `focops.train`."""
TIME_FIELDS = {"samples_per_second", "elapsed_s"}


def tiny(
    task: str,
    out: Path = NOWHERE,
    *,
    iterations: int = 6,
    algorithm: str = "focops",
    algo: dict[str, Any] | None = None,
    **options: Any,
) -> TrainConfig:
    """A run of 64 samples an iteration; `algo` are settings of the algorithm, `options` of the run."""
    config = default_config(task, algorithm)
    small = {name: value for name, value in SMALL.items() if hasattr(config.algo, name)} | (algo or {})
    own: dict[str, Any] = {"cost_limit": None if task.endswith(("Circle-v0", "Speed-v0")) else (1.0,)}
    own |= {"batch_size": 64, "num_envs": 4, "checkpoint_every": 2, "seed": 3, "steps": 64 * iterations}
    own |= {"final_episodes": 0}
    return dataclasses.replace(config, algo=dataclasses.replace(config.algo, **small), out=out, **own | options)


def flags(config: TrainConfig) -> list[str]:
    """The same on the command line."""
    return (
        f"{config.task} --steps {config.steps} --batch-size 64 --num-envs 4 --seed {config.seed} --out {config.out}"
        f" --checkpoint-every {config.checkpoint_every} --algo.hidden 8 --algo.epochs 2 --algo.minibatch-size 32"
        f" --final-episodes {config.final_episodes}"
    ).split()


def metrics(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIME_FIELDS} for line in lines]


def results(run: Path) -> dict[str, Any]:
    """What does not depend on when and how often a run was interrupted, nor on the clock."""
    newest = max((run / "checkpoint").glob("*.safetensors"))
    return {
        newest.name: newest.read_bytes(),
        "policy": (run / "policy" / "policy.safetensors").read_bytes(),
        "metrics": metrics(run),
    }


def arrays_of(trainer: Trainer) -> list[dict[str, np.ndarray]]:
    """What a checkpoint of each run would hold."""
    return [to_arrays(state) for state in trainer.states()]


def restore(trainer: Trainer, arrays: Sequence[dict[str, np.ndarray]]) -> None:
    """Resume from each run's checkpoint."""
    trainer.restore(list(map(from_arrays, trainer.states(), arrays)))


class Disk:
    """Copies of a run's directory at every instant at which something is about to change on the disk: what a kill -9
    there leaves, for what a process has not yet given to the system dies with it."""

    def __init__(self, run: Path, copies: Path) -> None:
        self.run, self.copies, self.instants = run, copies, []

    def copy(self, what: str) -> None:
        target = self.copies / f"{len(self.instants):03d}"
        shutil.copytree(self.run, target)
        self.instants.append((what, target))

    def copy_torn(self, name: str, share: float, what: str) -> None:
        """With one file written in part."""
        self.copy(what)
        file = self.instants[-1][1] / Path(name).relative_to(self.run)
        os.truncate(file, int(share * file.stat().st_size))

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Within it every fsync, rename and removal is an instant, and so is every half-written temporary."""
        fsync, replace, unlink = os.fsync, os.replace, os.unlink
        inside = lambda path: Path(path).is_relative_to(self.run)

        def watched_fsync(descriptor: int) -> None:
            name = os.readlink(f"/proc/self/fd/{descriptor}")
            if inside(name):
                if name.endswith(".tmp"):
                    for share in (0.0, 0.5, 0.999):
                        self.copy_torn(name, share, f"{share} of {name} written")
                self.copy(f"before fsync of {name}")
            fsync(descriptor)

        def watched_replace(old: Any, new: Any) -> None:
            if inside(new):
                self.copy(f"before the rename to {new}")
            replace(old, new)
            if inside(new):
                self.copy(f"after the rename to {new}")

        def watched_unlink(path: Any, **kwargs: Any) -> None:
            if inside(path):
                self.copy(f"before removing {path}")
            unlink(path, **kwargs)

        with (
            mock.patch("os.fsync", watched_fsync),
            mock.patch("os.replace", watched_replace),
            mock.patch("os.unlink", watched_unlink),
        ):
            yield
