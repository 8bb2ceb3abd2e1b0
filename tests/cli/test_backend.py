"""`--backend mjx`: a grid is one program, or as few as can be, with the directories of any grid."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from focops import api as runs
from focops import cli
from focops.cli.engines import local
from focops.errors import RunError
from focops.runs.directory import RunDirectory
from focops.training.device import DeviceTrainer
from tests.resume.tiny import metrics, results

TINY = "--batch-size 64 --num-envs 4 --algo.hidden 8 --algo.epochs 2 --algo.minibatch-size 32 --final-episodes 0"
SEEDS = ("seed=0", "seed=1", "seed=2")


def words(base: Path, more: str = "--seeds 0..2", iterations: int = 6, every: int = 2) -> list[str]:
    size = f"--steps {64 * iterations} --checkpoint-every {every}"
    return f"train PointCircle --backend mjx {size} {TINY} --out {base} {more}".split()


def all_results(base: Path) -> dict[str, Any]:
    return {name: results(base / name) for name in SEEDS}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds, trained without a break."""
    base = tmp_path_factory.mktemp("finished") / "grid"
    assert cli.main(words(base)) == 0
    return base


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The programs that were asked for, as lists of their runs; none is run, and no process started."""
    asked: list[list[Any]] = []
    none = runs.Run(Path(), {"finished": False})
    monkeypatch.setattr(runs, "run_all", lambda configs, **_: asked.append(configs) or [none] * len(configs))
    monkeypatch.setattr(runs, "resume_all", lambda paths, **_: asked.append(paths) or [none] * len(paths))
    monkeypatch.setattr(local, "Process", lambda *_: pytest.fail("processes are the CPU's way"))
    return asked


def test_a_grid_is_one_program_and_a_directory_for_each_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "grid"
    assert cli.main(words(base, "--seeds 0..2 --algo.temperature 1,1.5")) == 0
    said = capsys.readouterr().out
    assert f"6 runs → {base}\n" in said
    assert "6 runs: 6 running · –/s · left – · program 1 of 1, compiling\n" in said
    assert said.count("384/384") == 6
    assert said.splitlines()[-1] == "6 runs: 6 done"
    directories = sorted(path for path in base.iterdir() if path.is_dir())
    assert [path.name for path in directories] == [f"temperature={t},seed={s}" for t in ("1", "1.5") for s in range(3)]
    for path in directories:
        config = RunDirectory(path).config
        assert f"temperature={config.algo.temperature:g},seed={config.seed}" == path.name
        assert config.backend == "mjx"
        assert [record["iteration"] for record in metrics(path)] == [1, 2, 3, 4, 5, 6]
        assert json.loads((path / "summary.json").read_text())["finished"]
        assert {"checkpoint", "policy", "config.json", "metrics.jsonl"} <= {each.name for each in path.iterdir()}


def test_one_run_alone_is_a_run_like_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words(tmp_path / "run", "--seed 1")) == 0
    assert f"focops evaluate {tmp_path / 'run'}" in capsys.readouterr().out
    assert cli.main(f"evaluate {tmp_path / 'run'} --episodes 2".split()) == 0
    assert cli.main(f"resume {tmp_path / 'run'} --steps 512 --quiet".split()) == 0
    assert [record["iteration"] for record in metrics(tmp_path / "run")] == list(range(1, 9))


def test_no_iteration_seems_faster_than_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the last nor those with a checkpoint: none is done in another's time."""
    iterate = DeviceTrainer._iterate_once

    def slow(trainer: DeviceTrainer, number: int) -> Any:
        time.sleep(0.3)
        return iterate(trainer, number)

    monkeypatch.setattr(DeviceTrainer, "_iterate_once", slow)
    assert cli.main(words(tmp_path / "run", "--seed 1")) == 0
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    rates = [json.loads(line)["samples_per_second"] for line in lines]
    assert len(rates) == 6
    assert max(rates) < 64 / 0.2  # what is started ahead has its start's time before the report, a little


def test_what_is_built_into_a_program_makes_another(tmp_path: Path, programs, capsys) -> None:
    assert cli.main(words(tmp_path / "grid", "--num-envs 4,8 --self-contacts 2 --algo.nu-max 1,2 --seeds 0..1")) == 0
    assert f"8 runs → {tmp_path / 'grid'}\n" in capsys.readouterr().out
    assert [len(program) for program in programs] == [4, 4]
    assert [{config.num_envs for config in program} for program in programs] == [{4}, {8}]
    assert {config.self_contacts for program in programs for config in program} == {2}
    assert {(config.algo.nu_max, config.seed) for config in programs[0]} == {(1, 0), (1, 1), (2, 0), (2, 1)}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("CartPole-v1 --cost-limit 1 --backend mjx", "--backend is mjx; it must be cpu for CartPole-v1"),
        ("CartPole-v1 --cost-limit 1 --backend mjx --seeds 0..1", "--backend is mjx; it must be cpu for CartPole-v1"),
        ("PointCircle --backend cpu,mjx", "--backend is cpu and mjx in one grid"),
        ("PointCircle --backend gpu", "unknown backend 'gpu'; there are: cpu, mjx"),
        ("PointCircle --backend mjx --seeds 0..1 --algo.temperature 1,-1", "--algo.temperature is -1.0"),
        ("PointCircle --backend mjx --self-contacts -1", "--self-contacts is -1; it must be a whole number ≥ 0"),
    ],
)
def test_what_the_backend_cannot_do_is_refused_before_anything_is_written(
    tmp_path: Path, programs, capsys: pytest.CaptureFixture[str], flags: str, message: str
) -> None:
    assert cli.main(f"train {flags} --out {tmp_path / 'grid'}".split()) == 2
    said = capsys.readouterr().err
    assert message in " ".join(said.replace("│", "").split())
    assert "Traceback" not in said
    assert programs == []
    assert list(tmp_path.iterdir()) == []


def test_mjx_that_is_missing_is_said_before_training(tmp_path: Path, monkeypatch, capsys) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if "mjx" in name else find(name, *rest))
    assert cli.main(words(tmp_path / "grid")) == 2
    assert "pip install 'focops[gpu]'" in capsys.readouterr().err


def test_a_signal_stops_with_checkpoints_and_resuming_ends_in_the_same_bytes(tmp_path: Path) -> None:
    """Runs so long that the signal finds them at work."""
    base, whole, long = tmp_path / "grid", tmp_path / "whole", {"iterations": 200, "every": 10}
    process = subprocess.Popen(
        [sys.executable, "-m", "focops.cli", *words(base, **long)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    while process.poll() is None and not (base / SEEDS[2] / "policy").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, said
    assert f"Resume:  focops resume {base}" in said
    made = [len(metrics(base / name)) for name in SEEDS]
    assert made[0] == made[1] == made[2] < 200
    for name in SEEDS:
        assert int(max((base / name / "checkpoint").glob("*.safetensors")).stem) == made[0]
    assert cli.main(["resume", str(base), "--quiet"]) == 0
    assert cli.main([*words(whole, **long), "--quiet"]) == 0
    assert all_results(base) == all_results(whole)


def test_a_finished_grid_has_nothing_left_to_do(finished: Path, programs, capsys: pytest.CaptureFixture[str]) -> None:
    before = all_results(finished)
    assert cli.main(["resume", str(finished)]) == 0
    assert programs == []
    assert all_results(finished) == before


def test_a_finished_grid_goes_on_to_a_greater_total_as_one_program(tmp_path: Path, finished: Path, programs) -> None:
    assert cli.main(["resume", str(finished), "--steps", "512"]) == 0
    assert programs == [[finished / name for name in SEEDS]]


def test_resuming_trains_what_never_began(tmp_path: Path, finished: Path) -> None:
    base = Path(shutil.copytree(finished, tmp_path / "grid"))
    grid = json.loads((base / "grid.json").read_text())
    (base / "grid.json").write_text(json.dumps(grid).replace(str(finished), str(base)))
    shutil.rmtree(base / "seed=1")
    assert cli.main(["resume", str(base), "--quiet"]) == 0
    assert [record["iteration"] for record in metrics(base / "seed=1")] == [1, 2, 3, 4, 5, 6]
    assert results(base / "seed=0") == results(finished / "seed=0")


def test_a_grid_killed_before_any_run_began_is_still_one_program(tmp_path: Path, finished: Path, programs) -> None:
    (tmp_path / "grid.json").write_text((finished / "grid.json").read_text().replace(str(finished), str(tmp_path)))
    assert cli.main(["resume", str(tmp_path)]) == 0
    assert [[config.out for config in program] for program in programs] == [[tmp_path / name for name in SEEDS]]


def test_runs_without_a_checkpoint_in_common_are_programs_of_their_own(
    tmp_path: Path, finished: Path, programs
) -> None:
    """One failed early, and the others went on."""
    base = Path(shutil.copytree(finished, tmp_path / "grid"))
    grid = json.loads((base / "grid.json").read_text())
    (base / "grid.json").write_text(json.dumps(grid).replace(str(finished), str(base)))
    for old in (base / "seed=1" / "checkpoint").iterdir():
        old.rename(old.with_name(f"{int(old.stem) - 3:08d}.safetensors"))
    for name in SEEDS:
        (base / name / "summary.json").unlink()
    assert cli.main(["resume", str(base)]) == 0
    assert programs == [[base / "seed=0", base / "seed=2"], [base / "seed=1"]]


def test_runs_that_fail_are_named_and_the_others_finish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "grid"
    assert cli.main(words(base, "--algo.policy-rate 1e38,1e-4,3e-4")) == 1
    said = capsys.readouterr().err
    assert "failed: policy-rate=1e38: the learner produced nan in policy.network[0].weight" in said
    assert f"failed: 1 of 3. Try them again with:  focops resume {base}" in " ".join(said.split("\n"))
    assert not (base / "policy-rate=1e38" / "summary.json").exists()
    assert json.loads((base / "policy-rate=3e-4" / "summary.json").read_text())["finished"]
    assert cli.main(f"resume {base} --algo.policy-rate 1e-4".split()) == 0
    assert "3 runs: 1 running, 2 done · –/s · left – · program 1 of 1, compiling" in capsys.readouterr().out
    assert json.loads((base / "policy-rate=1e38" / "summary.json").read_text())["finished"]


def test_if_all_fail_it_is_said_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words(tmp_path / "grid", "--seeds 0..2 --algo.policy-rate 1e38")) == 1
    assert "failed: 3 of 3" in capsys.readouterr().err


def test_a_program_that_cannot_write_ends_with_a_message(tmp_path: Path, monkeypatch, capsys) -> None:
    def full(*_: Any) -> None:
        raise RunError("could not write the checkpoint: No space left on device")

    monkeypatch.setattr("focops.runs.checkpoint.save", full)
    assert cli.main(words(tmp_path / "grid")) == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "Traceback" not in said
