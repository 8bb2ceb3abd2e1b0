"""Environments whose state cannot be saved: what is not exact is said, all else is; --exact makes it exact."""

from pathlib import Path

import numpy as np
import pytest

from focops import api as runs
from focops.envs import gymnasium as adapter
from focops.errors import RunError, UsageError
from focops.runs import checkpoint
from focops.training.host import Trainer
from tests.resume.tiny import arrays_of, metrics, restore, results, tiny
from tests.resume.worlds import Drift

ENDLESS = f"{Drift.__module__}:EndlessDrift-v0"


@pytest.fixture(autouse=True)
def _short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless episodes that cannot be replayed."""
    monkeypatch.setattr(adapter, "REPLAYED", 10)


def stopped_after(iterations: int):
    answers = iter([False] * iterations + [True])
    return lambda: next(answers)


def test_what_is_not_exact_is_said_and_the_learner_goes_on_exactly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = runs.run(tiny(ENDLESS, tmp_path / "run"), should_stop=stopped_after(3)).path
    saved, _ = checkpoint.load(run / "checkpoint" / "00000003.safetensors")
    trainer = Trainer(tiny(ENDLESS, tmp_path / "run"))
    restore(trainer, [saved])
    assert "environment 0 (and 3 more) did not come back to its saved observation" in caplog.text
    assert "--exact" in caplog.text
    (found,) = arrays_of(trainer)
    for name in saved:
        if name.startswith("learner") or name in ("iteration", "episodes/recent", "episodes/finished"):
            np.testing.assert_array_equal(found[name], saved[name], err_msg=name)
    assert found["env/age"].tolist() == [0] * 4
    assert found["episodes/running"].tolist() == [[0.0] * 3] * 4
    runs.resume(run)
    assert [record["iteration"] for record in metrics(run)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_an_exact_run_resumes_exactly(tmp_path: Path, caplog: pytest.LogCaptureFixture, stop: int) -> None:
    expected = results(runs.run(tiny(ENDLESS, tmp_path / "whole", exact=True)).path)
    run = runs.run(tiny(ENDLESS, tmp_path / "run", exact=True), should_stop=stopped_after(stop))
    assert run.summary["checkpoint_steps"] == 64 * (stop // 2 * 2)  # it keeps those at episodes' cuts alone
    assert results(runs.resume(run.path).path) == expected
    assert caplog.text == ""


def test_without_exact_such_a_run_does_not(tmp_path: Path) -> None:
    expected = results(runs.run(tiny(ENDLESS, tmp_path / "whole")).path)
    run = runs.run(tiny(ENDLESS, tmp_path / "run"), should_stop=stopped_after(3)).path
    assert results(runs.resume(run).path) != expected


def test_an_exact_run_that_fails_after_a_checkpoint_starts_no_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environments may be what failed."""
    restarts, restart = [], adapter.GymnasiumVector.restart
    monkeypatch.setattr(adapter.GymnasiumVector, "restart", lambda env: (restarts.append(1), restart(env)))
    run = runs.run(tiny(ENDLESS, tmp_path / "run", exact=True), should_stop=stopped_after(2))
    before = len(restarts)
    with pytest.raises(RunError, match="Iteration 3 was given up"):
        runs.resume(run.path, changes={"policy_rate": 1e38})
    assert len(restarts) == before + 2  # when they are made, and seeded


def test_an_exact_run_needs_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--checkpoint-every is 0; it must be ≥ 1 with --exact"):
        runs.run(tiny(ENDLESS, tmp_path / "run", exact=True, checkpoint_every=0))


def test_the_memory_of_actions_is_bounded_and_holds_the_latest() -> None:
    env = adapter.GymnasiumVector(ENDLESS, 2, limits=[1.0])
    for t in range(95):
        env.step(np.full((2, 1), t / 100, np.float32))
        assert len(env._actions) == 20
    np.testing.assert_allclose(env.state()["history"][:, 0, 0], np.arange(85, 95) / 100, rtol=1e-6)
