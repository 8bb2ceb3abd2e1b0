"""How often the bounds behind a verdict are wrong: exactly for two-valued costs, by simulation for others."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from focops import confidence as bounds

RUNS = 2000
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def rare(share: float, cost: Draw) -> Draw:
    return lambda rng, size: np.where(rng.uniform(size=size) < share, cost(rng, size), 0.0)


def constant(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return np.full(size, 100.0)


def exponential(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return rng.exponential(1.0, size)


def lognormal(sigma: float) -> Draw:
    return lambda rng, size: rng.lognormal(0.0, sigma, size)


FAMILIES: dict[str, tuple[float, Draw]] = {
    "normal": (10.0, lambda rng, size: rng.normal(10.0, 1.0, size)),
    "uniform": (0.5, lambda rng, size: rng.uniform(0.0, 1.0, size)),
    "Student, 3 degrees": (10.0, lambda rng, size: 10 + rng.standard_t(3, size)),
    "exponential": (1.0, exponential),
    "gamma, 0.1": (0.1, lambda rng, size: rng.gamma(0.1, 1.0, size)),
    "Poisson, 0.5": (0.5, lambda rng, size: rng.poisson(0.5, size).astype(float)),
    "Pareto, 2.5": (1 / 1.5, lambda rng, size: rng.pareto(2.5, size)),
    **{f"lognormal, {s}": (np.exp(s**2 / 2), lognormal(s)) for s in (0.5, 1.0, 1.5, 2.0)},
    **{f"constant, {p:.0%}": (100 * p, rare(p, constant)) for p in (0.1, 0.05, 0.01)},
    **{f"exponential, {p:.0%}": (p, rare(p, exponential)) for p in (0.3, 0.1, 0.05, 0.01)},
    **{f"lognormal, {p:.0%}": (p * np.exp(0.5), rare(p, lognormal(1.0))) for p in (0.1, 0.01)},
}


def too_many(wrong: np.ndarray, rate: float = 0.05) -> bool:
    """More often than the rate, beyond what chance gives once in ten thousand."""
    return bool(stats.binomtest(int(wrong.sum()), len(wrong), rate, alternative="greater").pvalue < 1e-4)


@pytest.mark.parametrize("n", [10, 30, 100, 400])
@pytest.mark.parametrize("family", FAMILIES)
def test_verdicts_are_wrong_at_most_as_often_as_stated(family: str, n: int) -> None:
    """With the limit at J_C, where mistakes are most frequent; and of the mirror image, whose rare costs are low."""
    mean, draw = FAMILIES[family]
    costs = draw(np.random.default_rng(n), (RUNS, n))
    for values, true in ((costs, mean), (100 - costs, 100 - mean)):
        assert not too_many(bounds.upper_bound(bounds.sample(values), 0.95) < true - 1e-9), "false satisfied"
        assert not too_many(bounds.lower_bound(values, 0.95) > true + 1e-9), "false violated"


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [22, 29, 30, 45, 62, 100, 137, 256, 400])
def test_two_valued_costs_are_never_misjudged_more_often_than_stated(n: int, confidence: float) -> None:
    """Exact, whatever the share p of the higher cost: the error is largest just above one of the n + 1 bounds."""
    k = np.arange(n + 1)
    values = (np.arange(n) < k[:, None]).astype(float)
    upper, lower = bounds.upper_bound(bounds.sample(values), confidence), bounds.lower_bound(values, confidence)
    for p in np.minimum(upper + 1e-9, 1.0):
        assert stats.binom.pmf(k, n, p)[upper < p].sum() <= 1 - confidence
    if n >= bounds.fewest_episodes(confidence):  # the same, where it is known that no cost is higher
        upper[0] = bounds.bounded(0.0, 1.0, n, confidence)
        for p in np.minimum(upper + 1e-9, 1.0):
            assert stats.binom.pmf(k, n, p)[upper < p].sum() <= 1 - confidence
    for p in np.maximum(lower - 1e-9, 0.0):
        assert stats.binom.pmf(k, n, p)[lower > p].sum() <= 1 - confidence


@pytest.mark.parametrize("n", [30, 100, 400])
@pytest.mark.parametrize("share", [0.1, 0.05, 0.03, 0.01, 0.003])
@pytest.mark.parametrize("cost", [1.5, 2.0, 10.0, 1000.0])
def test_a_kind_that_was_not_seen_overturns_only_verdicts_that_say_so(cost: float, share: float, n: int) -> None:
    """Costs of about 1, and rarely `cost`: "satisfied unless kinds not seen cost more than this" is seldom wrong."""
    rng = np.random.default_rng(n)
    is_rare = rng.uniform(size=(RUNS, n)) < share
    values = np.where(is_rare, cost, 1.0) + rng.normal(0.0, 0.1, (RUNS, n))
    limit = 1 + share * (cost - 1) - 1e-9
    x = bounds.sample(values)
    said = ~is_rare.any(-1) & (cost > bounds.tolerated(x, limit, 0.95))
    assert not too_many((bounds.upper_bound(x, 0.95) <= limit) & ~said)


@pytest.mark.parametrize(
    ("std", "distance", "n", "decided"),
    [(0.06, 0.02, 100, 0.92), (0.06, 0.01, 400, 0.92), (0.06, 0.02, 400, 0.999), (0.1, 0.02, 400, 0.98)],
)
def test_normal_costs_are_decided_as_often_as_by_student(std: float, distance: float, n: int, decided: float) -> None:
    values = np.random.default_rng(0).normal(1.0, std, (RUNS, n))
    student = stats.ttest_1samp(values, 1 + distance, axis=-1, alternative="less").pvalue <= 0.05
    satisfied = bounds.upper_bound(bounds.sample(values), 0.95) <= 1 + distance
    violated = bounds.lower_bound(values, 0.95) > 1 - distance
    assert satisfied.mean() >= max(decided, student.mean() - 0.02)
    assert violated.mean() >= decided


def test_about_as_many_episodes_as_said_decide() -> None:
    # mean 99, standard deviation 10, limit 100: (1.645 · 10 / 1)² = 271
    normal = bounds.sample(99 + 10 * stats.norm.ppf((np.arange(1000) + 0.5) / 1000))
    assert bounds.episodes_needed(normal, 100.0, 0.95) == pytest.approx(271, abs=5)
    # one episode in a hundred costs 100: 495 episodes have five of them
    assert bounds.episodes_needed(bounds.sample(np.repeat([0.0, 100.0], [99, 1])), 5.0, 0.95) == pytest.approx(500, 0.1)


def test_no_number_of_episodes_decides_a_mean_at_the_limit() -> None:
    assert bounds.episodes_needed(bounds.sample(np.repeat([0.0, 1.0], 50)), 0.5, 0.95) is None
    assert bounds.episodes_needed(bounds.sample(np.zeros(50)), 0.5, 0.95) is None


def test_one_harmless_outlier_does_not_prevent_a_verdict() -> None:
    values = np.append(np.random.default_rng(0).normal(10.0, 0.6, 99), 15.0)
    assert bounds.dominated(bounds.sample(values))
    assert bounds.upper_bound(bounds.sample(values), 0.95) < 12
