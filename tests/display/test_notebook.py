"""What `focops.train` shows by itself: in a notebook, in a terminal, and nothing elsewhere."""

import io
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import focops
from focops.display import notebook
from focops.display.notebook import display_for
from focops.display.progress import LiveDisplay, PlainDisplay
from tests.resume.tiny import OPTIONS, OURS

TINY = OPTIONS | {"steps": 64 * 2}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Mine:
    """A display of one's own."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def start(self, config: Any, spec: Any) -> None:
        self.seen.append(config.task)

    def update(self, record: dict[str, Any]) -> None:
        self.seen.append(record["samples"])

    def stop(self) -> None:
        self.seen.append("stop")


def test_a_notebook_shows_the_display_as_one_output_and_the_figure_of_the_run(tmp_path: Path) -> None:
    cells = [
        f"import focops\nrun = focops.train({OURS!r}, out='run', **{TINY!r})",
        "run.plot()",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    trained, plotted = (cell["outputs"] for cell in book.cells)
    display, *summary = [output["data"] for output in trained if output["output_type"] == "display_data"]
    assert [output for output in trained if output["output_type"] == "stream"] == []
    assert "128 of 128" in display["text/plain"]
    assert re.search(r"return.*KL.*epochs", display["text/plain"])
    assert "128 of 128" in re.sub(r"<[^>]+>", "", display["text/html"])
    assert "training mean" in "".join(data["text/plain"] for data in summary)
    assert "image/png" in plotted[-1]["data"]


def test_by_default_a_terminal_shows_it_and_a_file_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert display_for(None) is None
    assert isinstance(display_for(True), PlainDisplay)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", Terminal())
    assert isinstance(display_for(None), LiveDisplay)
    assert display_for(False) is None
    monkeypatch.setattr("sys.stdout", None)
    assert display_for(None) is None


def test_true_prints_lines_and_the_summary_where_there_is_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = focops.train(OURS, out=tmp_path / "shown", display=True, **TINY)
    shown = capsys.readouterr().out
    assert "128/128" in shown
    assert "training mean" in shown
    focops.resume(run.path, steps=192)
    assert capsys.readouterr().out == ""


def test_a_display_of_ones_own_is_called_and_nothing_else_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = Mine()
    focops.train(OURS, out=tmp_path / "run", display=mine, **TINY)
    assert mine.seen == [OURS, 64, 128, "stop"]
    assert capsys.readouterr().out == ""


def test_what_is_no_display_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(focops.UsageError, match=r"display is 'yes', which has no start\(\); it must be True, False"):
        focops.train(OURS, out=tmp_path / "run", display="yes", **TINY)
    assert not (tmp_path / "run").exists()


def test_a_note_is_shown_until_the_next_output(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    display = notebook.NotebookDisplay()
    display._live.draw = lambda: shown.append(display._bundle()["text/plain"])
    display.note("slow here")
    assert "slow here" in shown[0]
