"""From episodes to an `Evaluation`: means with intervals, and a verdict on each constraint."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from focops import confidence as bounds
from focops.core.spec import Constraint
from focops.errors import UsageError
from focops.runs.files import write_json

RESAMPLES = 9999
BOUNDS = {
    "student": "Student's t, corrected for skewness",
    "rare": "Student's t, with room for rare costs, as one episode makes up much of the variance",
    "cheapest": "a share of the cheapest episode's cost, for costs ≥ 0",
    "bounded": "the costliest episode, and for kinds of episode not seen the most that one can cost",
    "identical": "all episodes cost the same, which decides nothing by itself",
    "few": "no bound, as there are too few episodes",
}
"""The bounds that a verdict may be based on."""


@dataclass(frozen=True)
class Estimate:
    """A mean over episodes, and an interval that holds the true one with the stated confidence (bootstrap)."""

    mean: float
    low: float
    high: float
    std: float


@dataclass(frozen=True)
class ConstraintResult:
    """The result for one constraint: J_C ≤ limit?"""

    limit: float
    discount: float
    discounted_cost: Estimate
    """J_C."""
    undiscounted_cost: Estimate
    share_above_limit: float
    """Share of the episodes whose own discounted cost is above the limit."""
    lower_bound: float | None
    upper_bound: float | None
    """One-sided confidence bounds on J_C (`focops.confidence`); None: these episodes give none."""
    verdict: str
    """satisfied: the upper bound is within the limit; violated: the lower bound is above it; else undecided."""
    bound: str
    """Which bound the mean's side of the limit has, a key of BOUNDS."""
    episodes_needed: int | None
    """If undecided: about how many would decide, were the rest like these; None: no number of such episodes."""
    unseen_cost: float | None
    """The verdict (of identical episodes: the one not given) holds unless kinds of episode that did not occur, at most
    `Evaluation.unseen_share` of all, cost on average more (satisfied) or less (violated) than this.
    None: undecided, or costs ≥ 0 cannot be less."""


@dataclass(frozen=True)
class Evaluation:
    """The whole of an evaluation; `save` writes it as JSON."""

    task: str
    run: str
    iteration: int
    """Iteration of training at which the policy was saved."""
    backend: str
    """cpu or mjx: where the episodes were run."""
    physics: str | None
    """Precision of the physics: float64 on the CPU, float32 on mjx; None: an environment that is not ours."""
    episodes: int
    seeds: tuple[int, ...]
    deterministic: bool
    confidence: float
    cut: int
    """Episodes that had not ended after MAX_STEPS."""
    diverged: int
    """Episodes that an unstable simulation ended."""
    unseen_share: float
    """A kind of episode that did not occur has at most this share of all, with the stated confidence."""
    reward: Estimate
    episode_length: Estimate
    constraints: dict[str, ConstraintResult]

    def save(self, path: Path) -> None:
        _write(path, asdict(self))


def save_all(results: Sequence[Evaluation], path: Path) -> None:
    """Write a list of evaluations as JSON."""
    _write(path, [asdict(result) for result in results])


def _write(path: Path, value: Any) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, value)
    except OSError as error:
        raise UsageError(f"could not write {path}: {error.strerror}; name another file with --json") from error


def judge(
    constraint: Constraint, discounted: np.ndarray, plain: np.ndarray, confidence: float, most: float = math.inf
) -> ConstraintResult:
    """`most`: what an episode can cost, discounted."""
    limit, upward = constraint.limit, bounds.sample(discounted)
    # a lower bound is the negative of an upper bound of the negative costs: the same code for either side of the limit
    sign, side = (1, upward) if upward.mean <= limit else (-1, bounds.sample(-discounted))
    upper, lower = bounds.upper_bound(upward, confidence), bounds.lower_bound(discounted, confidence)
    bounded = bool(np.isinf(upper)) and most < math.inf
    if bounded:
        upper = bounds.bounded(float(discounted.max()), most, len(discounted), confidence)
    verdict = "satisfied" if upper <= limit else "violated" if lower > limit else "undecided"
    bound = "bounded" if bounded and verdict == "satisfied" else _which(side, verdict, confidence)
    needed = unseen_cost = None
    if verdict == "undecided":
        needed = bounds.episodes_needed(side, sign * limit, confidence)
    if bound == "identical" and sign < 0:
        needed = bounds.identical_episodes_needed(float(upward.mean), limit, confidence)
    elif bound == "identical" and bounded:
        needed = bounds.bounded_episodes_needed(float(discounted.max()), most, limit, confidence)
    elif bound == "identical" or (verdict != "undecided" and bound not in ("cheapest", "bounded")):
        unseen_cost = sign * float(bounds.tolerated(side, sign * limit, confidence))
        unseen_cost = None if discounted.min() >= 0 > unseen_cost else unseen_cost
    return ConstraintResult(
        limit=limit,
        discount=constraint.discount,
        discounted_cost=estimate(discounted, confidence),
        undiscounted_cost=estimate(plain, confidence),
        share_above_limit=float(np.mean(discounted > limit)),
        lower_bound=float(lower) if np.isfinite(lower) else None,
        upper_bound=float(upper) if np.isfinite(upper) else None,
        verdict=verdict,
        bound=bound,
        episodes_needed=needed,
        unseen_cost=unseen_cost,
    )


def _which(side: bounds.Sample, verdict: str, confidence: float) -> str:
    """The key in BOUNDS of what decides, or fails to decide, on this side of the limit."""
    few = side.n < bounds.fewest_episodes(confidence)
    if side.identical or few:
        return "cheapest" if verdict == "violated" else "identical" if side.identical else "few"
    return "rare" if bounds.dominated(side) else "student"


def estimate(values: np.ndarray, confidence: float) -> Estimate:
    low, high = _interval(values, confidence, "two-sided")
    std = np.std(values, ddof=1) if np.ptp(values) > 0 else 0.0  # of equal values NumPy's may be a rounding error
    return Estimate(float(np.mean(values)), low, high, float(std))


def _interval(values: np.ndarray, confidence: float, alternative: Any) -> tuple[float, float]:
    """Bootstrap interval of the mean: BCa, or by percentiles where that does not exist; a point if all are equal."""
    from scipy.stats import bootstrap

    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    for method in ("BCa", "percentile"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SciPy's about the former; its interval is then NaN
            found = bootstrap(
                (values,), np.mean, confidence_level=confidence, alternative=alternative, n_resamples=RESAMPLES,
                batch=max(1, 10**7 // len(values)), rng=np.random.default_rng(0), method=method,
            ).confidence_interval  # fmt: skip
        if not np.isnan([found.low, found.high]).any():
            break
    return float(found.low), float(found.high)
