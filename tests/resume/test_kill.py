"""Killed at any instant and resumed, a run ends in the same bytes as one that was never interrupted."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from focops import api as runs
from tests.resume.tiny import OURS, Disk, flags, results, tiny

COSTED = "tests.resume.worlds:CostedHopper-v0"


def reference(task: str, path: Path, **options) -> dict:
    return results(runs.run(tiny(task, path / "reference", **options)).path)


@pytest.mark.parametrize(("task", "kills"), [(OURS, 24), ("HopperSpeed-v0", 4), (COSTED, 6)])
def test_a_kill_at_any_instant_of_a_save_changes_nothing(tmp_path: Path, task: str, kills: int) -> None:
    expected = reference(task, tmp_path)
    disk = Disk(tmp_path / "run", tmp_path / "copies")
    with disk.watched():
        runs.run(tiny(task, disk.run))
    assert len(disk.instants) > 60
    after_config = [instant for instant in disk.instants if (instant[1] / "config.json").exists()]
    before_config = disk.instants[0][1]
    assert results(runs.run(tiny(task, before_config)).path) == expected  # there was no run yet: it is begun again
    for what, copy in random.Random(0).sample(after_config, kills):
        assert results(runs.resume(copy).path) == expected, what


def test_a_kill_while_resuming_changes_nothing(tmp_path: Path) -> None:
    expected = reference(OURS, tmp_path)
    first = Disk(tmp_path / "run", tmp_path / "copies")
    with first.watched():
        runs.run(tiny(OURS, first.run))
    middle = next(copy for what, copy in first.instants if "rename to" in what and "00000004" in what)
    second = Disk(middle, tmp_path / "copies_of_resume")
    with second.watched():
        runs.resume(middle)
    for what, copy in random.Random(1).sample(second.instants, 4):
        assert results(runs.resume(copy).path) == expected, what


def test_a_log_with_half_a_line_changes_nothing(tmp_path: Path) -> None:
    expected = reference(OURS, tmp_path)
    stopped = iter([False] * 5 + [True])
    run = runs.run(tiny(OURS, tmp_path / "run", checkpoint_every=3), should_stop=lambda: next(stopped)).path
    (run / "checkpoint" / "00000005.safetensors").unlink()  # killed after iteration 5, while writing its line
    log = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(log[:-20])
    assert results(runs.resume(run).path) == expected


def test_real_processes_killed_at_random_end_in_the_same_bytes(tmp_path: Path) -> None:
    config = tiny(OURS, tmp_path / "run", iterations=400)
    expected = reference(OURS, tmp_path, iterations=400)
    rng, killed = random.Random(2), 0
    began = f"focops.cli train {' '.join(flags(config))} --quiet"
    for _ in range(20):
        words = began.split() if killed == 0 else ["focops.cli", "resume", str(config.out), "--quiet"]
        process = subprocess.Popen([sys.executable, "-m", *words], stderr=subprocess.PIPE)
        if killed < 6:
            _wait_for_work(config.out, process)
            time.sleep(rng.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            killed += process.returncode == -signal.SIGKILL
        else:
            assert process.communicate()[1] == b""
            assert process.returncode == 0
            break
    assert killed == 6
    assert results(config.out) == expected


def _wait_for_work(run: Path, process: subprocess.Popen) -> None:
    """Until it has written a record: resuming makes the log shorter, an iteration longer."""
    length = lambda: (run / "metrics.jsonl").stat().st_size if (run / "metrics.jsonl").exists() else 0
    shortest = length()
    while process.poll() is None and length() <= shortest:
        shortest = min(shortest, length())
        time.sleep(0.002)
