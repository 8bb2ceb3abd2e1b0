"""`focops study` and `focops studies`, as a user runs them."""

import json

import pytest

from focops import cli
from focops.runs.directory import RunDirectory

MINE = """
title = "Mine"
tasks = ["PointCircle"]
algorithms = ["focops"]
steps = 1024
seeds = 2
limit_shares = [1, 100]
evaluate_best = "paper"
[set]
"batch-size" = 512
"num-envs" = 4
"algo.minibatch-size" = 256
"algo.hidden" = 4
"algo.epochs" = 1
"final-episodes" = 0
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    return str(tmp_path / "mine.toml")


def times(base) -> dict[str, float]:
    return {path.parent.name: path.stat().st_mtime_ns for path in base.glob("*/summary.json")}


def test_a_study_trains_goes_on_grows_and_repeats_nothing(mine, tmp_path, capsys):
    base = tmp_path / "out"
    assert cli.main(["study", mine, "--out", str(base), "--seeds", "1"]) == 0
    first = times(base)
    assert sorted(first) == ["PointCircle,focops,limit=1,seed=0", "PointCircle,focops,limit=100,seed=0"]
    assert cli.main(["study", mine, "--out", str(base)]) == 0
    after = times(base)
    assert len(after) == 4
    assert {name: after[name] for name in first} == first
    assert json.loads((base / "study.json").read_text())["seeds"] == "0..1"
    limits = {str(RunDirectory(base / name).config.cost_limit) for name in after}
    assert limits == {"None", "(500.0,)"}  # 1 is the task's own
    # of the limit that every policy keeps the best seed was evaluated, by the paper's protocol
    evaluated = json.loads((base / "evaluation.json").read_text())
    assert all(each["episodes"] == 100 for each in evaluated)
    assert "limit=100" in str(evaluated)
    assert "4 runs" in capsys.readouterr().out


def test_a_run_begun_with_another_engine_is_not_mixed_in(mine, tmp_path, capsys):
    base = tmp_path / "out"
    assert cli.main(["study", mine, "--out", str(base), "--seeds", "1"]) == 0
    assert cli.main(["study", mine, "--out", str(base), "--seeds", "1", "--engine", "gpu"]) == 2
    assert "was begun with --engine local" in capsys.readouterr().err


def test_what_cannot_be_trained_is_refused_before_anything_is_written(mine, tmp_path, capsys):
    base = tmp_path / "out"
    assert cli.main(["study", mine, "--out", str(base), "--tasks", "PointCirle"]) == 2
    assert cli.main(["study", mine, "--out", str(base), "--steps", "0"]) == 2
    assert cli.main(["study", "spede-limit"]) == 2
    said = capsys.readouterr().err
    assert "did you mean PointCircle" in said
    assert "--steps is 0" in said
    assert not base.exists()


def test_studies_lists_them_with_their_size(capsys):
    assert cli.main(["studies"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("speed-limit", "velocity", "300M"))
    assert cli.main(["studies", "x"]) == 2
