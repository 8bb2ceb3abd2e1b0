"""However a run is ended from outside (a closed terminal or pipe, a full disk, a parent that is killed), it is kept."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from focops import cli
from focops.cli.signals import stop_on_signals
from focops.envs import deadline
from focops.runs import checkpoint
from tests.resume.tiny import OURS, flags, metrics, tiny
from tests.resume.worlds import Drift

LONG = 100_000


class Failing(io.StringIO):
    """Standard output that fails from the second line on."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        if self.getvalue().count("\n") >= 2:
            raise self.error
        return super().write(text)


def newest(run: Path) -> int:
    """The iteration of the newest checkpoint, which can be loaded."""
    path = max((run / "checkpoint").glob("*.safetensors"))
    return int(checkpoint.load(path)[0]["iteration"])


def test_a_reader_that_goes_away_stops_the_run_with_a_checkpoint(tmp_path: Path, monkeypatch, capsys) -> None:
    """As `| head -1` does."""
    monkeypatch.setattr("focops.display.progress.PlainDisplay.__init__.__defaults__", (0.0,))
    monkeypatch.setattr(sys, "stdout", Failing(BrokenPipeError(32, "Broken pipe")))
    config = tiny(OURS, tmp_path / "run", iterations=LONG, checkpoint_every=0)
    assert cli.main(["train", *flags(config)]) == 128 + signal.SIGPIPE
    assert f"Resume:  focops resume {config.out}" in capsys.readouterr().err
    assert 0 < newest(config.out) == len(metrics(config.out)) < LONG


@pytest.mark.parametrize("words", ["tasks", "algos", "--version", "solve queue"])
def test_a_listing_that_nobody_reads_to_its_end_has_the_status_of_a_broken_pipe(monkeypatch, words: str) -> None:
    """Whether Rich or Python writes it."""
    reader, writer = os.pipe()
    os.close(reader)
    stdout = os.fdopen(writer, "w")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert cli.main(words.split()) == 128 + signal.SIGPIPE
    with contextlib.suppress(BrokenPipeError):
        stdout.close()


def test_a_full_standard_output_is_said_once_and_the_run_goes_on(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("focops.display.progress.PlainDisplay.__init__.__defaults__", (0.0,))
    monkeypatch.setattr(sys, "stdout", Failing(OSError(28, "No space left on device")))
    config = tiny(OURS, tmp_path / "run", iterations=6, checkpoint_every=0)
    assert cli.main(["train", *flags(config)]) == 1
    said = capsys.readouterr().err
    assert said.count("the run continues without it") == 1
    assert newest(config.out) == len(metrics(config.out)) == 6


def test_a_second_hang_up_is_the_same_one_and_nohup_is_respected(capsys) -> None:
    with stop_on_signals(lambda: pytest.fail("a closed terminal sends several")) as stopped:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
    assert stopped == [signal.SIGHUP]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as stopped:
            os.kill(os.getpid(), signal.SIGHUP)
        assert stopped == []
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_message_that_nobody_can_read_is_lost_and_nothing_else(monkeypatch) -> None:
    """Of a terminal that was closed."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Closed())
    with stop_on_signals() as stopped:
        os.kill(os.getpid(), signal.SIGTERM)
    assert stopped == [signal.SIGTERM]


def test_the_runs_of_a_killed_grid_end_with_it_and_leave_checkpoints(tmp_path: Path) -> None:
    config = tiny(OURS, tmp_path / "grid", iterations=LONG, checkpoint_every=0)
    words = [sys.executable, "-m", "focops.cli", "train", *flags(config), "--algo.gae", "0.9,0.95", "--jobs", "2"]
    grid = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    children = [tmp_path / "grid" / "gae=0.9", tmp_path / "grid" / "gae=0.95"]
    wait_until(lambda: all((run / "metrics.jsonl").exists() and metrics(run) for run in children), grid)
    pids = [int((run / ".lock").read_text()) for run in children]
    grid.kill()
    grid.wait()
    try:
        wait_until(lambda: not any(map(alive, pids)))
        assert [newest(run) == len(metrics(run)) > 0 for run in children] == [True, True]
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)


def wait_until(condition: Any, process: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Neither gone nor a zombie that nobody waits for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Stubborn(Drift):
    """Does not come back from step 5 of episode 7, whatever is raised in it, until the process would have ended."""

    ended = False

    def step(self, action: Any) -> Any:
        result = super().step(action)
        give_up = time.monotonic() + 5
        while self.t == 5 and self.episodes == 7 and not Stubborn.ended and time.monotonic() < give_up:
            try:
                time.sleep(5)
            except BaseException:
                continue
        return result


if "Stubborn-v0" not in gymnasium.registry:
    gymnasium.register("Stubborn-v0", entry_point=Stubborn)


def test_an_environment_that_swallows_every_interruption_ends_the_process_with_a_checkpoint(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(deadline, "REPEAT_SECONDS", 0.05, raising=False)
    exits: list[tuple[int, bool]] = []

    def end(status: int) -> None:
        exits.append((status, newest(config.out) == len(metrics(config.out)) > 0))
        Stubborn.ended = True
        raise KeyboardInterrupt  # swallowed too, but the environment then returns

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(Stubborn, "ended", False)
    config = tiny(f"{__name__}:Stubborn-v0", tmp_path / "run", checkpoint_every=0, env_timeout=0.5)
    cli.main(["train", *flags(config), "--cost-limit", "1", "--env-timeout", "0.5", "--quiet"])
    assert exits == [(1, True)]
    said = " ".join(capsys.readouterr().err.split())
    assert "Stubborn-v0 did not answer at step" in said
    assert "within 0.5 s (--env-timeout) and swallows every interruption. Iteration" in said
    assert f"focops resume {config.out}" in said
