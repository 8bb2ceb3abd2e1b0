"""The flags of `focops evaluate`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from focops.cli.arguments import Count, Python, Workers, hint
from focops.config import Backend
from focops.errors import UsageError


@dataclass(frozen=True)
class EvaluateOptions:
    """Run trained policies on episodes that training never saw: means with intervals, a verdict on each constraint."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], hint("RUN [RUN ...]", "(required)")]
    """The directory that `focops train` made, of a run or of a grid (all its runs are evaluated), or several; or
    zoo:NAME."""
    episodes: Count = 100
    """Episodes in all, shared out evenly among the seeds."""
    seeds: str = "0"
    """Seeds of the episodes, as 0..9 or 1,2,5; never used in training, whichever are chosen."""
    deterministic: tyro.conf.FlagCreatePairsOff[bool] = False
    """Take the mean (most likely) actions instead of sampling them."""
    protocol: Annotated[Literal["paper"] | None, hint("paper", "(default: none)")] = None
    """paper: the paper's generalisation test, 10 episodes on each of 10 seeds; overrides --episodes and --seeds."""
    confidence: float = 0.95
    """Confidence of the intervals, the bounds and the verdicts."""
    backend: Backend = "cpu"
    """cpu: one run after the other. mjx: our tasks on an accelerator, all runs of one task and network shape as one
    program; the physics is float32 there."""
    json: Annotated[Path | None, hint("FILE", "(default: evaluation.json in the run or grid)")] = None
    """Where the result is written: of one run an object, of a grid or several runs a list."""
    threads: int = 1
    """cpu: threads for the physics; results do not depend on it."""
    env_workers: Workers = None
    """Processes that step environments that are not ours; results do not depend on it."""
    env_python: Python = None
    """Interpreter, or virtual environment's folder, that such environments run under."""


def parse(words: Sequence[str]) -> EvaluateOptions:
    options = tyro.cli(EvaluateOptions, args=list(words), prog="focops evaluate")
    if not options.runs:
        raise UsageError("RUN is missing; give the directory of a run or of a grid, or several")
    return options
