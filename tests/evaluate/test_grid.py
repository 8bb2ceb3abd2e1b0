"""Many runs evaluated at once: one after the other on the CPU, or as one program on MJX."""

import dataclasses
import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import focops
from focops import api as runs
from focops import cli
from focops.cli import evaluation_table
from focops.evaluation import Estimate, Evaluation, device, judge
from focops.runs import directory
from tests.resume.tiny import OURS, tiny

NAMES = ["seed=2", "seed=10", "seed=1"]
LIMITS = [0.0, 5.0, 1000.0]


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals, which no verdict depends on, from fewer resamples."""
    monkeypatch.setattr(judge, "RESAMPLES", 99)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs in an order of their own, with different limits."""
    base = tmp_path_factory.mktemp("grid")
    for name, limit in zip(NAMES, LIMITS, strict=True):
        runs.run(tiny(OURS, base / name, iterations=2, seed=int(name[5:]), cost_limit=(limit,)))
    (base / "grid.json").write_text(json.dumps({"runs": [{"name": name, "words": []} for name in NAMES]}))
    return base


def test_before_each_run_it_is_told_how_many_are_done(grid: Path) -> None:
    told: list[tuple[int, int, str]] = []
    focops.evaluate_all(grid, episodes=2, progress=lambda *what: told.append(what))
    assert told == [(i, 3, str(grid / name)) for i, name in enumerate(NAMES)]


def test_every_run_of_a_grid_is_evaluated_as_it_is_alone(grid: Path) -> None:
    together = focops.evaluate_all(grid, episodes=40)
    assert together == [focops.evaluate(grid / name, episodes=40) for name in NAMES]


def test_as_one_program_the_runs_have_the_means_of_the_cpu(grid: Path) -> None:
    cpu, mjx = (focops.evaluate_all(grid, episodes=200, backend=each) for each in ("cpu", "mjx"))
    for a, b in zip(cpu, mjx, strict=True):
        for x, y in ((a.reward, b.reward), *zip(costs(a), costs(b), strict=True)):
            assert abs(x.mean - y.mean) <= 4 * np.hypot(x.std, y.std) / 200**0.5
        assert (a.run, a.iteration, a.episodes, a.seeds) == (b.run, b.iteration, b.episodes, b.seeds)
        assert (a.backend, a.physics, b.backend, b.physics) == ("cpu", "float64", "mjx", "float32")


def costs(result: Evaluation) -> list[Estimate]:
    return [x for c in result.constraints.values() for x in (c.discounted_cost, c.undiscounted_cost)]


@pytest.mark.parametrize("backend", ["cpu", "mjx"])
def test_each_run_is_judged_by_its_own_limit(grid: Path, backend) -> None:
    results = focops.evaluate_all(grid, episodes=200, backend=backend)
    assert [result.constraints["outside"].limit for result in results] == LIMITS
    assert results[0].constraints["outside"].verdict == "violated"
    assert results[2].constraints["outside"].verdict == "satisfied"


def test_runs_with_other_networks_are_another_program(
    grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = runs.run(tiny(OURS, tmp_path / "wide", iterations=2, algo={"hidden": (4, 4)})).path
    sizes = []
    run = device.run_episodes
    monkeypatch.setattr(device, "run_episodes", lambda *a, **k: sizes.append(len(a[4].count)) or run(*a, **k))
    paths = [grid / NAMES[0], wide, grid / NAMES[1], grid / NAMES[2]]
    assert [result.run for result in focops.evaluate_all(paths, episodes=200, backend="mjx")] == list(map(str, paths))
    assert sizes == [3, 1]


def test_a_run_named_twice_counts_once(grid: Path) -> None:
    assert len(focops.evaluate_all([grid / NAMES[1], grid, grid / "." / NAMES[0]], episodes=2)) == 3


@pytest.mark.parametrize("backend", ["cpu", "mjx"])
def test_the_table_has_a_row_for_each_run_and_a_last_line_for_all(
    grid: Path, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"evaluate {grid} --episodes 200 --backend {backend}"
    assert cli.main(words.split()) == 0
    head, _, *rows, last, _, written = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    found = json.loads((grid / "evaluation.json").read_text())
    assert "200 episodes of each run, 1 seed(s), sampled actions" in head
    assert ("float32" in head) == (backend == "mjx")
    assert [each["backend"] for each in found] == [backend] * 3
    assert [row.split()[0] for row in rows] == NAMES
    for row, each in zip(rows, found, strict=True):
        cost = each["constraints"]["outside"]
        mean, plus_minus, error, limit, verdict = row.split()[5:]
        assert abs(float(mean) - cost["discounted_cost"]["mean"]) < float(error)
        np.testing.assert_allclose(float(error), cost["discounted_cost"]["std"] / 200**0.5, rtol=0.05)
        assert (plus_minus, float(limit), verdict) == ("±", cost["limit"], cost["verdict"])
    rewards = [each["reward"]["mean"] for each in found]
    assert "mean reward" in last
    mean, _, error = last.split("mean reward ")[1].split()[:3]
    np.testing.assert_allclose(float(error), np.std(rewards, ddof=1) / 3**0.5, rtol=0.05)
    assert abs(float(mean) - np.mean(rewards)) < float(error)
    assert written == f"written to {grid / 'evaluation.json'}"


def test_the_last_line_has_the_share_of_each_verdict(grid: Path) -> None:
    (one,) = focops.evaluate_all(grid / NAMES[0], episodes=2)
    outside = one.constraints["outside"]
    given = lambda *verdicts: dataclasses.replace(
        one, constraints={str(i): dataclasses.replace(outside, verdict=each) for i, each in enumerate(verdicts)}
    )
    of_all = [given("satisfied", "satisfied"), given("satisfied", "undecided"), given("undecided", "violated")]
    shares = evaluation_table._shares([*of_all, given("violated", "satisfied")])
    assert shares.startswith("4 run(s): 25% satisfied (1), 25% undecided (1), 50% violated (2); mean reward")


def test_each_task_has_a_table_of_its_own(grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drift = runs.run(tiny("tests.resume.worlds:EndlessDrift-v0", tmp_path / "drift", iterations=1)).path
    shutil.copytree(grid / NAMES[0], tmp_path / "point")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("focops.evaluation.host.MAX_STEPS", 30)
        assert cli.main(f"evaluate {drift} {tmp_path / 'point'} --episodes 4".split()) == 0
    text = capsys.readouterr().out
    assert text.count("1 run(s): ") == 2
    assert "tests.resume.worlds:EndlessDrift-v0   4 episodes" in text
    assert f"{OURS}   4 episodes" in text
    assert "not written to a file; --json FILE does that" in text
    assert not (drift / "evaluation.json").exists()


def test_runs_in_a_directory_without_a_list_are_those_with_a_config(grid: Path, tmp_path: Path) -> None:
    for name in NAMES:
        shutil.copytree(grid / name, tmp_path / name)
    (tmp_path / "notes").mkdir()
    assert directory.runs_in(tmp_path) == [tmp_path / name for name in sorted(NAMES)]


def test_a_directory_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert cli.main(["evaluate", str(tmp_path)]) == 2
    assert "holds no run (no config.json in it, nor in a directory of it)" in capsys.readouterr().err


def test_no_path_at_all_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate"]) == 2
    assert "RUN" in capsys.readouterr().err


def test_runs_without_a_policy_are_named(grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        shutil.copytree(grid / name, tmp_path / name)
    shutil.rmtree(tmp_path / NAMES[1] / "policy")
    assert cli.main(["evaluate", str(tmp_path)]) == 2
    text = " ".join(capsys.readouterr().err.split())
    assert f"1 of 3 run(s) have no policy yet ({tmp_path / NAMES[1]})" in text
    assert "name only the others" in text


def test_tasks_that_are_not_ours_are_refused_on_mjx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drift = runs.run(tiny("tests.resume.worlds:EndlessDrift-v0", tmp_path / "drift", iterations=1)).path
    assert cli.main(["evaluate", str(drift), "--backend", "mjx"]) == 2
    assert "it must be cpu for tests.resume.worlds:EndlessDrift-v0" in capsys.readouterr().err


def test_mjx_that_is_not_installed_is_said_to_be(
    grid: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert cli.main(["evaluate", str(grid), "--backend", "mjx"]) == 2
    assert "MJX is not installed: pip install 'focops[gpu]'" in capsys.readouterr().err
