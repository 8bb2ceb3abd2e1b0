"""Real processes: signals, the lock, a full disk."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from focops import api as runs
from focops import cli
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory
from tests.resume.tiny import OURS, flags, metrics, results, tiny

LONG = 100_000


def training(config, before: Sequence[str] = (), **kwargs) -> subprocess.Popen[str]:
    """A process that trains, past its first iterations."""
    command = [*before, sys.executable, "-m", "focops.cli", "train", *flags(config), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)
    while process.poll() is None and not (config.out / "policy").exists():
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_a_checkpoint_of_the_last_iteration(tmp_path: Path, number: signal.Signals) -> None:
    config = tiny(OURS, tmp_path / "run", iterations=LONG, checkpoint_every=50)
    process = training(config)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"Resume:  focops resume {config.out}" in said
    newest = max((config.out / "checkpoint").glob("*.safetensors"))
    assert int(newest.stem) == len(metrics(config.out)) > 0
    assert checkpoint.load(newest)[0]["iteration"] == len(metrics(config.out))


def test_while_a_process_works_on_a_run_others_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tiny(OURS, tmp_path / "run", iterations=LONG)
    process = training(config)
    try:
        assert cli.main(["resume", str(config.out)]) == 2
        assert f"another process (pid {process.pid}) works on the run" in capsys.readouterr().err
        assert cli.main(["train", *flags(config)]) == 2
        assert f"`focops resume {config.out}` resumes it" in capsys.readouterr().err
        before = RunDirectory.open(config.out, lock=False).config
        assert cli.main(["evaluate", str(config.out), "--episodes", "4"]) == 0  # reads alone
        assert RunDirectory.open(config.out, lock=False).config == before
    finally:
        process.kill()
        process.communicate()
    assert runs.resume(config.out, should_stop=lambda: True).summary["steps"] > 0  # the lock died with its process


def test_a_full_disk_ends_the_run_with_a_message_and_a_valid_checkpoint(tmp_path: Path) -> None:
    config = tiny(OURS, tmp_path / "run", iterations=LONG, checkpoint_every=1)
    no_file_beyond = ["bash", "-c", 'ulimit -f 60; exec "$@"', "-"]  # KiB: more than a checkpoint, less than a program
    # compiled as for users, not as tests/conftest.py has it
    env = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS")}
    process = training(config, no_file_beyond, env=env | {"JAX_ENABLE_COMPILATION_CACHE": "false"})
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 1, said
    assert "File too large" in said
    assert "Traceback" not in said
    arrays, _ = checkpoint.load(max((config.out / "checkpoint").glob("*.safetensors")))
    resumed = runs.resume(config.out, should_stop=lambda: True)
    assert resumed.summary["steps"] == 64 * int(arrays["iteration"])
    assert len(metrics(config.out)) == int(arrays["iteration"])


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = results(runs.run(tiny(OURS, tmp_path / "expected")).path)
    replace = os.replace

    def read_only(old, new):
        if Path(new).name == "00000004.safetensors":
            raise PermissionError(13, "Read-only file system")
        replace(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", read_only)
        with pytest.raises(checkpoint.CheckpointError, match=r"00000004.*Read-only.*Earlier checkpoints are untouched"):
            runs.run(tiny(OURS, tmp_path / "run"))
    assert [f.name for f in (tmp_path / "run" / "checkpoint").iterdir()] == ["00000002.safetensors"]
    assert results(runs.resume(tmp_path / "run").path) == expected


def test_a_damaged_newest_checkpoint_is_said_and_the_one_before_gives_the_same_bytes(tmp_path: Path) -> None:
    path = runs.run(tiny(OURS, tmp_path / "run")).path
    expected = results(path)
    newest = path / "checkpoint" / "00000006.safetensors"
    newest.write_bytes(newest.read_bytes()[:-7])
    with pytest.warns(checkpoint.CheckpointWarning, match=r"00000006.*damaged.*Going on from .*00000004"):
        runs.resume(path)
    assert results(path) == expected
