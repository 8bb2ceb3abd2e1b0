"""What is shown while the runs of a grid or a study train."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from focops.cli.engines import Job
from focops.display.grid import GridLines, GridTable, TotalPace, heading


def record(seed: int, cost: float | None = None, samples: int = 500) -> dict[str, Any]:
    return {
        "samples": samples, "steps": 1000, "samples_per_second": 10.0, "return_mean": 100.0 + seed, "nu/speed": 0.5,
        "cost_limit/speed": 20.0, "discounted_cost_mean/speed": cost, "cost_return_estimate/speed": 19.0,
    }  # fmt: skip


def job(seed: int, state: Any = "running", **fields: Any) -> Job:
    own = {"what": "T · focops", "steps": 1000, "latest": record(seed)} | fields
    return Job(f"seed={seed}", Path("grid") / f"seed={seed}", [], state=state, **own)


def shown(jobs: list[Job], height: int = 60) -> str:
    """The table on a terminal, while they run."""
    display = GridTable(Path("grid"), jobs, Console(file=io.StringIO(), force_terminal=True, width=120, height=height))
    console = Console(file=io.StringIO(), width=120)
    console.print(display._render())
    return console.file.getvalue()


def test_a_terminal_shows_all_runs_in_a_line_and_as_many_in_rows_as_fit():
    said = shown([job(seed, latest=record(seed, cost=21.0 if seed < 3 else 19.0)) for seed in range(15)], height=18)
    assert "15 runs: 15 running" in said
    assert "T · focops  return 107.0 ± 4.32  speed 19.4 ± 0.8 (limit 20, 3 of 15 over, ν 0.5 ± 0)" in said
    assert "seed=11" in said
    assert "seed=12" not in said
    assert "and 3 more" in said


def test_runs_of_several_tasks_have_no_mean():
    said = shown([job(0), job(1, what="Other · focops")])
    assert "±" not in said
    assert "seed=1" in said


def test_before_the_first_iteration_a_run_is_starting():
    assert "starting" in shown([job(0, latest=None)])


def test_the_rate_and_the_time_left_are_of_all_runs_together():
    jobs = [
        job(0, latest=record(0, samples=0)),
        job(1, latest=None),
        job(2, "waiting", latest=None),
        job(3, "done"),
        job(4, "failed"),
    ]
    pace = TotalPace(jobs)
    for now in (0.0, 60.0):  # it compiles for a minute
        pace.update(now)
    assert (pace.rate, pace.left) == (None, None)
    jobs[0].latest = record(0, samples=200)
    jobs[1].latest = record(1, samples=300)
    pace.update(70.0)
    assert pace.rate == pytest.approx(500 / 10)
    assert pace.left == pytest.approx((800 + 700 + 1000) / 50)  # neither what is done nor what has failed
    assert heading(jobs, pace).plain == "5 runs: 2 running, 1 done, 1 failed, 1 waiting · 50/s · left 0:50"


def test_elsewhere_there_is_a_line_now_and_then_and_none_if_quiet(capsys: pytest.CaptureFixture[str]):
    jobs = [job(0), job(1, "waiting", latest=None)]
    GridLines(Path("grid"), jobs, every_s=0.0).update()
    said = capsys.readouterr().out
    assert said.startswith("2 runs: 1 running, 1 waiting · –/s · left –")
    GridLines(Path("grid"), jobs).update("compiling")
    assert capsys.readouterr().out == ""
