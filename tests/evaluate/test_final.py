"""The policy that a run delivers is evaluated at its end, and what is found of it is told beside the training mean."""

import json
import os
import random
import signal
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest

import focops
from focops import api as runs
from focops import cli, evaluation
from focops.evaluation import host
from focops.evaluation.final import FinalEvaluationWarning
from focops.runs.directory import PENDING, RunDirectory
from focops.runs.policy import mean_action_outside
from tests.resume.tiny import OURS, Disk, flags, metrics, results, tiny

LENGTH = 4
SAMPLES = 25 * 64


class Toll(gymnasium.Env):
    """Each step costs about 0.1; from step `dear` of the process on, about 1. Episodes last `length` steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space: gymnasium.Space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    steps: ClassVar[int] = 0
    dear: ClassVar[float] = np.inf
    fault: ClassVar[float] = np.inf
    long: ClassVar[float] = np.inf

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.normal(size=1).astype(np.float32), {}

    def step(self, action):
        Toll.steps += 1
        if Toll.steps > Toll.fault:
            raise RuntimeError("out of change")
        self.t += 1
        price = 1.0 if Toll.steps > Toll.dear else 0.1
        cost = price * (1 + 0.1 * self.np_random.uniform())
        ended = self.t >= LENGTH and Toll.steps <= Toll.long
        return self.np_random.normal(size=1).astype(np.float32), 1.0, ended, False, {"cost": cost}


class Choice(Toll):
    action_space = gymnasium.spaces.Discrete(2)


for _name, _env in {"Toll-v0": Toll, "Choice-v0": Choice}.items():
    if _name not in gymnasium.registry:
        gymnasium.register(_name, entry_point=_env)
TOLL, CHOICE = f"{__name__}:Toll-v0", f"{__name__}:Choice-v0"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """One step is made to find out how many costs there are."""
    Toll.steps, Toll.dear, Toll.fault, Toll.long = -1, np.inf, np.inf, np.inf


def toll(out: Path, task: str = TOLL, **options: Any) -> Any:
    fixed = {"cost_limit": (1.0,), "final_episodes": 50, "env_workers": 0}  # nothing is measured: steps are counted
    return tiny(task, out, iterations=SAMPLES // 64, **fixed | options)


def point(out: Path, **options: Any) -> Any:
    return tiny(OURS, out, **{"final_episodes": 2} | options)


def test_a_run_whose_training_mean_is_within_and_whose_policy_is_not_is_not_called_satisfied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Toll.dear = SAMPLES + 1  # `train` makes an environment of its own to look at it
    assert cli.main(["train", *flags(toll(tmp_path / "run")), "--cost-limit", "1"]) == 0
    said, summary = capsys.readouterr().out, json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["discounted_cost_mean"]["cost"] < 0.5
    assert summary["training_within_limits"] is True
    assert summary["satisfied"] is False
    for acting in ("sampled", "mean_action"):
        assert summary["policy"][acting]["verdict"] == {"cost": "violated"}
        assert summary["policy"][acting]["discounted_cost"]["cost"] > 3.9
    assert "satisfied" not in said
    assert "within" in said
    assert said.count("violated") == 2


def test_quiet_tells_the_policy_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", *flags(toll(tmp_path / "run")), "--cost-limit", "1", "--quiet"]) == 0
    training, delivered = capsys.readouterr().out.splitlines()
    assert training.startswith("1.6k/1.6k")
    assert delivered.startswith("policy return 4, cost 0.4")
    assert delivered.count("limit 1: satisfied") == 2


def test_a_policy_that_is_found_within_its_limits_is_satisfied_and_predicts_without_a_warning(tmp_path: Path) -> None:
    run = runs.run(toll(tmp_path / "run"))
    assert run.summary["satisfied"] is True
    assert run.summary["policy"]["sampled"]["episodes"] == int(0.3 * SAMPLES) // 4 // LENGTH
    assert run.summary["policy"]["sampled"]["reward"] == LENGTH
    run.policy.predict([0.0], deterministic=True)


def test_predict_warns_once_of_a_mean_action_that_was_not_found_within_its_limits(tmp_path: Path) -> None:
    Toll.dear = SAMPLES
    policy = runs.run(toll(tmp_path / "run")).policy
    policy.predict([0.0])
    with pytest.warns(focops.MeanActionWarning, match=r"cost 4\.\d+, limit 1: violated .*--deterministic") as warned:
        policy.predict([0.0], deterministic=True)
    assert len(warned) == 1
    policy.predict([0.0], deterministic=True)  # warnings are errors here


def test_evaluate_says_what_is_known_of_the_mean_action(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Toll.dear = SAMPLES
    run = runs.run(toll(tmp_path / "run")).path
    assert cli.main(["evaluate", str(run), "--episodes", "30"]) == 0
    assert "the mean action of this policy was not found within its limits" in capsys.readouterr().err
    assert cli.main(["evaluate", str(run), "--episodes", "30", "--deterministic"]) == 0
    assert capsys.readouterr().err == ""


def test_it_finds_what_evaluate_finds(tmp_path: Path) -> None:
    run = runs.run(toll(tmp_path / "run", CHOICE))  # discrete: the most likely action
    for acting, deterministic in (("sampled", False), ("mean_action", True)):
        found = run.summary["policy"][acting]
        again = evaluation.evaluate(run.path, episodes=found["episodes"], deterministic=deterministic)
        assert found["reward"] == again.reward.mean
        assert found["discounted_cost"] == {"cost": again.constraints["cost"].discounted_cost.mean}


def test_without_episodes_nothing_is_evaluated_and_nothing_called_satisfied(tmp_path: Path) -> None:
    run = runs.run(toll(tmp_path / "run", final_episodes=0))
    assert Toll.steps == SAMPLES
    assert (run.summary["satisfied"], run.summary["policy"]) == (None, None)
    assert run.summary["not_evaluated"] == "--final-episodes is 0"
    assert run.policy.evaluation is None
    run.policy.predict([0.0], deterministic=True)


def test_training_is_the_same_and_has_the_same_samples_with_and_without_it(tmp_path: Path) -> None:
    without, with_it = (runs.run(point(tmp_path / str(n), final_episodes=n)) for n in (0, 2))
    found = [results(run.path) for run in (without, with_it)]
    assert {k: v for k, v in found[0].items() if k != "policy"} == {k: v for k, v in found[1].items() if k != "policy"}
    assert without.summary["steps"] == with_it.summary["steps"] == 384
    assert with_it.summary["evaluation_s"] > 0
    # but for the head of the file, which has the evaluation
    weights = lambda run: (run.path / "policy" / "policy.safetensors").read_bytes()[-200:]
    assert weights(without) == weights(with_it)


def test_a_short_run_in_gymnasium_is_not_followed_by_a_long_evaluation(tmp_path: Path) -> None:
    run = runs.run(toll(tmp_path / "run", steps=64))
    assert Toll.steps == 64
    assert "two of its episodes are more than 7% of its samples" in run.summary["not_evaluated"]
    assert RunDirectory(run.path).is_complete()


def test_an_environment_whose_episodes_never_ended_is_not_evaluated(tmp_path: Path) -> None:
    Toll.long = -1
    assert "no episode ended in training" in runs.run(toll(tmp_path / "run")).summary["not_evaluated"]


def test_episodes_that_have_become_endless_are_given_up(tmp_path: Path) -> None:
    Toll.long = SAMPLES
    run = runs.run(toll(tmp_path / "run"))
    assert Toll.steps < 1.5 * SAMPLES
    assert "far longer than in training" in run.summary["not_evaluated"]
    assert (run.summary["finished"], run.summary["satisfied"]) == (True, None)


def test_an_error_is_reported_and_the_run_is_finished(tmp_path: Path) -> None:
    Toll.fault = SAMPLES + 10
    with pytest.warns(FinalEvaluationWarning, match=r"is finished, but its policy could not be evaluated: .*of change"):
        run = runs.run(toll(tmp_path / "run"))
    assert (run.summary["finished"], run.summary["policy"]) == (True, None)
    assert "out of change" in run.summary["not_evaluated"]


class Killed(BaseException):
    """As kill -9: nothing that follows is done."""


def test_a_kill_during_the_evaluation_is_made_up_for_by_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = results(runs.run(point(tmp_path / "whole")).path)
    with monkeypatch.context() as patch:
        patch.setattr(host, "run_episodes", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            runs.run(point(tmp_path / "run"))
    killed = RunDirectory(tmp_path / "run")
    assert killed.is_finished()
    assert not killed.is_complete()
    assert (killed.summary["not_evaluated"], killed.summary["satisfied"]) == (PENDING, None)
    run = runs.resume(tmp_path / "run")
    assert results(run.path) == expected
    assert run.summary["policy"] is not None
    assert killed.is_complete()


def test_a_kill_at_any_instant_of_writing_what_was_found_ends_in_the_same_bytes(tmp_path: Path) -> None:
    expected = results(runs.run(point(tmp_path / "whole")).path)
    disk = Disk(tmp_path / "run", tmp_path / "copies")
    with disk.watched():
        runs.run(point(disk.run))
    first = next(i for i, (what, _) in enumerate(disk.instants) if what.endswith("summary.json"))
    for what, copy in random.Random(0).sample(disk.instants[first:], 3):
        run = runs.resume(copy)
        assert results(run.path) == expected, what
        assert run.summary["policy"] is not None, what


def test_a_signal_during_the_evaluation_stops_it_and_resume_makes_up_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, play = point(tmp_path / "run"), host.run_episodes

    def stopped(*args: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return play(*args)

    with monkeypatch.context() as patch:
        patch.setattr(host, "run_episodes", stopped)
        assert cli.main(["train", *flags(config), "--quiet"]) == 128 + signal.SIGTERM
    said = capsys.readouterr()
    assert f"before the policy was evaluated. Make up for it with:  focops resume {config.out}" in said.err
    assert f"policy not evaluated: {PENDING}" in said.out
    assert RunDirectory(config.out).is_finished()
    assert cli.main(["resume", str(config.out), "--quiet"]) == 0
    assert RunDirectory(config.out).is_complete()
    assert len(metrics(config.out)) == 6


def test_a_finished_run_is_not_evaluated_again_and_more_steps_replace_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.run(point(tmp_path / "run"))
    with monkeypatch.context() as patch:
        patch.setattr(host, "run_episodes", lambda *_: pytest.fail("evaluated again"))
        again = runs.resume(run.path)
    for field in ("policy", "satisfied", "not_evaluated", "evaluation_s"):
        assert again.summary[field] == run.summary[field]
    longer = runs.resume(run.path, steps=64 * 8).summary
    assert longer["policy"] not in (None, run.summary["policy"])
    assert focops.load(run.path).evaluation == longer["policy"]


def test_a_run_that_is_stopped_is_evaluated_once_it_is_finished_with_the_same_bytes(tmp_path: Path) -> None:
    expected = results(runs.run(point(tmp_path / "whole")).path)
    stops = iter([False] * 3 + [True])
    stopped = runs.run(point(tmp_path / "run"), should_stop=lambda: next(stops))
    assert (stopped.summary["policy"], stopped.summary["satisfied"]) == (None, None)
    assert stopped.summary["not_evaluated"] == "the run is not finished"
    assert runs.resume(stopped.path).summary["policy"] is not None
    assert results(stopped.path) == expected


def test_a_run_that_is_killed_while_it_is_trained_on_no_longer_has_what_was_found_before(tmp_path: Path) -> None:
    def kill(record: dict[str, Any]) -> None:
        if record["iteration"] == 9:  # after the checkpoint of 8
            raise Killed

    path = runs.run(point(tmp_path / "run")).path
    with pytest.raises(Killed):
        runs.resume(path, steps=64 * 12, callbacks=[kill])
    assert focops.load(path).evaluation is None
    assert RunDirectory(path).summary is None
    assert not RunDirectory(path).is_finished()


@pytest.mark.parametrize("number", [-1, 1])
def test_a_number_of_episodes_that_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    assert cli.main(["train", OURS, "--out", str(tmp_path / "run"), "--final-episodes", str(number)]) == 2
    assert f"--final-episodes is {number}; it must be" in capsys.readouterr().err


@pytest.mark.parametrize(("cost", "high", "warns"), [(0.0, 0.0, False), (0.5, 0.6, True), (2.0, 2.0, True)])
def test_a_mean_action_whose_episodes_cost_the_same_is_judged_by_that(cost: float, high: float, warns: bool) -> None:
    found = {
        "episodes": 50, "discounted_cost": {"speed": cost}, "discounted_cost_interval": {"speed": [cost, high]},
        "cost_limit": {"speed": 1.0}, "verdict": {"speed": "undecided"},
    }  # fmt: skip
    assert bool(mean_action_outside({"sampled": found, "mean_action": found})) == warns
