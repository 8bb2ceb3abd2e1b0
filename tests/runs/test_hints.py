"""Hints at the end of a run: what its metrics say, and what to try."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import focops
from focops.config import default_config
from focops.core.spec import Constraint, Spec
from focops.display.summary import summary_text
from focops.runs.hints import hints
from tests.probes import Forever
from tests.resume.tiny import OPTIONS

SPEC = Spec(1, 1, True, (Constraint("speed", 25.0),), None)


def records(number: int, **values: Any) -> list[dict[str, Any]]:
    """Each finishes an episode and is within the limit, unless `values` say otherwise: numbers, or functions of the
    iteration."""
    own: dict[str, Any] = {"nu": 0.0, "cost_return_estimate": 20.0, "episodes_finished": lambda i: i + 1}
    return [
        {
            name if name == "episodes_finished" else f"{name}/speed": value(i) if callable(value) else value
            for name, value in (own | values).items()
        }
        for i in range(number)
    ]


def told(
    found: list[dict[str, Any]], spec: Spec = SPEC, policy: Any = None, algo: str = "focops", **options: Any
) -> Any:
    config = dataclasses.replace(default_config("CartPole-v1", algo), **options)
    return hints(config, spec, found, policy)


def test_a_run_without_trouble_has_no_hint():
    assert told(records(30)) == []
    assert told([]) == []


@pytest.mark.parametrize(("at_bound", "said"), [(0, False), (2, False), (3, True), (30, True)])
def test_nu_at_its_bound_for_a_tenth_of_the_run_is_said(at_bound: int, said: bool):
    found = told(records(30, nu=lambda i: 5.0 if i < at_bound else 4.9))
    assert [hint.startswith("ν of speed was at its bound of 5 in") for hint in found] == [True] * said
    assert all("try --algo.nu-max 10, or inf" in hint for hint in found)


def test_a_bound_that_float32_rounds_down_is_reached_too():
    algo = dataclasses.replace(default_config().algo, nu_max=0.7)
    assert (
        len(hints(dataclasses.replace(default_config(), algo=algo), SPEC, records(5, nu=0.699999988079071), None)) == 1
    )


def test_a_bound_of_zero_gives_the_cost_no_weight():
    algo = dataclasses.replace(default_config().algo, nu_max=0.0)
    (hint,) = hints(dataclasses.replace(default_config(), algo=algo), SPEC, records(5), None)
    assert hint == "ν of speed could not leave 0, so its cost had no weight: leave --algo.nu-max 0 out"


def test_no_finished_episode_in_many_batches_is_said_with_what_to_try():
    (hint,) = told(records(30, episodes_finished=0, cost_return_estimate=0.0))
    assert hint.startswith("no episode was finished in the last 30 batches, of 64 steps in each environment")
    assert "time limit (max_episode_steps" in hint
    (hint,) = told(records(30, episodes_finished=lambda i: min(i, 10)))
    assert "in the last 19 batches" in hint
    assert told(records(9, episodes_finished=0)) == []
    (hint,) = told(records(30, episodes_finished=0), fresh_episodes=True)
    assert "try a --batch-size above 2048" in hint


def test_episodes_that_are_longer_than_all_batches_are_no_reason_for_a_hint():
    spec = dataclasses.replace(SPEC, time_limit=1000)
    assert told(records(30, episodes_finished=0), spec) == []
    assert len(told(records(32, episodes_finished=0), spec)) == 1


def test_a_limit_that_no_policy_met_is_said():
    (hint,) = told(records(30, cost_return_estimate=lambda i: 60.0 - i))
    assert hint.startswith("no policy of the run met the limit 25 of speed: the lowest J_C was 31; try more --steps")
    assert told(records(40, cost_return_estimate=lambda i: 60.0 - i)) == []
    delivered = {"sampled": {"discounted_cost": {"speed": 24.0}}}
    assert told(records(30, cost_return_estimate=40.0), policy=delivered) == []
    (hint,) = told(records(30, cost_return_estimate=40.0), algo="ppo")
    assert hint.endswith("ppo does not look at costs: try --algo focops")


def test_an_estimate_from_before_the_first_episode_has_ended_does_not_count():
    found = records(
        30, cost_return_estimate=lambda i: 5.0 if i < 4 else 40.0, episodes_finished=lambda i: max(0, i - 3)
    )
    assert len(told(found)) == 1


def test_hints_are_in_the_summary_and_shown(tmp_path: Path):
    run = focops.train(Forever, out=tmp_path / "run", cost_limit=1, **OPTIONS | {"steps": 64 * 12})
    hint, *_ = run.summary["hints"]
    assert hint.startswith("no episode was finished in the last 12 batches")
    assert hint in summary_text(run.summary).plain
