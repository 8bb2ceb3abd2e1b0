"""`focops study` and `focops studies`, as a user runs them."""

import json

import pytest

from focops import cli
from focops.cli import engines
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


def test_limits_are_shares_of_what_ppo_costs_and_stay_when_seeds_are_added(mine, tmp_path, capsys):
    base, small = tmp_path / "out", MINE.replace("evaluate_best", "#").replace("1, 100", "0.5")
    (tmp_path / "plain.toml").write_text(small.replace('"focops"', '"ppo"').replace("limit_shares", "#"))
    (tmp_path / "half.toml").write_text(small.replace("[set]", 'limits_of = "ppo"\n[set]'))
    assert cli.main(["study", str(tmp_path / "plain.toml"), "--out", str(base), "--seeds", "1"]) == 0
    before = times(base)
    words = ["study", str(tmp_path / "half.toml"), "--out", str(base)]
    assert cli.main([*words, "--seeds", "1"]) == 0
    assert before.items() <= times(base).items()  # PPO's run is used as it is
    summary = RunDirectory(base / "PointCircle,ppo,seed=0").summary
    assert summary
    limit = pytest.approx(0.5 * summary["discounted_cost_mean"]["outside"], rel=1e-6)
    assert cli.main(words) == 0
    runs = [f"PointCircle,focops,limit=0.5,seed={seed}" for seed in range(2)]
    assert [RunDirectory(base / name).config.cost_limit for name in runs] == [(limit,)] * 2
    assert "limits of PointCircle: 0.5 of" in capsys.readouterr().out


def test_a_task_without_measured_costs_is_left_out_and_named(mine, tmp_path, capsys):
    base, text = tmp_path / "out", MINE.replace("evaluate_best", "#").replace("[set]", 'limits_of = "ppo"\n[set]')
    (tmp_path / "short.toml").write_text(text.replace("1024", "64").replace("512", "64").replace("256", "64"))
    assert cli.main(["study", str(tmp_path / "short.toml"), "--out", str(base), "--seeds", "1"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "PointCircle is left out: a ppo run of 64 samples ended without an episode; give more --steps" in said
    assert [path.name for path in base.glob("Point*")] == ["PointCircle,ppo,seed=0"]


def test_runs_begun_on_the_cpu_end_there_and_the_others_follow_the_engine(mine, tmp_path, monkeypatch, capsys):
    base, one = tmp_path / "out", ["study", mine, "--out", str(tmp_path / "out"), "--steps", "512"]
    assert cli.main([*one, "--seeds", "1"]) == 0
    (base / "PointCircle,focops,limit=1,seed=0" / "summary.json").unlink()
    jobs: list[engines.Job] = []
    monkeypatch.setattr(engines, "run", lambda base, given, *_: jobs.extend(given) or 1)
    assert cli.main([*one, "--seeds", "2", "--engine", "gpu"]) == 1
    assert {job.name: (job.backend, job.state) for job in jobs} == {
        "PointCircle,focops,limit=1,seed=0": ("cpu", "waiting"),
        "PointCircle,focops,limit=1,seed=1": ("mjx", "waiting"),
        "PointCircle,focops,limit=100,seed=0": ("cpu", "done"),
        "PointCircle,focops,limit=100,seed=1": ("mjx", "waiting"),
    }
    assert "note: PointCircle,focops,limit=1,seed=0 began on another backend" in capsys.readouterr().err
    jobs.clear()  # a part of the study is only that part
    assert cli.main([*one, "--seeds", "0..0"]) == 1
    assert len(jobs) == 2
    assert cli.main([*one[:-1], "1k", "--seeds", "1"]) == 2
    assert "limit=1,seed=0 was begun with --steps 512, now it is 1000: ask for the same" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--address 10.0.0.1:6379", "--address is 10.0.0.1:6379, of a Ray cluster: add --engine ray"),
        ("--engine ray --address ray://there:10001", "must be HOST:PORT of the cluster's head"),
        ("--engine ray --address 127.0.0.1:9", "no Ray cluster answers at 127.0.0.1:9"),
        ("--jobs -1", "--jobs is -1"),
        ("--seeds 0", "--seeds is 0; give their number, ≥ 1"),
    ],
)
def test_an_engine_that_cannot_work_is_explained(mine, tmp_path, capsys, flags, message):
    assert cli.main(["study", mine, "--out", str(tmp_path / "out"), *flags.split()]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


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
