"""What is shown while something is counted."""

import io

import pytest
from rich.console import Console

from focops.display import counter
from focops.display.counter import Counter


def test_without_a_terminal_there_is_a_line_now_and_then_on_standard_error(capsys, monkeypatch):
    monkeypatch.setattr(counter, "PLAIN_SECONDS", 0.0)
    with Counter("evaluating runs/grid", "runs") as shown:
        shown.update(0, 4, "seed=0")
        shown.update(2, 4, "seed=2")
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second, third = captured.err.splitlines()
    assert first == "evaluating runs/grid"
    assert second.startswith("0 of 4 runs")
    assert second.endswith("left –  seed=0")
    assert third.startswith("2 of 4 runs")


def test_lines_are_seconds_apart(capsys):
    with Counter("recording", "steps") as shown:
        for step in range(100):
            shown.update(step, 100)
    assert capsys.readouterr().err.splitlines() == ["recording"]


def test_a_terminal_has_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, highlight=False)
    monkeypatch.setattr(counter, "Console", lambda **_: console)
    monkeypatch.setenv("TERM", "xterm")
    with Counter("evaluating runs/grid", "runs") as shown:
        shown.update(3, 4, "seed=3")
    assert "3 of 4 runs" in stream.getvalue()
    assert "seed=3" in stream.getvalue()
