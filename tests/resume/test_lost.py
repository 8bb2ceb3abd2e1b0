"""Checkpoints or whole directories that disappear: what is left is not overwritten, and nothing is made up."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from focops import api as runs
from focops import cli
from focops.cli import engines
from focops.cli.engines import Job, gpu, local
from focops.errors import RunError, UsageError
from focops.runs import checkpoint
from tests.resume.tiny import OURS, flags, results, tiny


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.run(tiny(OURS, tmp_path_factory.mktemp("finished") / "run")).path


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_run_that_lost_its_checkpoints_is_refused_and_left_alone(tmp_path: Path, finished: Path) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    shutil.rmtree(run / "checkpoint")
    before = contents(run)
    for what, removed in (
        ("6 records in metrics.jsonl and a policy", []),
        ("6 records in metrics.jsonl", ["policy/policy.safetensors"]),
    ):
        for name in removed:
            (run / name).unlink()
            (run / name).parent.rmdir()
            del before[name]
        message = f"has {what}, but its checkpoints are missing from {run / 'checkpoint'}.*Put the checkpoints back"
        with pytest.raises(UsageError, match=message):
            runs.resume(run)
        assert contents(run) == before | {".lock": str(os.getpid()).encode()}
    (run / "checkpoint").mkdir()  # emptied: there are more records than iterations before the first checkpoint
    with pytest.raises(UsageError, match=r"has 6 records in metrics\.jsonl, but"):
        runs.resume(run)
    (run / "metrics.jsonl").unlink()  # the way out that the message names
    assert results(runs.resume(run).path) == results(finished)


def test_a_run_killed_before_its_first_checkpoint_starts_over(tmp_path: Path, finished: Path) -> None:
    stops = iter([False, True])
    run = runs.run(tiny(OURS, tmp_path / "run", exact=True), should_stop=lambda: next(stops)).path
    assert list((run / "checkpoint").iterdir()) == []
    assert runs.resume(run).summary["finished"]


def after(iteration: int, action) -> type:
    """A display that does something once an iteration is over."""

    class Display:
        def start(self, *_: object) -> None: ...

        def update(self, record) -> None:
            if record["iteration"] == iteration:
                action()

        def stop(self, *_: object) -> None: ...

    return Display


@pytest.mark.parametrize("way", ["removed", "renamed", "replaced"])
def test_a_directory_that_goes_away_under_a_run_is_not_made_again(tmp_path: Path, way: str) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"

    def go_away() -> None:
        shutil.copytree(run, tmp_path / "copy")
        shutil.rmtree(run) if way == "removed" else run.rename(elsewhere)
        if way == "replaced":
            shutil.copytree(elsewhere, run)

    with pytest.raises(RunError, match=f"{run} is no longer the directory that this run began in"):
        runs.run(tiny(OURS, run), display=after(3, go_away)())
    assert run.exists() == (way == "replaced")
    if way == "replaced":
        assert contents(run) == contents(tmp_path / "copy")
    if way == "renamed":
        assert checkpoint.numbers(elsewhere / "checkpoint") == {2}
        assert runs.resume(elsewhere).summary["finished"]


def test_a_directory_that_goes_away_within_a_save_is_said_to_have(tmp_path: Path, monkeypatch) -> None:
    run, save = tmp_path / "run", checkpoint.save

    def save_too_late(*args: object) -> None:
        shutil.rmtree(run)
        save(*args)

    monkeypatch.setattr(checkpoint, "save", save_too_late)
    with pytest.raises(RunError, match=f"{run} is no longer the directory that this run began in"):
        runs.run(tiny(OURS, run))
    assert not run.exists()


def test_the_command_says_so_with_status_1(tmp_path: Path, monkeypatch, capsys) -> None:
    run = tmp_path / "run"
    display = after(1, lambda: shutil.rmtree(run))()
    monkeypatch.setattr("focops.display.progress.choose_display", lambda _: display)
    assert cli.main(["train", *flags(tiny(OURS, run))]) == 1
    assert "is no longer the directory" in capsys.readouterr().err
    assert not run.exists()


@pytest.fixture
def python_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of a grid run Python programs in place of focops."""
    start = local.subprocess.Popen
    monkeypatch.setattr(local.subprocess, "Popen", lambda words, **kw: start([sys.executable, *words[3:]], **kw))
    monkeypatch.setattr(local, "POLL_SECONDS", 0.01)


def test_a_grid_of_programs_that_goes_away_begins_no_more_of_them(tmp_path: Path, monkeypatch, capsys) -> None:
    base = tmp_path / "grid"
    base.mkdir()
    jobs = [Job(name, base / name, [], backend="mjx") for name in ("seed=0", "seed=1")]

    def move(*_: object) -> list[RunError]:
        base.rename(tmp_path / "moved")
        return [RunError("it moved")]

    monkeypatch.setattr(gpu.Gpu, "programs", lambda *_: [[job] for job in jobs])
    monkeypatch.setattr(gpu.Gpu, "_train", move)
    assert engines.run(base, jobs, {"mjx": gpu.Gpu()}, quiet=True, again="again") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"seed=1: not begun: {base} was removed or renamed" in said
    assert not base.exists()


@pytest.mark.usefixtures("python_jobs")
def test_a_grid_that_goes_away_begins_no_more_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "grid"
    base.mkdir()
    program = f"import os; os.rename({str(base)!r}, {str(tmp_path / 'moved')!r}); raise SystemExit(1)"
    jobs = [Job(name, base / name, ["-c", program]) for name in ("seed=0", "seed=1")]
    assert engines.run(base, jobs, {"cpu": local.Local(1)}, quiet=True, again="again") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"seed=0: {base / 'seed=0'} was removed or renamed while the run was at work" in said
    assert f"seed=1: not begun: {base} was removed or renamed" in said
    assert not base.exists()
