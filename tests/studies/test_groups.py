"""Runs grouped by what differs, and their mean curves."""

import numpy as np
import pytest

from focops.studies import statistics
from focops.studies.groups import common_settings, grouped
from focops.studies.results import read
from tests.studies.factory import make_grid, make_run


def groups(path):
    return grouped(read([path]).runs)


def test_runs_group_by_task_algorithm_and_settings_that_differ(tmp_path):
    for temperature in (2.0, 0.5, 10.0):
        make_grid(tmp_path / f"t={temperature}", seeds=2, algo={"temperature": temperature})
    make_grid(tmp_path / "ppo", seeds=3, algorithm="ppo_lagrangian")
    make_run(tmp_path / "ant", task="AntSpeed-v0")
    found = groups(tmp_path)
    assert [(g.task, g.label, len(g.runs)) for g in found] == [
        ("AntSpeed-v0", "focops", 1),
        ("HopperSpeed-v0", "focops · temperature 0.5", 2),
        ("HopperSpeed-v0", "focops · temperature 2", 2),
        ("HopperSpeed-v0", "focops · temperature 10", 2),
        ("HopperSpeed-v0", "ppo_lagrangian", 3),
    ]
    assert "algo.temperature" not in common_settings(found[1].runs + found[2].runs)
    assert common_settings(found[1].runs)["algo.temperature"] == 0.5


def test_a_setting_that_older_runs_lack_does_not_part_them_from_newer_ones(tmp_path):
    make_run(tmp_path / "old", seed=0)
    make_run(tmp_path / "new", seed=1, algo={"settle": False}, threads=8)
    assert [group.label for group in groups(tmp_path)] == ["focops"]


def test_a_setting_that_newer_runs_lack_does_not_part_them_from_older_ones(tmp_path):
    make_run(tmp_path / "old", seed=0, algo={"cost_fade": 0.0})
    make_run(tmp_path / "new", seed=1)
    assert [group.label for group in groups(tmp_path)] == ["focops"]


def test_a_setting_that_older_runs_lack_has_its_default_there(tmp_path):
    make_run(tmp_path / "old", seed=0)
    make_run(tmp_path / "new", seed=0, algo={"solve_dual": True})
    assert [g.label for g in groups(tmp_path)] == ["focops · solve_dual False", "focops · solve_dual True"]


def test_the_same_seed_twice_is_not_two_samples(tmp_path):
    make_grid(tmp_path / "before", seeds=2)
    make_grid(tmp_path / "after", seeds=2)
    assert [(g.label, len(g.runs)) for g in groups(tmp_path)] == [("focops · in after", 2), ("focops · in before", 2)]


def test_a_curve_is_the_mean_of_the_seeds_with_students_band(tmp_path):
    (group,) = groups(make_grid(tmp_path / "grid", seeds=3))
    curve = group.curve("return_mean")
    values = np.array([run.curves["return_mean"][2:] for run in group.runs])  # the same samples in each
    np.testing.assert_allclose(curve.x, group.runs[0].curves["samples"][2:])
    np.testing.assert_allclose(curve.mean, values.mean(0))
    np.testing.assert_allclose([curve.low, curve.high], statistics.band(values))
    assert (curve.lowest, curve.highest) == pytest.approx((values.min(), values.max()))
    assert set(curve.seeds) == {3}


def test_a_single_seed_has_no_band(tmp_path):
    (group,) = groups(make_run(tmp_path / "run"))
    curve = group.curve("cost/speed")
    assert np.isnan(curve.low).all()
    assert not np.isnan(curve.mean).any()


def test_a_curve_ends_where_only_half_of_the_seeds_go_on(tmp_path):
    for seed, done in enumerate((40, 30, 20, 10)):
        make_run(tmp_path / str(seed), seed=seed, done=done)
    make_run(tmp_path / "4", seed=4, done=0)
    curve = groups(tmp_path)[0].curve("return_mean")
    assert curve.x[-1] == pytest.approx(20 * 2048)
    assert (curve.seeds[0], curve.seeds[-1]) == (4, 3)


def test_a_curve_against_time_is_interpolated(tmp_path):
    (group,) = groups(make_grid(tmp_path / "grid", seeds=2))
    curve = group.curve("nu/speed", "time")
    assert curve.x[-1] == pytest.approx(0.2 * 40)
    assert group.curve("nu/other") is None
