"""What is not on every system is not needed to import focops, nor to open the directory of a run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

POSIX = ["fcntl", "resource", "termios", "pty", "pwd", "grp"]
"""Modules that Windows does not have."""
SIGNALS = ["SIGHUP", "SIGPIPE", "SIGALRM", "SIGKILL", "SIGUSR1", "setitimer", "ITIMER_REAL", "pthread_sigmask"]
CALLS = ["fork", "O_NOFOLLOW", "sched_getaffinity", "sched_setaffinity", "getuid", "killpg", "setsid", "getpgid"]
PROGRAM = """
import importlib, os, pkgutil, signal, sys
import gymnasium, filelock, jax, mujoco, optax, rich.live, scipy.optimize, scipy.stats, tensorboardX, tyro  # not ours

for module in {posix}:
    sys.modules[module] = None  # importing it raises ImportError
for name in {signals}:
    delattr(signal, name)
for name in {calls}:
    delattr(os, name)

import focops

names = [each.name for each in pkgutil.walk_packages(focops.__path__, "focops.")]
for name in names:
    if not name.endswith("__main__") and "warp" not in name:  # Warp is CUDA's
        importlib.import_module(name)
from focops.cli import main

assert main(["--help"]) == 0 and main(["tasks"]) == 0
print(len(names), "modules")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="takes away what only POSIX systems have")
def test_all_of_focops_imports_without_what_only_posix_systems_have() -> None:
    program = PROGRAM.format(
        posix=POSIX,
        signals=[name for name in SIGNALS if hasattr(signal, name)],
        calls=[name for name in CALLS if hasattr(os, name)],
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1].split()[0]) > 100


def test_a_file_of_a_run_opens_where_links_cannot_be_refused_by_a_flag(tmp_path: Path, monkeypatch) -> None:
    from focops.runs.files import open_own

    monkeypatch.delattr(os, "O_NOFOLLOW")
    with open_own(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(b"{}")
    assert (tmp_path / "metrics.jsonl").read_bytes() == b"{}"
