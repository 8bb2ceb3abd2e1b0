"""A run that fails is named, leaves its evidence, and fails alone."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from focops import api as runs
from focops.errors import RunError, UsageError
from focops.runs import checkpoint
from focops.training.device import DeviceTrainer
from focops.training.state import Failure
from tests.resume.tiny import arrays_of, metrics, results
from tests.training.device.cases import VARIED, advanced, assert_same, failing, varied


def test_a_run_that_fails_is_named_and_the_others_are_as_without_it(tmp_path, finished):
    first, failed, third = runs.run_all(failing(tmp_path))
    assert isinstance(failed, RunError)
    assert "the learner produced nan in policy.network[0].weight, index (0, 0)" in str(failed)
    evidence = tmp_path / "1" / "failure.safetensors"
    assert f"Iteration 1 was given up; state, batch and config are in {evidence}" in str(failed)
    assert evidence.exists()
    assert f"focops resume {tmp_path / '1'}" in str(failed)
    for i in (0, 2):
        assert results(tmp_path / str(i)) == results(finished / str(i))
    assert first.summary["finished"]
    assert third.summary["finished"]
    assert not (tmp_path / "1" / "summary.json").exists()


def test_a_failed_run_leaves_its_batch_and_goes_on_alone_with_a_smaller_step(tmp_path):
    runs.run_all(failing(tmp_path))
    arrays, meta = checkpoint.load(tmp_path / "1" / "failure.safetensors")
    weight = "[0].policy.network[0].weight"
    assert np.isfinite(arrays["learner" + weight]).all()
    assert np.isnan(arrays["rejected" + weight]).any()
    assert arrays["rollout/obs"].shape == (16, 4, 4)
    assert meta["config"]["algo"]["policy_rate"] == 1e38
    (run,) = runs.resume_all([tmp_path / "1"], changes={"policy_rate": 1e-4})
    assert run.summary["finished"]
    assert [record["iteration"] for record in metrics(tmp_path / "1")] == list(range(1, 7))


def test_a_run_whose_directory_goes_away_is_named_and_the_others_finish(tmp_path, finished):
    class Display:
        def start(self, *_): ...

        def update(self, records):
            if records[0]["iteration"] == 3:
                (tmp_path / "1").rename(tmp_path / "moved")

        def stop(self): ...

    first, failed, third = runs.run_all(varied(tmp_path), display=Display())
    assert f"{tmp_path / '1'} is no longer the directory that this run began in" in str(failed)
    assert first.summary["finished"]
    assert third.summary["finished"]
    for i in (0, 2):
        assert results(tmp_path / str(i)) == results(finished / str(i))
    assert not (tmp_path / "1").exists()
    assert checkpoint.numbers(tmp_path / "moved" / "checkpoint") == {2}


def test_runs_of_which_one_lost_its_checkpoints_do_not_start_over(tmp_path, finished):
    base = Path(shutil.copytree(finished, tmp_path / "runs"))
    shutil.rmtree(base / "1" / "checkpoint")
    before = metrics(base / "0"), metrics(base / "1")
    with pytest.raises(UsageError, match=f"{base / '1'} has 6 records in metrics.jsonl and a policy, but"):
        runs.resume_all([base / str(i) for i in range(3)])
    assert (metrics(base / "0"), metrics(base / "1")) == before


def test_a_run_that_failed_stays_as_it_was_before():
    trainer = DeviceTrainer(VARIED)
    expected = arrays_of(advanced(VARIED, 2))
    states = trainer.states()
    learner, log_std = states[1].learner, np.array([0.0, np.nan], np.float32)
    broken = learner._replace(policy=learner.policy._replace(log_std=log_std))
    trainer.restore([states[0], states[1]._replace(learner=broken), states[2]])
    first, second = trainer.advance(ahead=True), trainer.advance()
    for outcomes in (first, second):
        assert [isinstance(outcome, Failure) for outcome in outcomes] == [False, True, False]
    assert "the learner produced nan in action, step 0, environment 0" in str(first[1].error)
    found = arrays_of(trainer)
    for i in (0, 2):
        assert_same(found[i], expected[i])
    assert found[1]["iteration"] == 0
    np.testing.assert_array_equal(found[1]["env/obs"], states[1].sims.obs)
    np.testing.assert_array_equal(found[1]["learner[0].policy.log_std"], log_std)


def test_a_run_that_failed_stays_given_up_though_it_would_go_well_now(tmp_path):
    """As where an annealed rate has become short enough."""
    trainer = DeviceTrainer(failing(tmp_path))
    first = trainer.advance()
    trainer._config = DeviceTrainer(VARIED)._config
    second = trainer.advance()
    for outcomes in (first, second):
        assert [isinstance(outcome, Failure) for outcome in outcomes] == [False, True, False]
    assert str(second[1].error) == str(first[1].error)
    assert trainer.states()[1].iteration == 0


def test_if_all_fail_the_program_ends(tmp_path):
    configs = [dataclasses.replace(each, algo=failing(tmp_path)[1].algo) for each in varied(tmp_path)]
    outcomes = runs.run_all(configs)
    assert all(isinstance(outcome, RunError) for outcome in outcomes)
    assert all((tmp_path / str(i) / "failure.safetensors").exists() for i in range(3))
