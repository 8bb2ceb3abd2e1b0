"""Numbers that are not finite and environments that misbehave: the error names who did it; the last state is saved."""

from pathlib import Path

import numpy as np
import pytest

from focops import api as runs
from focops import cli
from focops.errors import RunError, UsageError
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory
from focops.training.host import Trainer
from tests.resume.tiny import OURS, arrays_of, flags, metrics, results, tiny
from tests.resume.worlds import Drift

DRIFT = f"{Drift.__module__}:Drift-v0"


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch):
    return lambda what: monkeypatch.setattr(Drift, "fault", what)


def test_a_learner_that_blows_up_stops_with_status_1_and_names_its_array(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny(OURS, tmp_path / "run")
    assert cli.main(["train", *flags(config), "--algo.policy-rate", "1e38", "--quiet"]) == 1
    said = capsys.readouterr().err
    assert "error: the learner produced nan in policy.network[0].weight, index (0, 0)" in said
    assert f"focops resume {config.out}" in said
    assert "--algo.policy-rate" in said


def test_the_last_finite_state_is_saved_and_goes_on_with_a_smaller_step(tmp_path: Path) -> None:
    run = runs.run(tiny(OURS, tmp_path / "run", iterations=3, checkpoint_every=0)).path
    before = results(run)
    with pytest.raises(RunError, match=r"Iteration 4 was given up.*The state of iteration 3 is kept"):
        runs.resume(run, steps=64 * 6, changes={"policy_rate": 1e38})
    assert {k: results(run)[k] for k in before} == before
    result = runs.resume(run, changes={"policy_rate": 1e-4})
    assert result.summary["finished"]
    assert [record["iteration"] for record in metrics(run)] == [1, 2, 3, 4, 5, 6]
    changes = RunDirectory.open(run, lock=False).changes
    assert [(c["iteration"], c["algo.policy_rate"]["to"]) for c in changes] == [(3, 1e38), (3, 1e-4)]


def test_the_dump_holds_the_last_finite_state_the_rejected_one_the_batch_and_the_config(tmp_path: Path) -> None:
    with pytest.raises(RunError):
        runs.run(tiny(OURS, tmp_path / "run", algo={"policy_rate": 1e38}))
    arrays, meta = checkpoint.load(tmp_path / "run" / "failure.safetensors")
    weight = "[0].policy.network[0].weight"
    assert np.isfinite(arrays["learner" + weight]).all()
    assert np.isnan(arrays["rejected" + weight]).any()
    assert arrays["rollout/obs"].shape == (16, 4, 4)
    assert arrays["rollout/steps"] == 16
    assert meta["config"]["algo"]["policy_rate"] == 1e38
    assert "the learner produced nan" in meta["message"]


def test_a_failed_update_leaves_the_state_before_it(tmp_path: Path) -> None:
    trainer = Trainer(tiny(OURS, tmp_path, algo={"value_rate": 1e38}))
    (before,) = arrays_of(trainer)
    with pytest.raises(RunError, match=r"the learner produced (nan|inf) in critics\.params"):
        trainer.iterate()
    for name, array in arrays_of(trainer)[0].items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("reward", "the environment produced nan in reward, step 2, environment 1"),
        ("cost", "the environment produced nan in cost, step 2, environment 1"),
        ("raw_next_obs", "the environment produced nan in next_obs, step 2, environment 1"),
        ("action", "the learner produced nan in action, step 2, environment 1"),
    ],
)
def test_a_backend_that_does_not_check_is_checked(tmp_path: Path, field: str, message: str) -> None:
    trainer = Trainer(tiny(OURS, tmp_path))
    collect = trainer.collector.collect

    def spoilt(*args):
        batch, stats = collect(*args)
        getattr(batch, field)[2, 1] = np.nan
        batch.reward[7] = np.inf  # later, so not to blame
        return batch, stats

    trainer.collector.collect = spoilt
    with pytest.raises(RunError, match=message):
        trainer.iterate()


FAULTS = {
    "raise": r"environment \d .* raised RuntimeError: out of coffee .*worlds.py:\d+\) in step at step \d+",
    "exit": r"environment \d .* raised SystemExit: 0 .*worlds.py:\d+\) in step at step \d+",
    "hang": r"environment \d .* did not answer at step \d+ within 2 s \(--env-timeout\)",
    "nan": r"environment \d .* returned nan in its observation \(index \(1,\)\)",
    "inf": r"environment \d .* returned inf in its reward",
    "shape": r"environment \d .* not of its observation space .*shape \(3,\)",
    "no cost": r"environment \d .* returned no cost",
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_faulty_environment_is_named_and_once_mended_nothing_was_lost(tmp_path: Path, fault, what: str) -> None:
    expected = results(runs.run(tiny(DRIFT, tmp_path / "expected")).path)
    fault(what)
    run = tmp_path / "run"
    with pytest.raises(RunError, match=f"(?s){FAULTS[what]}.*focops resume {run}"):
        runs.run(tiny(DRIFT, run, env_timeout=2.0, checkpoint_every=0))
    assert len(metrics(run)) >= 1
    assert (run / "failure.safetensors").exists()
    fault("")
    assert results(runs.resume(run).path) == expected


@pytest.mark.parametrize(("what", "said_of_it"), [("raise", "out of coffee"), ("exit", "raised SystemExit: 0")])
def test_an_environment_that_faults_has_status_1(
    tmp_path: Path, fault, capsys: pytest.CaptureFixture[str], what: str, said_of_it: str
) -> None:
    fault(what)
    config = tiny(DRIFT, tmp_path / "run")
    assert cli.main(["train", *flags(config), "--cost-limit", "1", "--quiet"]) == 1
    said = capsys.readouterr().err
    assert said_of_it in said
    assert "Traceback" not in said


def test_an_environment_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no task or Gymnasium environment"):
        runs.run(tiny("Nowhere-v9", tmp_path / "deep" / "run"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"changes": {"hidden": (3,)}}, "hidden cannot be changed on resuming; these can: .*policy_rate"),
        ({"changes": {"policy_rate": "fast"}}, "policy_rate is 'fast'; it must be a number"),
        ({"changes": {"policy_rate": -1.0}}, "--algo.policy-rate is -1.0; it must be a positive number"),
        ({"steps": 64}, r"--steps is 64, but the run has made 384 already"),
    ],
)
def test_what_cannot_be_changed_on_resuming_is_refused_and_not_recorded(tmp_path: Path, changes, message: str) -> None:
    run = runs.run(tiny(OURS, tmp_path / "run")).path
    before = (run / "config.json").read_bytes()
    with pytest.raises(UsageError, match=message):
        runs.resume(run, **changes)
    assert (run / "config.json").read_bytes() == before
