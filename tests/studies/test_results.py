"""Run directories of every kind as plain data."""

import json

import numpy as np
import pytest

from focops.core.spec import Constraint
from focops.errors import UsageError
from focops.studies.report import Study
from focops.studies.results import read, title
from tests.studies.factory import LIMIT, make_grid, make_run


def test_a_run_is_read_with_its_curves_and_its_end(tmp_path):
    (run,) = read([make_run(tmp_path / "run", seed=3, reward=1000.0, algo={"temperature": 2.0})]).runs
    assert (run.task, run.algorithm, run.seed, run.status) == ("HopperSpeed-v0", "focops", 3, "finished")
    assert run.settings["algo.temperature"] == 2.0
    assert run.constraints == (Constraint("speed", LIMIT, 0.99),)
    assert run.samples == run.steps == 40 * 2048
    assert np.isnan(run.curves["return_mean"][:2]).all()  # no episode had ended
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert run.final("return_mean") == summary["return_mean"]
    assert run.final("cost/speed") == summary["discounted_cost_mean"]["speed"]
    assert run.delivered.reward == summary["policy"]["sampled"]["reward"]
    assert run.delivered.verdicts == {"speed": "satisfied"}


def test_grids_are_found_below_a_folder_and_each_run_once(tmp_path):
    make_grid(tmp_path / "a" / "grid", seeds=2)
    make_grid(tmp_path / "b", seeds=3)
    assert len(read([tmp_path]).runs) == 5
    assert len(read([tmp_path, tmp_path / "b", tmp_path / "b" / "seed=0"]).runs) == 5


def test_a_run_in_progress_is_read_up_to_its_last_whole_line(tmp_path):
    path = make_run(tmp_path / "run", done=10)
    with open(path / "metrics.jsonl", "a") as file:
        file.write('{"iteration": 11, "samples": 225')
    (run,) = read([path]).runs
    assert run.status == "not finished"
    assert (run.samples, run.steps) == (10 * 2048, 40 * 2048)
    assert run.constraints[0].discount == 0.99  # from the task: there is no summary yet
    assert run.delivered is None


def test_damaged_lines_and_repeated_ones_are_left_out(tmp_path):
    path = make_run(tmp_path / "run")
    lines = (path / "metrics.jsonl").read_text().splitlines()
    (path / "metrics.jsonl").write_text("\n".join([*lines[:5], '{"samp', "[]", *lines[3:]]) + "\n")
    (run,) = read([path]).runs
    np.testing.assert_array_equal(run.curves["samples"], 2048 * np.arange(1, 41))


def test_a_run_without_records_has_no_constraints_yet(tmp_path):
    path = make_run(tmp_path / "run", done=0)
    (run,) = read([path]).runs
    (path / "metrics.jsonl").unlink()
    (without_file,) = read([path]).runs
    for each in (run, without_file):
        assert (each.samples, each.constraints, each.status) == (0, (), "not finished")
        assert np.isnan(each.final("return_mean"))


def test_a_failed_run_is_failed_until_it_goes_on(tmp_path):
    path = make_run(tmp_path / "run", done=10)
    (path / "failure.safetensors").touch()
    assert read([path]).runs[0].status == "failed"
    (path / "metrics.jsonl").touch()
    assert read([path]).runs[0].status == "not finished"


def test_an_unreadable_run_is_listed_beside_the_others(tmp_path):
    make_grid(tmp_path / "grid", seeds=2)
    (tmp_path / "grid" / "seed=0" / "config.json").write_text('{"task": ')
    results = read([tmp_path / "grid"])
    assert [run.seed for run in results.runs] == [1]
    ((path, why),) = results.unreadable
    assert path.name == "seed=0"
    assert "JSONDecodeError" in why


def test_a_larger_evaluation_of_the_same_policy_comes_first(tmp_path):
    path = make_run(tmp_path / "run")
    found = {"discounted_cost": {"mean": 19.5}, "verdict": "undecided"}
    larger = {"iteration": 40, "deterministic": False, "episodes": 1000, "reward": {"mean": 1.0}}
    for change, episodes in (({}, 1000), ({"iteration": 39}, 100), ({"deterministic": True}, 100)):
        evaluation = larger | {"constraints": {"speed": found}} | change
        (path / "evaluation.json").write_text(json.dumps(evaluation))
        assert read([path]).runs[0].delivered.episodes == episodes


def test_paths_without_runs_are_refused(tmp_path):
    with pytest.raises(UsageError, match="holds no run"):
        read([tmp_path])
    with pytest.raises(UsageError, match="no directory"):
        read([tmp_path / "missing"])


def test_a_study_in_progress_has_its_own_title_and_counts_the_runs_that_are_not_begun(tmp_path):
    make_run(tmp_path / "seed=0")
    (tmp_path / "grid.json").write_text(json.dumps({"runs": [{"name": "seed=0"}, {"name": "seed=1"}]}))
    (tmp_path / "study.json").write_text(json.dumps({"title": "Temperatures"}))
    study = Study(read([tmp_path]))
    assert study.status == "2 runs: 1 finished, 1 not begun"
    assert study.is_in_progress
    assert title([tmp_path]) == "Temperatures"
    assert title([tmp_path / "seed=0"]) == "seed=0"
