"""Runs of one program on the disk: stopped, killed, damaged, extended, and the same bytes in the end."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import focops
from focops import api as runs
from focops.runs import checkpoint
from focops.training.device import DeviceTrainer
from tests.resume.tiny import OPTIONS, OURS, Disk, metrics, results, tiny
from tests.training.device.cases import all_results, config, stopped_after, varied


def test_what_stops_early_starts_no_further_iteration(tmp_path, monkeypatch):
    started, iterate = [], DeviceTrainer._iterate_once
    monkeypatch.setattr(
        DeviceTrainer, "_iterate_once", lambda trainer, number: (started.append(number), iterate(trainer, number))[1]
    )
    (run, *_) = runs.run_all(varied(tmp_path), should_stop=stopped_after(1))
    assert len(started) == len(metrics(run.path)), started


@pytest.mark.parametrize("iterations", [1, 3, 4])
def test_runs_stopped_and_resumed_end_in_the_same_bytes(tmp_path, finished, iterations):
    outcomes = runs.run_all(varied(tmp_path), should_stop=stopped_after(iterations))
    # an iteration that is under way when asked to stop is made use of
    assert {outcome.summary["steps"] for outcome in outcomes} <= {64 * iterations, 64 * (iterations + 1)}
    assert all(not outcome.summary["finished"] for outcome in outcomes)
    runs.resume_all([tmp_path / str(i) for i in range(3)])
    assert all_results(tmp_path) == all_results(finished)


def test_the_trainers_directories_hold_what_a_run_on_the_cpu_does(tmp_path, finished):
    runs.run(tiny(OURS, tmp_path / "cpu"))
    for i in range(3):
        names = lambda run: {str(path.relative_to(run)).partition("tfevents")[0] for path in run.rglob("*")}
        assert names(finished / str(i)) == names(tmp_path / "cpu")
    ours, theirs = metrics(finished / "0"), metrics(tmp_path / "cpu")
    assert [list(record) for record in ours] == [list(record) for record in theirs]
    summaries = [json.loads((run / "summary.json").read_text()) for run in (finished / "0", tmp_path / "cpu")]
    assert list(summaries[0]) == list(summaries[1])


def test_killed_between_two_runs_checkpoints_all_go_on_from_the_one_they_have_in_common(tmp_path, finished):
    base = Path(shutil.copytree(finished, tmp_path / "runs"))
    (base / "1" / "checkpoint" / "00000006.safetensors").unlink()
    runs.resume_all([base / str(i) for i in range(3)])
    assert all_results(base) == all_results(finished)


def test_a_kill_at_any_instant_of_a_save_changes_nothing(tmp_path, finished, monkeypatch):
    monkeypatch.setattr("focops.runs.loop.WRITERS", 1)  # so that the disk is looked at by one thread
    disk = Disk(tmp_path / "runs", tmp_path / "copies")
    disk.run.mkdir()
    with disk.watched():
        runs.run_all(varied(disk.run))
    begun = [x for x in disk.instants if all((x[1] / str(i) / "config.json").exists() for i in range(3))]
    assert len(begun) > 100
    for what, copy in random.Random(3).sample(begun, 5):
        runs.resume_all([copy / str(i) for i in range(3)])
        assert all_results(copy) == all_results(finished), what


def test_a_damaged_checkpoint_of_one_run_is_said_and_all_go_on_from_the_one_before(tmp_path, finished):
    base = Path(shutil.copytree(finished, tmp_path / "runs"))
    newest = base / "2" / "checkpoint" / "00000006.safetensors"
    newest.write_bytes(newest.read_bytes()[:-7])
    with pytest.warns(checkpoint.CheckpointWarning, match=r"2/checkpoint/00000006.*damaged.*earlier"):
        runs.resume_all([base / str(i) for i in range(3)])
    assert all_results(base) == all_results(finished)


def test_a_checkpoint_of_another_run_is_said_and_all_go_on_from_the_one_before(tmp_path, finished):
    base = Path(shutil.copytree(finished, tmp_path / "runs"))
    newest = Path("checkpoint", "00000006.safetensors")
    shutil.copy(base / "0" / newest, base / "2" / newest)
    with pytest.warns(checkpoint.CheckpointWarning, match=r"2/checkpoint/00000006.* is of another run .*earlier"):
        runs.resume_all([base / str(i) for i in range(3)])
    assert all_results(base) == all_results(finished)


def test_exact_runs_keep_the_checkpoints_at_cuts_alone_and_resume_exactly(tmp_path):
    runs.run_all(varied(tmp_path / "whole", exact=True))
    for stop in (1, 3):
        base = tmp_path / str(stop)
        for outcome in runs.run_all(varied(base, exact=True), should_stop=stopped_after(stop)):
            steps = outcome.summary["steps"]
            assert steps in (64 * stop, 64 * (stop + 1))
            assert outcome.summary["checkpoint_steps"] == steps // 128 * 128  # of every second iteration
        runs.resume_all([base / str(i) for i in range(3)])
        assert all_results(base) == all_results(tmp_path / "whole")


def test_finished_runs_go_on_to_a_greater_total(tmp_path, finished):
    base = Path(shutil.copytree(finished, tmp_path / "runs"))
    outcomes = runs.resume_all([base / str(i) for i in range(3)], steps=512)
    for i, outcome in enumerate(outcomes):
        assert (outcome.summary["steps"], outcome.summary["finished"]) == (512, True)
        assert [record["iteration"] for record in metrics(base / str(i))] == list(range(1, 9))
        assert metrics(base / str(i))[:6] == metrics(finished / str(i))


def test_runs_start_from_another_and_need_it_no_more_once_begun(tmp_path, finished):
    source = Path(shutil.copytree(finished / "1", tmp_path / "source"))
    runs.run_all(varied(tmp_path / "whole", init_from=source))
    runs.run_all(varied(tmp_path / "runs", init_from=source), should_stop=lambda: True)
    shutil.rmtree(source)
    runs.resume_all([tmp_path / "runs" / str(i) for i in range(3)])
    assert all_results(tmp_path / "runs") == all_results(tmp_path / "whole")
    assert all_results(tmp_path / "whole") != all_results(finished)


def test_a_policy_trained_by_a_trainer_is_loaded_and_evaluated_on_the_cpu(finished):
    saved = checkpoint.load_newest(finished / "2" / "checkpoint")[0]
    obs = np.array([1.0, -2.0, 0.6, 0.8])
    normal = np.clip((obs - saved["learner[1].mean"]) / np.sqrt(saved["learner[1].variance"]), -5, 5)
    weights = [saved[f"learner[0].policy.network[{i}].{name}"] for i in (0, 1) for name in ("weight", "bias")]
    mean = np.tanh(normal @ weights[0] + weights[1]) @ weights[2] + weights[3]
    np.testing.assert_allclose(focops.load(finished / "2").predict(obs, deterministic=True), mean, rtol=1e-4, atol=1e-6)
    assert focops.evaluate(finished / "2", episodes=4).episodes == 4


def test_one_run_is_trained_from_python_with_the_same_arguments(tmp_path):
    run = focops.train(OURS, backend="mjx", out=tmp_path / "python", **OPTIONS)
    runs.run(config(tmp_path / "run"))
    assert results(run.path) == results(tmp_path / "run")


def test_the_policies_of_one_program_are_evaluated_together_and_again_if_that_is_lost(tmp_path):
    outcomes = runs.run_all(varied(tmp_path, final_episodes=2, cost_discount=None))
    found = [outcome.summary["policy"] for outcome in outcomes]
    assert [each["backend"] for each in found] == ["mjx"] * 3
    assert [focops.load(outcome.path).evaluation for outcome in outcomes] == found
    assert [each["sampled"]["cost_limit"] for each in found] == [outcome.summary["cost_limit"] for outcome in outcomes]
    assert len({each[acting]["reward"] for each in found for acting in ("sampled", "mean_action")}) == 6
    expected = all_results(tmp_path)
    for outcome in outcomes:  # as if the program had been killed before anything of it was written
        file = outcome.path / "policy" / "policy.safetensors"
        arrays, meta = checkpoint.load(file)
        del meta["evaluation"]
        file.write_bytes(checkpoint.serialize(arrays, meta))
    assert all_results(tmp_path) != expected
    resumed = runs.resume_all([outcome.path for outcome in outcomes])
    assert all_results(tmp_path) == expected
    assert [run.summary["policy"] for run in resumed] == found
