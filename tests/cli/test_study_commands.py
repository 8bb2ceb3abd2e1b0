"""`focops plot` and `focops report`."""

import sys
import webbrowser

import pytest

from focops import cli
from focops.cli import study_commands
from tests.studies.factory import make_grid, make_run


@pytest.fixture(autouse=True)
def screen(monkeypatch) -> list[str]:
    """What was opened; there is no screen unless a test says so."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return opened


def test_plot_draws_beside_the_runs_and_prints_a_table(tmp_path, capsys, screen):
    grid, other = make_grid(tmp_path / "grid"), make_run(tmp_path / "other", algorithm="cpo", done=20)
    assert cli.main(["plot", str(grid), str(other)]) == 0
    assert (grid / "plot.png").stat().st_size > 10_000
    out = capsys.readouterr().out
    assert "cpo     1 (1 not finished)" in out
    assert f"5 runs: 4 finished, 1 not finished; drawn in {grid}/plot.png\n" in out
    assert screen == []


def test_plot_says_of_a_run_without_an_episode_that_there_is_nothing_to_compare(tmp_path, capsys, screen):
    assert cli.main(["plot", str(make_run(tmp_path / "run", done=2))]) == 0
    assert "HopperSpeed-v0: no training episode has ended, so there is nothing to compare" in capsys.readouterr().out


def test_plot_names_the_runs_that_are_drawn_but_not_in_its_tables(tmp_path, capsys):
    make_run(tmp_path / "long")
    make_run(tmp_path / "short", done=2, algo={"temperature": 2.0})
    assert cli.main(["plot", str(tmp_path), "--out", str(tmp_path / "p.html")]) == 0
    line = "Not in the tables: focops · temperature 2: no training episode has ended."
    assert line in capsys.readouterr().out
    assert line in (tmp_path / "p.html").read_text()


def test_plot_takes_what_the_shell_makes_of_a_star(tmp_path, capsys):
    grid = make_grid(tmp_path / "grid", seeds=2)
    assert cli.main(["plot", str(grid)]) == 0  # leaves a picture there
    assert cli.main(["plot", *map(str, sorted(grid.iterdir()))]) == 0
    assert "2 runs: 2 finished; drawn in" in capsys.readouterr().out.splitlines()[-1]


def test_plot_shows_what_it_draws_where_there_is_a_screen(tmp_path, capsys, screen, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    run = make_run(tmp_path / "run")
    assert cli.main(["plot", str(run)]) == 0
    assert screen == [(run / "plot.png").as_uri()]
    assert "which is shown" in capsys.readouterr().out
    assert cli.main(["plot", str(run), "--out", str(tmp_path / "x.svg")]) == 0
    assert len(screen) == 1


def test_plot_makes_a_page_with_the_axis_asked_for(tmp_path):
    assert cli.main(["plot", str(make_run(tmp_path / "run")), "--x", "time", "--out", str(tmp_path / "p.html")]) == 0
    assert '"xAxis": "time"' in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plot"], "RUN is missing"),
        (["plot", "{run}", "--out", "x.gif"], "must be .png, .svg, .pdf or .html"),
        (["report", "{run}", "--out", "x.pdf"], "its ending must be .html"),
        (["report", "{run}", "--out", "{run}/config.json/x.html"], "give another --out"),
        (["plot", "missing"], "missing is no directory"),
    ],
)
def test_wrong_usage_has_a_message(words, message, tmp_path, capsys):
    run = make_run(tmp_path / "run")
    assert cli.main([word.format(run=run) for word in words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_run_that_cannot_be_read_is_named_and_left_out(tmp_path, capsys):
    make_grid(tmp_path, seeds=2)
    (tmp_path / "seed=0" / "config.json").write_text("{")
    assert cli.main(["plot", str(tmp_path)]) == 0
    assert "cannot be read and is left out" in " ".join(capsys.readouterr().err.split())
    assert cli.main(["plot", str(tmp_path / "seed=0")]) == 2
    assert "no run can be read" in " ".join(capsys.readouterr().err.split())


def test_without_plotly_a_page_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert cli.main(["report", str(make_run(tmp_path / "run"))]) == 2
    assert "pip install 'focops[plot]'" in capsys.readouterr().err


def test_report_writes_a_page_and_a_folder_of_figures_and_tables(tmp_path, capsys):
    make_grid(tmp_path / "hopper")
    make_grid(tmp_path / "ant", task="AntSpeed-v0")
    assert cli.main(["report", str(tmp_path)]) == 0
    assert "8 runs: 8 finished" in capsys.readouterr().out
    assert {file.name for file in (tmp_path / "report").iterdir()} == {
        "AntSpeed-v0.png", "AntSpeed-v0.svg", "HopperSpeed-v0.png", "HopperSpeed-v0.svg", "tables.md", "tables.tex",
    }  # fmt: skip
    assert "## HopperSpeed-v0" in (tmp_path / "report" / "tables.md").read_text()
    assert (tmp_path / "report" / "tables.tex").read_text().count(r"\begin{tabular}") == 2 + 2 + 1
    assert '"refreshSeconds": null' in (tmp_path / "report.html").read_text()


def test_a_watched_report_refreshes_until_no_run_is_in_progress(tmp_path, monkeypatch, capsys):
    make_run(tmp_path / "a", done=20)
    pages = []

    def wait(_: float) -> None:
        pages.append((tmp_path / "report.html").read_text())
        (tmp_path / "a" / "failure.safetensors").touch()  # the run ends

    monkeypatch.setattr(study_commands.time, "sleep", wait)
    assert cli.main(["report", str(tmp_path), "--watch"]) == 0
    assert ['"refreshSeconds": 10.0' in page for page in pages] == [True]
    assert '"refreshSeconds": null' in (tmp_path / "report.html").read_text()
    assert "1 run: 1 not finished → " in capsys.readouterr().out


def test_ctrl_c_ends_the_watch_with_a_last_page(tmp_path, monkeypatch):
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    make_run(tmp_path / "a", done=20)
    monkeypatch.setattr(study_commands.time, "sleep", interrupt)
    assert cli.main(["report", str(tmp_path), "--watch"]) == 130
    assert '"refreshSeconds": null' in (tmp_path / "report.html").read_text()
