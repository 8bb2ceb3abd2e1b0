"""Which policy of its end a run delivers: the best that is found within its limits."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import focops
from focops import api as runs
from focops.core.spec import Constraint
from focops.display.summary import summary_text
from focops.evaluation import final, host
from focops.evaluation.final import keeps_limits, order
from focops.evaluation.judge import judge
from tests.resume.tiny import OURS, results, tiny

LIMIT = 10.0


def found(cost: float, reward: float = 0.0) -> Any:
    """An evaluation of 50 episodes that cost about so much."""
    costs = cost + 0.1 * np.random.default_rng(0).normal(size=50)
    result = judge(Constraint("speed", LIMIT, 0.99), costs, costs, 0.95)
    return SimpleNamespace(constraints={"speed": result}, reward=SimpleNamespace(mean=reward))


def acting(cost: float, reward: float, mean_cost: float | None = None, mean_reward: float | None = None) -> Any:
    """Both evaluations; without their own, mean actions are as sampled ones."""
    return found(cost, reward), found(
        cost if mean_cost is None else mean_cost, reward if mean_reward is None else mean_reward
    )


@pytest.mark.parametrize(
    ("screened", "expected"),
    [
        ([(9, 0)], [0]),
        ([(11, 0)], [0]),
        ([(9, 4), (8, 3), (7, 1), (6, 2), (5, 0)], [0, 1, 4]),  # by reward, then the cheapest
        ([(9, 4), (9.5, 3), (8, 1), (7, 2)], [0, 3, 2]),  # what costs more than one that failed is no way out
        ([(8, 3), (9, 2), (8.5, 1)], [0, 2, 1]),  # unless nothing else is left
        ([(11, 9), (8, 3), (10.01, 9), (9, 4)], [3, 1]),  # within alone; about the limit is undecided
        ([(12, 3), (11, 1), (13, 9)], [1]),  # none: the least cost
        ([(9, 1), (9, 1)], [0, 1]),  # the newest of equals
        ([(9, 1), (9, 3, 11, 3), (9, 2, 9, 0)], [0, 2]),  # of the two ways to act, the worse one
        ([(9, 1, 13, 1), (12, 1, 11, 1)], [1]),
    ],
)
def test_policies_are_tried_by_reward_and_then_by_cost(screened: list[Any], expected: list[int]) -> None:
    assert order([acting(*each) for each in screened]) == expected


def test_without_constraints_the_best_is_delivered() -> None:
    free = lambda reward: SimpleNamespace(constraints={}, reward=SimpleNamespace(mean=reward))
    assert order([[free(1)] * 2, [free(2)] * 2]) == [1, 0]


def test_episodes_that_cost_the_same_within_the_limit_are_enough() -> None:
    result = judge(Constraint("speed", LIMIT, 0.99), np.full(50, 9.0), np.full(50, 9.0), 0.95)
    assert result.verdict == "undecided"
    assert keeps_limits(SimpleNamespace(constraints={"speed": result}))


class Trials:
    """Runs, each of policies (cost screened, reward; cost sampled, cost of the mean action)."""

    def __init__(self, *runs: Any):
        self.runs, self.rounds = [[SimpleNamespace(policy=each) for each in run] for run in runs], []

    def evaluate(self, policies: Any, purpose: Any) -> Any:
        self.rounds.append((len(policies), purpose))
        each = [p.policy for p in policies]
        if purpose is final.SCREENING:
            return [acting(cost, reward) for cost, reward, *_ in each]
        return [acting(cost, reward, mean_cost) for _, reward, cost, mean_cost in each]

    def delivered(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        monkeypatch.setattr(final, "described", lambda *_: {})
        return [each.delivered for each in final.deliver(self.runs, self.evaluate)]


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([(9, 1, 9, 9), (9, 2, 9, 9)], 1),
        ([(9, 1, 9, 9), (9, 2, 9, 11)], 0),  # its mean action is not within
        ([(9, 1, 11, 9), (9, 2, 9, 11)], 1),  # of none: sampled actions decide
        ([(9, 1, 11, 11), (9, 2, 12, 12)], 0),  # or else the cost
        ([(11, 1, 9, 9), (9, 2, 9, 9), (9, 3, 11, 9), (9, 4, 11, 9)], 1),
        ([(9, 1, 9, 9), (8, 2, 11, 11), (7, 3, 11, 11), (8.5, 4, 11, 11)], 3),  # only so many are tried
        ([(9, 4, 11, 11), (8.5, 3, 11, 11), (8, 2, 11, 11), (7, 1, 9, 9)], 3),  # the last of them is the cheapest
    ],
)
def test_the_best_policy_that_is_within_both_ways_on_other_episodes_is_delivered(
    policies: Any, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Trials(policies).delivered(monkeypatch) == [expected]


def test_runs_of_one_program_are_tried_together_with_as_many_policies_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, bad = (9, 1, 9, 9), (9, 2, 9, 11)
    trials = Trials([good, bad], [good, good], [bad, good])
    assert trials.delivered(monkeypatch) == [0, 0, 1]
    assert trials.rounds == [(6, final.SCREENING), (3, final.REPORT), (3, final.REPORT)]


ITERATIONS = 28
KEPT = (27, 26, 24, 22, 20, 19, 17, 15)
"""The last of each eighth of its second half."""


@pytest.mark.parametrize(
    ("count", "expected"), [(9, [5, 4, 3, 2, 1, 0]), (3, [5, 3, 1]), (2, [5, 2]), (4, [5, 3, 1]), (0, [5])]
)
def test_fewer_policies_are_the_last_and_others_in_equal_steps(count: int, expected: list[int]) -> None:
    assert final.spread([5, 4, 3, 2, 1, 0], count) == expected


@pytest.fixture
def dear_until(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The later a policy, the more reward it has, but those after iteration `dear["after"]` are too dear;
    `dear["seen"]` are those evaluated, each with the seed."""
    dear: dict[str, Any] = {"after": ITERATIONS - 4, "seen": []}
    play = host.run_episodes

    def run_episodes(policy: Any, env: Any, seed: int, episodes: int, *rest: Any) -> Any:
        rows, cut, diverged = play(policy, env, seed, episodes, *rest)
        dear["seen"].append((policy.description["iteration"], seed))
        rows[:, 1] = policy.description["iteration"]
        rows[:, 2:] = (10.0 if policy.description["iteration"] > dear["after"] else 0.1) * (1 + 0.01 * rows[:, 2:] % 1)
        return rows, cut, diverged

    monkeypatch.setattr(host, "run_episodes", run_episodes)
    monkeypatch.setattr(final, "OURS", 1e3)  # as if the run were so long that all are looked at
    return dear


def point(out: Path, **options: Any) -> Any:
    return tiny(OURS, out, iterations=ITERATIONS, final_episodes=50, cost_limit=(1.0,), **options)


def test_a_run_whose_last_policy_is_not_within_delivers_the_best_that_is(
    tmp_path: Path, dear_until: dict[str, Any]
) -> None:
    run = runs.run(point(tmp_path / "run"))
    assert run.policy.description["iteration"] == ITERATIONS - 4
    assert (run.summary["policy"]["iteration"], run.summary["policy"]["chosen_from"]) == (ITERATIONS - 4, 9)
    assert "chosen of 9, of iteration 24" in summary_text(run.summary).plain
    assert run.summary["satisfied"] is True
    # what is told is found on other episodes than those it was chosen by
    expected = [*[(i, final.SCREENING.seed) for i in (28, *KEPT)], (24, final.REPORT.seed)]
    assert dear_until["seen"] == [each for each in expected for _ in range(2)]
    expected = results(run.path)
    again = runs.resume(run.path)
    assert results(again.path) == expected
    assert again.summary["policy"] == run.summary["policy"]
    assert focops.load(run.path).evaluation == run.summary["policy"]


@pytest.mark.parametrize(("share", "episodes", "policies"), [(0.8, 29, 1), (6.0, 41, 2), (8.0, 50, 3)])
def test_the_evaluation_takes_no_more_than_its_share_of_the_samples(
    tmp_path: Path,
    dear_until: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    share: int,
    episodes: int,
    policies: int,
) -> None:
    """29 episodes are the fewest that can be found to keep a limit. The run has 1792 steps, its episodes 65."""
    dear_until["after"] = ITERATIONS
    monkeypatch.setattr(final, "OURS", share)
    monkeypatch.setattr(final, "TRIES", 1)
    found = runs.run(point(tmp_path / "run")).summary["policy"]
    assert (found["sampled"]["episodes"], found["chosen_from"]) == (episodes, policies)


def test_the_policy_of_a_candidate_is_what_the_run_had_then(tmp_path: Path, dear_until: dict[str, Any]) -> None:
    chosen = runs.run(point(tmp_path / "run")).policy
    stops = iter([False] * (ITERATIONS - 4) + [True])
    then = runs.run(point(tmp_path / "stopped"), should_stop=lambda: next(stops)).policy
    assert then.description["iteration"] == chosen.description["iteration"]
    obs = np.random.default_rng(0).normal(size=(5, chosen.description["obs_size"]))
    np.testing.assert_array_equal(chosen.predict(obs, deterministic=True), then.predict(obs, deterministic=True))


def test_a_kill_while_it_chooses_is_made_up_for_with_the_same_bytes(
    tmp_path: Path, dear_until: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = results(runs.run(point(tmp_path / "whole")).path)

    class Killed(BaseException):
        pass

    play = host.run_episodes

    def killed(policy: Any, *args: Any) -> Any:
        if policy.description["iteration"] == ITERATIONS - 2:
            raise Killed
        return play(policy, *args)

    with monkeypatch.context() as patch:
        patch.setattr(host, "run_episodes", killed)
        with pytest.raises(Killed):
            runs.run(point(tmp_path / "run"))
    assert results(runs.resume(tmp_path / "run").path) == expected


def test_with_a_margin_of_ones_own_the_last_policy_is_delivered(tmp_path: Path, dear_until: dict[str, Any]) -> None:
    run = runs.run(point(tmp_path / "run", margin=0.1))
    assert [number for number, _ in dear_until["seen"]] == [ITERATIONS] * 2
    assert (run.summary["satisfied"], run.summary["policy"]["iteration"]) == (False, ITERATIONS)


def test_more_steps_choose_anew(tmp_path: Path, dear_until: dict[str, Any]) -> None:
    run = runs.run(point(tmp_path / "run"))
    dear_until["after"] = 100
    longer = runs.resume(run.path, steps=64 * 32)
    assert longer.summary["policy"]["iteration"] == longer.policy.description["iteration"] == 32
    assert json.loads((run.path / "summary.json").read_text())["policy"]["iteration"] == 32
