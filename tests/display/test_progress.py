"""What a user sees of a run."""

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from focops.display.progress import LiveDisplay, Pace, PlainDisplay, QuietDisplay, clock, count, line, number
from focops.display.summary import policy_line, shares, summary_text

ALGO = SimpleNamespace(network=None)
CONFIG = SimpleNamespace(task="HopperSpeed-v0", algorithm="focops", algo=ALGO, preset="fast", seed=3, out=None)


def record(iteration: int, **changes: Any) -> dict[str, Any]:
    return {
        "iteration": iteration, "samples": iteration * 2048, "steps": 20480, "samples_per_second": 1000.0,
        "return_mean": 123.456, "episode_length_mean": 1000.0, "kl": 0.0123, "trust_region": 0.02, "epochs": 7,
        "entropy": 1.5, "diverged": 0, "cost_limit/speed": 82.7, "cost_return_estimate/speed": 90.5,
        "discounted_cost_mean/speed": 80.25, "undiscounted_cost_mean/speed": 400.0, "nu/speed": 0.625,
    } | changes  # fmt: skip


def shown(display_record: dict[str, Any], width: int = 80) -> str:
    """The live display's last frame, as plain text."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    display = LiveDisplay(console)
    display.start(CONFIG, None)
    display.update(display_record)
    display.stop("the end")
    return console.file.getvalue()


def found(cost: float, verdict: str) -> dict[str, Any]:
    """One of the two evaluations of a policy."""
    return {
        "episodes": 50, "reward": 13.5, "discounted_cost": {"speed": cost}, "undiscounted_cost": {"speed": 5 * cost},
        "cost_limit": {"speed": 82.7}, "verdict": {"speed": verdict},
    }  # fmt: skip


def policy(sampled: str = "violated", mean_action: str = "violated") -> dict[str, Any]:
    return {"sampled": found(90.5, sampled), "mean_action": found(101.25, mean_action)}


def test_plain_lines_come_first_last_and_seldom_between() -> None:
    stream = io.StringIO()
    display = PlainDisplay(stream, every_s=1000)
    display.start(CONFIG, None)
    for iteration in range(1, 11):
        display.update(record(iteration))
    display.stop()
    lines = stream.getvalue().splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["2.05k/20.5k", "20.5k/20.5k"]


def test_the_last_plain_line_is_not_repeated() -> None:
    stream = io.StringIO()
    display = PlainDisplay(stream, every_s=0)
    display.start(CONFIG, None)
    display.update(record(1))
    display.stop("the end")
    assert len(stream.getvalue().splitlines()) == 3


def test_a_plain_line_names_cost_estimate_limit_and_multiplier() -> None:
    stream = io.StringIO()
    display = PlainDisplay(stream)
    display.update(record(1))
    assert "speed 80.25 (J_C 90.5, limit 82.7, ν 0.625)" in stream.getvalue()
    assert "return 123.5" in stream.getvalue()


def test_what_is_aimed_at_is_shown_where_a_margin_puts_it_below_the_limit() -> None:
    assert "limit 82.7, aim 80.5, ν 0.625" in line(record(1, **{"cost_aim/speed": 80.5}), Pace())
    assert "limit 82.7, ν 0.625" in line(record(1, **{"cost_aim/speed": float(np.float32(82.7))}), Pace())
    assert "82.7, aim 80.5" in shown(record(1, **{"cost_aim/speed": 80.5}))
    assert "speed aimed at 80.5 (margin auto)" in summary(margin="auto", cost_aim={"speed": 80.5})
    assert "aimed" not in summary(margin="auto", cost_aim={"speed": float(np.float32(82.7))})


def test_quiet_prints_one_line() -> None:
    stream = io.StringIO()
    display = QuietDisplay(stream)
    display.start(CONFIG, None)
    for iteration in range(1, 11):
        display.update(record(iteration))
    display.stop()
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("text", ["return 123.5", "20.5k of 20.5k", "KL 0.0123 of 0.02", "epochs 7", "0.625", "within"])
def test_the_live_display_shows(text: str) -> None:
    assert text in shown(record(10))


def test_the_live_display_fits_80_columns() -> None:
    frame = shown(record(10, samples_per_second=123456.0, return_mean=-12345.678))
    assert max(len(line) for line in frame.splitlines()) <= 80


def test_a_cost_beyond_its_limit_is_called_over() -> None:
    assert "over" in shown(record(10, **{"discounted_cost_mean/speed": 82.8}))


def test_nothing_ended_yet_is_a_dash_and_judged_by_the_estimate() -> None:
    frame = shown(record(1, return_mean=None, **{"discounted_cost_mean/speed": None}))
    assert "return –" in frame
    assert "over" in frame


def test_the_first_iteration_does_not_spoil_the_rate() -> None:
    pace = Pace()
    pace.update(record(1, samples_per_second=10.0))
    assert pace.left(record(1)) is None
    pace.update(record(2, samples_per_second=1000.0))
    assert pace.left(record(2)) == pytest.approx((20480 - 2 * 2048) / 1000)


def test_a_display_that_never_started_stops() -> None:
    LiveDisplay(Console(file=io.StringIO())).stop()


def summary(**changes: Any) -> str:
    values = {
        "task": "HopperSpeed-v0", "algo": "focops", "seed": 3, "steps": 20480, "wall_s": 75.0,
        "steps_per_second": 273.0, "return_mean": 12.5,
        "cost_limit": {"speed": 82.7}, "discounted_cost_mean": {"speed": 80.25},
        "undiscounted_cost_mean": {"speed": 400.0}, "out": "runs/here",
    } | changes  # fmt: skip
    console = Console(file=io.StringIO(), width=80)
    console.print(summary_text(values, ["focops resume runs/here"]))
    return console.file.getvalue()


def test_the_summary_tells_the_training_mean_the_policy_and_its_mean_action_apart() -> None:
    said = summary(policy=policy())
    training, delivered = said[: said.index("  policy")], said[said.index("  policy") :]
    assert "training mean  return 12.5 (last 100 episodes)" in training
    assert "cost speed 80.25, limit 82.7: within   (undiscounted 400.0)" in training
    assert "return 13.5 (50 episodes, sampled actions)" in delivered
    assert "cost speed 90.5, limit 82.7: violated   (undiscounted 452.5)" in delivered
    assert "cost speed 101.2, limit 82.7: violated   (undiscounted 506.2)" in delivered
    assert "return 12.5 (last 7 episodes)" in summary(training_episodes=7)
    assert "over" in summary(discounted_cost_mean={"speed": 82.8})
    assert "focops resume runs/here" in said


def test_a_training_mean_within_its_limit_is_never_called_satisfied() -> None:
    assert "satisfied" not in summary(policy=policy())
    assert "satisfied" not in summary(policy=None, not_evaluated="--final-episodes is 0")
    assert "policy         not evaluated: --final-episodes is 0" in summary(not_evaluated="--final-episodes is 0")


def test_a_line_and_the_shares_of_many_runs_are_of_the_delivered_policies() -> None:
    assert policy_line({"policy": policy("undecided")}) == (
        "policy return 13.5, speed 90.5, limit 82.7: undecided; mean action return 13.5, speed 101.2, limit 82.7:"
        " violated (50 episodes each)"
    )
    runs = [{"policy": policy(each)} for each in ("satisfied", "satisfied", "violated", "undecided")]
    assert shares([*runs, {"policy": None}]) == (
        "delivered policies: 50% satisfied (2), 25% undecided (1), 25% violated (1);"
        " their mean actions: 0% satisfied (0), 0% undecided (0), 100% violated (4); 1 not evaluated"
    )
    assert shares([{"policy": None}]) == ""


def test_displays_say_that_the_policy_is_being_evaluated() -> None:
    stream = io.StringIO()
    for display in (PlainDisplay(stream), QuietDisplay(stream)):
        display.note("evaluating the policy")
        display.stop()
    assert stream.getvalue() == "evaluating the policy\n"
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    live = LiveDisplay(console)
    live.start(CONFIG, None)
    live.note("evaluating the policy")
    console.print(live._render())
    assert "evaluating the policy" in console.file.getvalue()
    live.stop()


def test_a_summary_without_an_episode_says_so() -> None:
    none = {"speed": None}
    assert "no training episode has ended" in summary(
        return_mean=None, discounted_cost_mean=none, undiscounted_cost_mean=none
    )


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (7, "7"), (0.01234567, "0.01235"), (-1234.56, "-1234.6")])
def test_numbers_have_about_four_digits(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (999, "999"), (614400, "614k"), (1_500_000, "1.5M")])
def test_counts_are_short(value: int | None, text: str) -> None:
    assert count(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(None, "–"), (75.4, "1:15"), (3600, "1:00:00"), (0, "0:00")])
def test_times_read_as_a_clock(seconds: float | None, text: str) -> None:
    assert clock(seconds) == text
