"""`focops solve` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pytest

from focops import cli
from focops.tabular import garnet, gridworld, load, queue, save, solve_lp

pytest.importorskip("matplotlib")


def test_the_optimum_is_printed_with_values_multipliers_and_what_binds(tmp_path, capsys):
    save(queue(limits=(200.0, 7.0)), tmp_path / "q.json")
    assert cli.main(["solve", str(tmp_path / "q.json")]) == 0
    printed = capsys.readouterr().out
    solution = solve_lp(queue(limits=(200.0, 7.0)))
    assert f"J = {solution.ret:.6g}" in printed
    delay, effort = (
        next(line for line in printed.splitlines() if line.startswith(name)) for name in ("delay", "effort")
    )
    assert delay.split()[1:4] == [f"{solution.cost_return[0]:.6g}", "200", "no"]
    assert effort.split()[2:] == ["7", "yes", f"{solution.nu[1]:.6g}"]
    assert "randomises in 1 state\n" in printed


def test_a_grid_is_drawn(tmp_path, capsys):
    (tmp_path / "g.json").write_text(json.dumps({"grid": ["S.H", "..G"], "limit": 0.05}))
    assert cli.main(["solve", str(tmp_path / "g.json"), "--plot", str(tmp_path / "g.png")]) == 0
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    assert "0 S (0, 0)" in capsys.readouterr().out


def test_an_example_can_be_saved_and_solved_again(tmp_path, capsys):
    assert cli.main(["solve", "random", "--save", str(tmp_path / "r.json")]) == 0
    first = capsys.readouterr().out
    assert cli.main(["solve", str(tmp_path / "r.json")]) == 0
    assert capsys.readouterr().out == first
    np.testing.assert_array_equal(load(tmp_path / "r.json").limits, garnet(8, 3, 2, tightness=0.85).limits)


def test_of_many_states_the_most_visited_are_printed(tmp_path, capsys):
    save(garnet(50, 2, 1), tmp_path / "many.json")
    cli.main(["solve", str(tmp_path / "many.json")])
    assert "the 40 most visited of 50 states" in capsys.readouterr().out
    cli.main(["solve", str(tmp_path / "many.json"), "--all"])
    assert "most visited" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.json"], "there is no file 'nowhere.json'; give a JSON file, or one of the examples"),
        (["queue", "--plot", "q.png"], "--plot draws gridworlds, and queue has no grid"),
        (["gridworld", "--plot", "g.nothing"], "give a .png, .svg or .pdf file"),
        (["still.json", "--plot", "s.png"], "--plot draws the 4 moves of a gridworld, and still.json has 1 action(s)"),
        (["tight.json"], "infeasible: no policy keeps effort ≤ 1; the least possible is 4. Raise that limit"),
    ],
)
def test_what_cannot_be_solved_or_drawn_is_said_with_status_2(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save(queue(limits=(50.0, 1.0)), "tight.json")
    Path("still.json").write_text(json.dumps(PROBLEM | {"grid": ["S#"]}))
    assert cli.main(["solve", *words]) == 2
    printed = capsys.readouterr()
    assert message in " ".join((printed.out + printed.err).split())


PROBLEM = {"transition": [[[1]]], "reward": [[1]], "cost": [[[1]]], "start": [1], "limits": [9], "discount": 0.5}
HUGE = 10**400


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "is not JSON"),
        ("9" * 5000, "is not JSON"),
        (json.dumps(PROBLEM | {"names": [1]}), "names is [1]; it must be a list of strings"),
        (json.dumps(PROBLEM | {"action_names": 5}), "action_names is 5; it must be a list of strings"),
        (json.dumps(PROBLEM | {"grid": [7]}), "grid is [7]; it must be a list of strings"),
        (json.dumps(PROBLEM | {"grid": [""]}), "grid has 0 cell(s) that are no walls, there are 1 states"),
        (json.dumps(PROBLEM | {"grid": ["SG"]}), "grid has 2 cell(s) that are no walls, there are 1 states"),
        (json.dumps(PROBLEM | {"grid": ["S", "##"]}), "a grid must be rows of equal length"),
        (json.dumps({"grid": ["S.", "G"]}), "a grid must be rows of equal length"),
        (json.dumps({"grid": []}), "the grid is empty; give its rows"),
        (json.dumps(PROBLEM | {"reward": [[HUGE]]}), "a number is too large"),
        (json.dumps(PROBLEM | {"discount": HUGE}), "a number is too large"),
        (json.dumps(PROBLEM | {"transition": {"row": [HUGE], "next": [0], "probability": [1]}}), "problem.json: "),
        (json.dumps(PROBLEM | {"transition": {"row": [0], "next": [0], "probability": [HUGE]}}), "problem.json: "),
        (json.dumps({"grid": ["SG"], "limit": HUGE}), "problem.json: "),
        (json.dumps({"grid": ["SG"], "discount": HUGE}), "problem.json: "),
        (json.dumps({"grid": [7]}), "the grid cannot be read"),
    ],
)
def test_a_strangers_problem_is_refused_with_a_message(text, message, tmp_path, capsys):
    (tmp_path / "problem.json").write_text(text)
    assert cli.main(["solve", str(tmp_path / "problem.json")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_problem_that_cannot_be_saved_says_so(tmp_path, capsys):
    assert cli.main(["solve", "random", "--save", str(tmp_path / "no" / "r.json")]) == 2
    assert "cannot be written (No such file or directory); name another file with --save" in capsys.readouterr().err


def test_the_lower_the_limit_the_lower_the_return():
    returns = [solve_lp(gridworld(["S.H.G", "....."], limit=limit)).ret for limit in (0.05, 0.2, 0.5, 2.0)]
    assert returns == sorted(returns)
    assert returns[0] < returns[-1] - 0.01
