"""What is shown while many runs train as one program."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from focops.display.many_runs import ManyRunsLines, ManyRunsTable

CONFIGS = [
    SimpleNamespace(task="T", algorithm="focops", preset="fast", out=Path(f"grid/seed={seed}")) for seed in range(15)
]


def record(seed: int, cost: float | None = None) -> dict[str, Any]:
    return {
        "samples": 500, "steps": 1000, "samples_per_second": 10.0, "return_mean": 100.0 + seed, "nu/speed": 0.5,
        "cost_limit/speed": 20.0, "discounted_cost_mean/speed": cost, "cost_return_estimate/speed": 19.0,
    }  # fmt: skip


def shown(records: list[dict[str, Any] | None]) -> str:
    """The table on a terminal, in the end."""
    stream = io.StringIO()
    table = ManyRunsTable("", Console(file=stream, force_terminal=True, width=120, height=60))
    table.start(CONFIGS, None)
    for _ in range(2):  # the first iteration has no rate: it compiles
        table.update(records)
    table.stop()
    return stream.getvalue()


def test_a_terminal_shows_all_runs_in_a_line_and_the_first_in_rows():
    said = shown([record(seed, cost=21.0 if seed < 3 else 19.0) for seed in range(15)])
    assert "15 runs · T · focops · fast → grid" in said
    assert "150/s" in said
    assert "return 107.0 ± 4.32" in said
    assert "3 of 15 over" in said
    assert "seed=11" in said
    assert "seed=12" not in said
    assert "and 3 more" in said


def test_the_row_of_a_run_that_failed_is_gone_and_the_others_keep_their_names():
    said = shown([None if seed == 0 else record(seed) for seed in range(15)])
    assert "seed=0 " not in said
    line = next(line for line in said.splitlines() if "seed=1 " in line)
    assert "101.0" in line


def test_before_the_first_iteration_it_says_that_it_compiles_and_nothing_fails_if_no_run_is_left():
    assert "compiling" in shown([None] * 15)


def test_elsewhere_the_first_and_the_last_iteration_are_lines():
    stream = io.StringIO()
    lines = ManyRunsLines("program 1 of 2: ", stream, 1000.0)
    lines.start(CONFIGS[:2], None)
    for samples in (100, 200, 300):
        rate = 0.01 if samples == 100 else 10.0  # the first iteration compiles
        lines.update([record(seed) | {"samples": samples, "samples_per_second": rate} for seed in range(2)])
    lines.stop()
    first, second, last = stream.getvalue().splitlines()
    assert first.startswith("program 1 of 2: 2 runs")
    assert second.startswith("100/1k each  –/s  left –  ")
    assert last.startswith("300/1k each  20/s  left 1:10  ")
