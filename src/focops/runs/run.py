"""A run that has ended, as `focops.train` returns it."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import focops
from focops.runs.sinks import read_all

if TYPE_CHECKING:
    from focops import Evaluation, Policy


@dataclass(frozen=True, repr=False)
class Run:
    """A run that has ended: its directory and its summary. The methods are those of `focops`, for this run.

    Examples:
        >>> run = focops.train("HopperSpeed-v0", steps=100_000)
        >>> run.metrics()["return_mean"]
        >>> run.evaluate(episodes=100, deterministic=True)
        >>> run.plot()
        >>> run.policy.predict(observation)
    """

    path: Path
    summary: dict[str, Any]
    """As in summary.json: `summary["policy"]` is what was found of the policy that the run delivers."""

    def __repr__(self) -> str:
        """One line, for a notebook: the summary has a hundred numbers."""
        task, algo, seed, steps = (self.summary[name] for name in ("task", "algo", "seed", "steps"))
        return f"Run({str(self.path)!r}: {task}, {algo}, seed {seed}, {steps:,} samples)"

    @functools.cached_property
    def policy(self) -> "Policy":
        """The policy that the run delivers, loaded on first use. `focops.load(run.path, network)` loads one of a
        network of your own."""
        return focops.load(self.path)

    def metrics(self) -> dict[str, np.ndarray]:
        """The numbers of each iteration, by their names in metrics.jsonl; NaN where there is none."""
        records = read_all(self.path / "metrics.jsonl")
        names = dict.fromkeys(name for record in records for name in record)
        missing = lambda value: np.nan if value is None else value
        return {name: np.array([missing(record.get(name)) for record in records]) for name in names}

    def evaluate(self, **options: Any) -> "Evaluation":
        """The policy on unseen episodes, with the options of `focops.evaluate`."""
        return focops.evaluate(self.path, **options)

    def plot(self, **options: Any) -> Any:
        """Return, cost against its limit, ν and KL, with the options of `focops.plot`."""
        return focops.plot(self.path, **options)
