"""Statistics over seeds, against distributions whose truth is known, closed forms, and rliable."""

import numpy as np
import pytest
from rliable import library, metrics
from scipy import stats

from focops.studies import statistics

TRUTH = 3.0


def samples(seeds: int, studies: int = 400) -> np.ndarray:
    return np.random.default_rng(seeds).normal(TRUTH, 2.0, (studies, seeds))


def holds_truth(estimate: statistics.Estimate) -> bool:
    return estimate.low <= TRUTH <= estimate.high


def test_the_papers_standard_error_is_that_of_the_plug_in_distribution():
    values = samples(10)[0]
    found = statistics.mean(values)
    assert found.value == pytest.approx(values.mean())
    # the bootstrap's standard error of a mean has a closed form, to which 1000 resamples come within a few percent
    assert found.half_width == pytest.approx(1.96 * values.std() / np.sqrt(10), rel=0.08)
    assert found.value - found.low == pytest.approx(found.high - found.value)


def test_the_papers_standard_error_is_of_a_thousand_resamples():
    """Its own relative error is then 1/√2000."""
    off = [statistics.mean(each).half_width / (1.96 * each.std() / np.sqrt(10)) - 1 for each in samples(10, 60)]
    assert np.std(off) == pytest.approx(1 / np.sqrt(2000), rel=0.3)


def test_the_papers_interval_is_too_narrow_from_few_seeds_and_right_from_many():
    for seeds, expected in ((5, 0.86), (10, 0.91), (40, 0.94)):
        # ± z·√((n-1)/n)·s/√n is as wide as a Student interval of this confidence
        z = 1.96 * np.sqrt((seeds - 1) / seeds)
        confidence = 1 - 2 * stats.t.sf(z, seeds - 1)
        assert confidence == pytest.approx(expected, abs=0.03)
        found = np.mean([holds_truth(statistics.mean(values)) for values in samples(seeds)])
        assert found == pytest.approx(confidence, abs=0.045)  # three standard errors of 400 studies


@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_the_band_of_a_curve_holds_the_mean_in_95_of_100_cases(seeds):
    low, high = statistics.band(samples(seeds, 4000).T)
    assert np.mean((low <= TRUTH) & (high >= TRUTH)) == pytest.approx(0.95, abs=0.012)


def test_the_band_is_scipys_where_all_seeds_are_there_and_leaves_out_those_that_are_not():
    values = samples(6, 3).T
    expected = stats.t.interval(0.95, 5, values.mean(0), stats.sem(values))
    np.testing.assert_allclose(statistics.band(values), expected)
    values[4:, 1] = np.nan
    values[1:, 2] = np.nan
    found = statistics.band(values)
    np.testing.assert_allclose(found[:, 1], statistics.band(values[:4, 1:2])[:, 0])
    assert np.isnan(found[:, 2]).all()  # one seed has no band


def test_the_interquartile_mean_of_a_known_sample():
    assert statistics.interquartile_mean(np.array([-1e9, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1e9])).value == 3.5
    assert statistics.interquartile_mean(np.array([1.0, 2.0, 30.0])).value == 11.0  # of three it is the mean


def test_the_interquartile_means_interval_holds_the_truth_about_as_often_as_it_says():
    found = np.mean([holds_truth(statistics.interquartile_mean(values)) for values in samples(20)])
    assert 0.89 < found < 0.97


def test_one_seed_has_a_value_and_no_interval():
    one = np.array([7.0])
    for found in (statistics.mean(one), statistics.interquartile_mean(one, one)):
        assert found.value == 7.0
        assert np.isnan([found.low, found.high]).all()


def test_the_interquartile_mean_over_tasks_is_rliables():
    # tasks of different means and spreads: only a bootstrap that keeps them apart has this narrow interval
    scores = np.random.default_rng(3).normal([0.2, 1.0, 5.0], [0.1, 0.1, 0.5], (10, 3))
    np.random.seed(0)  # noqa: NPY002  rliable takes its indices from here, whatever `random_state` it is given
    values, intervals = library.get_interval_estimates(
        {"ours": scores}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=2000
    )
    found = statistics.interquartile_mean(*scores.T)
    assert found.value == pytest.approx(values["ours"][0])
    width = np.ptp(intervals["ours"])
    np.testing.assert_allclose([found.low, found.high], intervals["ours"][:, 0], atol=0.08 * width)
    assert found.half_width < statistics.interquartile_mean(scores.ravel()).half_width / 2


def test_the_probability_of_improvement_is_rliables():
    rng = np.random.default_rng(4)
    ours, theirs = rng.normal(0.7, 1, (10, 2)), rng.normal(0, 1, (6, 2))
    np.random.seed(0)  # noqa: NPY002
    values, intervals = library.get_interval_estimates(
        {"ours": [ours, theirs]}, lambda x, y: np.array([metrics.probability_of_improvement(x, y)]), reps=500
    )
    found = statistics.probability_of_improvement(list(ours.T), list(theirs.T))
    assert found.value == pytest.approx(values["ours"][0])
    np.testing.assert_allclose([found.low, found.high], intervals["ours"][:, 0], atol=0.04)


def test_the_probability_of_improvement_counts_ties_as_half():
    ours, theirs = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 0.0])
    found = statistics.probability_of_improvement([ours], [theirs])
    assert found.value == pytest.approx(stats.mannwhitneyu(ours, theirs).statistic / 9)
    assert statistics.probability_of_improvement([ours], [ours]).value == 0.5


def test_the_share_of_seeds_that_satisfy_has_wilsons_interval():
    found = statistics.share(9, 10)
    z, p, n = statistics.Z, 0.9, 10
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    np.testing.assert_allclose(found, [0.9, middle - half, middle + half])
    assert statistics.share(1, 1).low > 0.2


def test_the_worst_violation_is_the_highest_cost_above_the_limit():
    assert statistics.worst_violation(np.array([np.nan, 12.0, 17.5, 9.0]), 15.0) == 2.5
    assert statistics.worst_violation(np.array([12.0, 9.0]), 15.0) == 0.0
    assert statistics.worst_violation(np.array([np.nan]), 15.0) == 0.0


def test_a_difference_is_measured_in_its_own_standard_errors():
    ours = statistics.Estimate(110.0, 110 - 3 * statistics.Z, 110 + 3 * statistics.Z)
    assert statistics.in_standard_errors(ours, 100.0, 4 * statistics.Z) == pytest.approx(10 / 5)
    assert statistics.in_standard_errors(ours, 100.0, None) == pytest.approx(10 / 3)
    assert np.isnan(statistics.in_standard_errors(statistics.Estimate(110.0), 100.0, None))
