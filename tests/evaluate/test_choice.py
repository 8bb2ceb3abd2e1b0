"""Which policy of its end a run delivers: the newest that is found within its limits."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import focops
from focops import api as runs
from focops.core.spec import Constraint
from focops.evaluation import final, host
from focops.evaluation.final import choose
from focops.evaluation.judge import judge
from tests.resume.tiny import OURS, results, tiny

LIMIT = 10.0


def found(cost: float, limit: float = LIMIT) -> Any:
    """An evaluation of 50 episodes that cost about so much."""
    costs = cost + 0.1 * np.random.default_rng(0).normal(size=50)
    result = judge(Constraint("speed", limit, 0.99), costs, costs, 0.95)
    return dataclasses.make_dataclass("Found", ["constraints"])({"speed": result})


def pair(sampled: float, mean_action: float | None = None) -> Any:
    return found(sampled), found(sampled if mean_action is None else mean_action)


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ([9], 0),
        ([11], 0),
        ([11, 12, 9, 8], 2),  # the newest within
        ([9, 1], 0),  # not the cheapest
        ([(9, 11), (11, 9), (9.5, 9.5)], 2),  # within both ways
        ([(11, 9), (9, 11), (9, 12)], 1),  # else with sampled actions
        ([12, 13, (11, 11.5), (10.5, 14)], 2),  # else the least of the worse way
    ],
)
def test_the_newest_that_is_within_both_ways_is_chosen_and_the_next_best_if_there_is_none(
    costs: list[Any], expected: int
) -> None:
    last, *others = [pair(*each) if isinstance(each, tuple) else pair(each) for each in costs]
    assert choose(last, others) == expected


def test_no_other_is_looked_at_if_the_last_is_within() -> None:
    assert choose(pair(9), (pytest.fail("looked at") for _ in range(1))) == 0


def test_without_constraints_the_last_is_delivered() -> None:
    nothing = dataclasses.make_dataclass("Found", ["constraints"])({})
    assert choose((nothing, nothing), [pair(1)]) == 0


def test_episodes_that_cost_the_same_within_the_limit_are_enough() -> None:
    result = judge(Constraint("speed", LIMIT, 0.99), np.full(50, 9.0), np.full(50, 9.0), 0.95)
    assert result.verdict == "undecided"
    same = dataclasses.make_dataclass("Found", ["constraints"])({"speed": result})
    assert choose((same, same), [pair(1)]) == 0


ITERATIONS = 22


@pytest.fixture
def dear_until(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Policies of later iterations than `dear["after"]` cost 10 times what they do; `dear["seen"]` are those
    evaluated, each with the seed."""
    dear: dict[str, Any] = {"after": ITERATIONS - 3, "seen": []}
    play = host.run_episodes

    def run_episodes(policy: Any, env: Any, seed: int, episodes: int, *rest: Any) -> Any:
        rows, cut, diverged = play(policy, env, seed, episodes, *rest)
        dear["seen"].append((policy.description["iteration"], seed))
        rows[:, 2:] = (10.0 if policy.description["iteration"] > dear["after"] else 0.1) * (1 + 0.01 * rows[:, 2:] % 1)
        return rows, cut, diverged

    monkeypatch.setattr(host, "run_episodes", run_episodes)
    return dear


def point(out: Path, **options: Any) -> Any:
    return tiny(OURS, out, iterations=ITERATIONS, final_episodes=30, cost_limit=(1.0,), **options)


def test_a_run_whose_last_policy_is_not_within_delivers_the_newest_that_is(
    tmp_path: Path, dear_until: dict[str, Any]
) -> None:
    run = runs.run(point(tmp_path / "run"))
    assert run.policy().description["iteration"] == ITERATIONS - 3
    assert run.summary["policy"]["iteration"] == ITERATIONS - 3
    assert run.summary["satisfied"] is True
    # newest first, both ways each; what is told is found on other episodes than those it was chosen by
    numbers = [(22, final.SEED), *[(i, final.CHOOSING_SEED) for i in (21, 20, 19)], (19, final.SEED)]
    assert dear_until["seen"] == [each for each in numbers for _ in range(2)]
    expected = results(run.path)
    again = runs.resume(run.path)
    assert results(again.path) == expected
    assert again.summary["policy"] == run.summary["policy"]
    assert focops.load(run.path).evaluation == run.summary["policy"]


def test_the_policy_of_a_candidate_is_what_the_run_had_then(tmp_path: Path, dear_until: dict[str, Any]) -> None:
    chosen = runs.run(point(tmp_path / "run")).policy()
    stops = iter([False] * (ITERATIONS - 3) + [True])
    then = runs.run(point(tmp_path / "stopped"), should_stop=lambda: next(stops)).policy()
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
    longer = runs.resume(run.path, steps=64 * 26)
    assert longer.summary["policy"]["iteration"] == longer.policy().description["iteration"] == 26
    assert json.loads((run.path / "summary.json").read_text())["policy"]["iteration"] == 26
