"""One-sided confidence bounds on a mean over episodes, of costs that may be rare and large.

Student's t alone is wrong too often there: if one episode in ten costs anything, 18% of its 95% upper bounds from 30
episodes are too low. The upper bound of n values x with mean x̄ and standard deviation s is here

    x̄ + t·s/√n + u·e + δ/2n        u = 1 − α^(1/n), α = 1 − confidence

- u is the largest share of all episodes that a kind of episode can have and still be missing among n: one with a larger
  share occurs, with the stated confidence (the rule of three, 3/n at 95%; Wilks 1941).
- e is how far above the mean such episodes are taken to be: Σ(x − x̄)³ / Σ(x − x̄)², which is 0 for symmetric costs and
  the distance of the rare cost where there are two. This is Johnson's correction for skewness (1978) with a larger
  coefficient. Where one episode makes up much of the variance, e is _STRETCH times the largest distance instead.
- δ/2n is the continuity correction of costs with steps of δ.

No bound on a mean holds for every distribution without a bound on the costs (Bahadur and Savage 1956). This one misses
an unseen kind of episode whose cost is out of proportion to those seen; `tolerated` says what it would have to cost.
"""

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

_LARGEST_UNSEEN_SHARE = 0.1
"""There are too few episodes if a kind of episode with this share may not occur among them."""
_DOMINANT = 1 / 5
"""If one episode has a larger share of the variance than this, the skewness is not reliable."""
_STRETCH = 10.0
"""Unseen episodes are then assumed to be this many times as far from the mean as the farthest seen."""
_MOST_EPISODES = 10**7
_EQUAL = 1e-6
"""Costs whose relative difference is smaller count as the same: rounding."""


class Sample(NamedTuple):
    """The statistics of values [..., n] that the upper bound needs; numbers or arrays [...]."""

    n: int
    mean: np.ndarray
    std: np.ndarray
    skewed: np.ndarray
    """e, from the skewness."""
    reach: np.ndarray
    """From the mean to the largest."""
    share: np.ndarray
    """Of the largest in Σ(x − x̄)²."""
    step: np.ndarray
    """δ."""
    identical: np.ndarray


def sample(values: np.ndarray) -> Sample:
    ordered = np.sort(values, -1)
    lowest, highest, gaps = ordered[..., 0], ordered[..., -1], np.diff(ordered)
    tolerance = _EQUAL * np.maximum(np.abs(lowest), np.abs(highest))
    identical = highest - lowest <= tolerance
    step = np.where(gaps > tolerance[..., None], gaps, np.inf).min(-1)
    mean = values.mean(-1)
    from_mean = values - mean[..., None]
    squares = np.where(identical, 1.0, (from_mean**2).sum(-1))
    return Sample(
        n=values.shape[-1],
        mean=mean,
        std=values.std(-1, ddof=1),
        skewed=np.maximum((from_mean**3).sum(-1) / squares, 0.0),
        reach=highest - mean,
        share=(highest - mean) ** 2 / squares,
        step=np.where(np.isinf(step), 0.0, step),
        identical=identical,
    )


def unseen_share(n: int, confidence: float) -> float:
    """u: with this confidence, a kind of episode that did not occur among n has at most this share."""
    return 1 - (1 - confidence) ** (1 / n)


def fewest_episodes(confidence: float) -> int:
    """The smallest n for which u is at most _LARGEST_UNSEEN_SHARE."""
    return int(np.ceil(np.log(1 - confidence) / np.log(1 - _LARGEST_UNSEEN_SHARE)))


def dominated(x: Sample, n: int | None = None) -> np.ndarray:
    """Whether the costliest episode makes up too much of the variance; of n such episodes, if n is given."""
    return x.share * x.n / (n or x.n) > _DOMINANT


def student(x: Sample, n: int, confidence: float) -> np.ndarray:
    """t·s/√n."""
    return stdtrit(n - 1, confidence) * x.std / np.sqrt(n)


def upper_bound(x: Sample, confidence: float, n: int | None = None) -> np.ndarray:
    """The module's bound, or ∞ from identical or too few episodes; of n such episodes, if n is given."""
    n = n or x.n
    excess = np.where(dominated(x, n), _STRETCH * x.reach, x.skewed)
    bound = x.mean + student(x, n, confidence) + unseen_share(n, confidence) * excess + x.step / (2 * n)
    return np.where(x.identical | (n < fewest_episodes(confidence)), np.inf, bound)


def bounded(costliest: float, most: float, n: int, confidence: float) -> float:
    """(1 − u)·max x + u·most: an upper bound for any costs ≤ most. At most u of all episodes cost more than max x."""
    u = unseen_share(n, confidence)
    return (1 - u) * costliest + u * most


def lower_bound(values: np.ndarray, confidence: float) -> np.ndarray:
    """The same bound of −x; where it is −∞ and no cost is negative, α^(1/n) · min x, exact for any costs ≥ 0.

    A share of at least α^(1/n) of episodes costs as much as the cheapest seen (Wilks), and E[x] ≥ c·P(x ≥ c) (Markov).
    """
    bound, smallest = -upper_bound(sample(-values), confidence), values.min(-1)
    seen_share = 1 - unseen_share(values.shape[-1], confidence)
    return np.where(np.isinf(bound) & (smallest >= 0), seen_share * smallest, bound)


def tolerated(x: Sample, limit: float, confidence: float) -> np.ndarray:
    """What unseen episodes may cost on average before the mean could exceed the limit: x̄ + (limit − x̄ − t·s/√n) / u."""
    room = limit - x.mean - student(x, x.n, confidence)
    return x.mean + room / unseen_share(x.n, confidence)


def episodes_needed(x: Sample, limit: float, confidence: float) -> int | None:
    """About how many such episodes would put the upper bound within the limit; None: no number below _MOST_EPISODES."""
    candidates = range(2, _MOST_EPISODES)
    found = bisect_left(candidates, True, key=lambda n: bool(upper_bound(x, confidence, n) <= limit))
    return candidates[found] if found < len(candidates) else None


def bounded_episodes_needed(costliest: float, most: float, limit: float, confidence: float) -> int | None:
    """How many episodes that cost no more put `bounded` within the limit."""
    if not costliest < limit < most:
        return None
    return int(np.ceil(np.log(1 - confidence) / np.log(1 - (limit - costliest) / (most - costliest))))


def identical_episodes_needed(cost: float, limit: float, confidence: float) -> int | None:
    """How many episodes of one cost put the lower bound α^(1/n) · cost above the limit."""
    return int(np.log(1 - confidence) / np.log(limit / cost)) + 1 if cost > limit > 0 else None
