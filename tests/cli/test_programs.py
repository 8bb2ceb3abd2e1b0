"""`--jobs N` on an accelerator: several programs at once, each a process; here on the CPU, with few environments."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from focops import cli
from focops.cli.arguments import ResumeOptions
from focops.cli.engines import Job, Watch, local
from focops.cli.engines import programs as module
from focops.cli.engines.gpu import Gpu
from focops.cli.engines.programs import Programs
from tests.resume.tiny import metrics, results

TINY = (
    "--batch-size 64 --algo.hidden 8 --algo.epochs 2 --algo.minibatch-size 32 --final-episodes 0 --checkpoint-every 2"
)
BOTH = ("num-envs=4", "num-envs=8")


def words(base: Path, iterations: int, more: str = "") -> list[str]:
    size = f"--steps {64 * iterations} --num-envs 4,8"  # which is built into a program
    return f"train PointCircle --backend mjx {size} {TINY} --out {base} {more}".split()


def test_programs_at_once_give_what_they_give_one_after_another_and_name_a_run_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_once, in_turn = tmp_path / "at-once", tmp_path / "in-turn"
    rates = "--algo.policy-rate 3e-4,1e38"
    assert cli.main(words(at_once, 3, f"{rates} --jobs 2")) == 1
    said = capsys.readouterr()
    assert "of 2 programs 2 at once, 0 ended" in said.out
    assert said.err.count("policy-rate=1e38: the learner produced nan in policy.network[0].weight") == 2
    assert f"failed: 2 of 4. Try them again with:  focops resume {at_once} --jobs 2" in " ".join(said.err.split("\n"))
    assert cli.main(words(in_turn, 3, rates)) == 1
    for name in BOTH:
        assert results(at_once / f"{name},policy-rate=3e-4") == results(in_turn / f"{name},policy-rate=3e-4")
    assert not list(at_once.glob(".programs*"))


def test_a_signal_stops_all_programs_with_checkpoints_and_they_go_on(tmp_path: Path) -> None:
    base, iterations = tmp_path / "grid", 3000  # so long that the signal finds them at work
    process = subprocess.Popen(
        [sys.executable, "-m", "focops.cli", *words(base, iterations, "--jobs 2")], stderr=subprocess.PIPE, text=True,
        stdout=subprocess.DEVNULL, env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    while process.poll() is None and not all((base / name / "policy").exists() for name in BOTH):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, said
    assert f"Resume:  focops resume {base} --jobs 2" in said
    for name in BOTH:
        made = len(metrics(base / name))
        assert made < iterations
        assert int(max((base / name / "checkpoint").glob("*.safetensors")).stem) == made
    grid = json.loads((base / "grid.json").read_text())
    assert [run["name"] for run in grid["runs"]] == list(BOTH)


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Four runs, of which two share a program."""
    found = [Job(name, tmp_path / name, ["train"], backend="mjx") for name in "abcd"]
    monkeypatch.setattr(Gpu, "programs", lambda self, jobs: [list(jobs[:2]), list(jobs[2:])])
    return found


class Display:
    def update(self, note: str | None = None) -> None: ...

    def ended(self, job: Job) -> None: ...


def test_a_process_that_is_killed_fails_its_runs_and_what_it_said_is_kept(
    tmp_path: Path, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMMAND", "no-such-command")
    Programs(ResumeOptions(tmp_path, jobs=2)).run(jobs, Watch(Display(), []))
    assert {job.state for job in jobs} == {"failed"}
    error, _, file = jobs[0].error.partition(" (all that its program said: ")
    assert error.startswith("unknown command 'no-such-command'")
    assert "unknown command" in Path(file.removesuffix(")")).read_text()


def test_programs_at_once_share_the_memory_of_the_device(
    tmp_path: Path, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    monkeypatch.setattr(local.Local, "run", lambda *_: seen.append(os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"]))
    Programs(ResumeOptions(tmp_path, jobs=9)).run(jobs, Watch(Display(), []))
    assert seen == ["0.250"]  # there are but two
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in os.environ
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.1")
    Programs(ResumeOptions(tmp_path, jobs=2)).run(jobs, Watch(Display(), []))
    assert seen[1:] == ["0.1"]
