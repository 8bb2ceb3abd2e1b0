"""Worker processes: the same bytes at any number, faults that name the environment and its seed, none left behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from focops import api as runs
from focops import cli
from focops.envs import place
from focops.envs.gymnasium import GymnasiumVector
from focops.envs.worker_process import Worker
from focops.errors import RunError, UsageError
from tests.resume.tiny import flags, metrics, results, tiny

FAULTY, AT_ONCE, SLOW, HELPED = (
    f"tests.envs.faulty:{name}-v0" for name in ("Faulty", "FaultyAtOnce", "Slow", "Helped")
)


def vector(task: str = FAULTY, num_envs: int = 4, workers: int | None = 2, **kwargs) -> GymnasiumVector:
    return GymnasiumVector(task, num_envs, limits=[1.0], workers=workers, **kwargs)


def step(env: GymnasiumVector):
    return env.step(np.zeros((env.num_envs, 1), np.float32))


def pids(env: GymnasiumVector) -> list[int]:
    return [worker.process.pid for worker in env._envs._processes]


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_training_gives_the_same_bytes_with_any_number_of_workers(tmp_path: Path) -> None:
    found = [results(runs.run(tiny(FAULTY, tmp_path / str(n), env_workers=n)).path) for n in (0, 1, 2, 4)]
    assert found[0] == found[1] == found[2] == found[3]


def test_a_run_resumes_exactly_with_another_number_of_workers(tmp_path: Path) -> None:
    expected = results(runs.run(tiny(FAULTY, tmp_path / "whole", env_workers=0)).path)
    stops = iter([False, False, False, True] + [False, True] + [False] * 9)
    run = runs.run(tiny(FAULTY, tmp_path / "run", env_workers=2), should_stop=lambda: next(stops)).path
    runs.resume(run, env_workers=3, should_stop=lambda: next(stops))
    assert runs.resume(run, env_workers=0).summary["finished"]
    assert results(run) == expected


FAULTS = {
    "raise": r"environment \d of .* raised RuntimeError: out of coffee \(.*faulty.py:\d+\) in step at step \d+",
    "exit": r"environment \d of .* raised SystemExit: 3 \(.*faulty.py:\d+\) in step at step \d+",
    "hang": r"environment \d of .*, in worker \d, did not answer at step \d+ within 2 s \(--env-timeout\)",
    "die": r"worker \d ended with exit status 3 at step \d+, in environment \d of .*; its environments were \d \(seed",
    "kill": r"worker \d was killed by signal 9 \(SIGKILL\) at step \d+, in environment \d of ",
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_in_a_worker_is_named_and_once_mended_nothing_was_lost(
    tmp_path: Path, monkeypatch, caplog, what: str
) -> None:
    expected = results(runs.run(tiny(FAULTY, tmp_path / "expected", env_workers=0)).path)
    monkeypatch.setenv("FAULT", what)
    run = tmp_path / "run"
    with pytest.raises(RunError, match=rf"(?s){FAULTS[what]}.*the seed of its episode: \d+.*focops resume {run}"):
        runs.run(tiny(FAULTY, run, env_workers=2, env_timeout=2.0, checkpoint_every=0))
    assert len(metrics(run)) >= 1
    assert (run / "failure.safetensors").exists()
    assert caplog.text == ""  # the error is told once
    monkeypatch.delenv("FAULT")
    assert results(runs.resume(run).path) == expected


def test_the_seed_that_is_named_repeats_the_fault(monkeypatch) -> None:
    monkeypatch.setenv("FAULT", "raise")
    env = vector(AT_ONCE)
    for _ in range(4):
        step(env)
    with pytest.raises(RunError, match=r"environment 0 .*the seed of its episode: \d+") as raised:
        step(env)
    seed = int(str(raised.value).rpartition(": ")[2].rstrip(")"))
    alone = gymnasium.make(AT_ONCE)
    alone.reset(seed=seed)
    for _ in range(4):
        obs = alone.step(np.zeros(1, np.float32))[0]
    np.testing.assert_allclose(obs, env.obs[0], rtol=1e-6)
    assert "out of coffee" in str(raised.value.__cause__)
    assert "Traceback" in str(raised.value.__cause__)


def test_a_worker_that_is_killed_between_steps_is_named_with_its_environments() -> None:
    env = vector(num_envs=5)
    os.kill(pids(env)[1], signal.SIGKILL)
    with pytest.raises(RunError, match=r"worker 1 was killed by signal 9 .* 2 \(seed \d+\), 3 \(seed \d+\), 4 \(seed"):
        step(env)
    env.close()


def test_what_an_environment_prints_does_not_disturb_the_channel(monkeypatch, capfd) -> None:
    monkeypatch.setenv("FAULT", "print")
    env = vector(AT_ONCE)
    for _ in range(5):
        step(env)
    env.close()
    assert capfd.readouterr().out.count("a word") == 4


def test_workers_import_no_jax(monkeypatch) -> None:
    import jax  # noqa: F401

    monkeypatch.setenv("FAULT", "jax")
    assert step(vector(workers=0)).cost.tolist() == [[1.0]] * 4
    assert step(vector(workers=2)).cost.tolist() == [[0.0]] * 4


def test_workers_end_with_the_vector() -> None:
    env = vector()
    closed, left = pids(env), pids(other := vector())
    env.close()
    del other
    assert all(gone(pid) for pid in closed + left)


@pytest.mark.parametrize("how", ["close", "die"])
def test_what_environments_have_started_ends_with_their_workers(monkeypatch, how: str) -> None:
    monkeypatch.setenv("FAULT", how)
    env = vector(HELPED, timeout=20.0)
    helpers = [int(pid) for pid in step(env).reward]
    if how == "die":  # although its helpers still have the channel open
        for _ in range(3):
            step(env)
        with pytest.raises(RunError, match="worker 0 ended with exit status 3"):
            step(env)
    env.close()
    assert all(gone(pid) for pid in helpers)


def test_workers_end_with_a_parent_that_is_killed_also_if_they_hang() -> None:
    program = (
        "import numpy, tests.envs.test_workers as t\n"
        f"env = t.vector({HELPED!r})\n"
        "helpers = map(int, t.step(env).reward)\n"
        "print(*t.pids(env), *helpers, flush=True)\n"
        "while True: t.step(env)\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "FAULT": "hang"}) as parent:
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        time.sleep(0.3)
        parent.kill()
    assert len(workers) == 2 + 4  # with their environments' helpers
    assert all(gone(pid) for pid in workers)


def test_a_worker_whose_answer_nobody_reads_ends_without_a_word(capfd) -> None:
    worker = Worker(sys.executable)
    worker.send("nothing")
    assert worker._channel.recv(1, socket.MSG_PEEK) == b"{"
    worker.dismiss()
    assert worker.process.wait(60) == 0
    worker.end(1.0)
    assert capfd.readouterr().err == ""


def test_ctrl_c_does_not_reach_workers() -> None:
    env = vector()
    assert all(os.getpgid(pid) != os.getpgrp() for pid in pids(env))
    env.close()


def test_a_short_measurement_decides_and_is_told(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(place, "_cores", lambda: 2)
    slow, fast = vector(SLOW, workers=None), vector(FAULTY, workers=None)
    assert re.fullmatch(r"a step takes \d+(\.\d)? ms; 2 workers", slow.note)
    assert fast.note.endswith(" µs; no workers")
    slow.close()
    config = tiny(SLOW, tmp_path / "run", iterations=1)
    assert cli.main(["train", *flags(config), "--cost-limit", "1"]) == 0
    assert " ms; 2 workers\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "num_envs", "cores", "workers"),
    [(2e-3, 32, 2, 2), (2e-3, 3, 8, 3), (1e-5, 32, 2, 0), (2e-3, 1, 8, 0), (1e-2, 32, 1, 0)],
)
def test_there_are_as_many_workers_as_pay(monkeypatch, seconds, num_envs, cores, workers) -> None:
    monkeypatch.setattr(place, "_cores", lambda: cores)
    assert place._that_pay(seconds, num_envs) == workers


def test_an_environment_that_only_this_process_knows_stays_in_it(monkeypatch) -> None:
    monkeypatch.setattr(place, "_cores", lambda: 2)
    from tests.envs.faulty import Slow

    gymnasium.register("OnlyHere-v0", entry_point=lambda: Slow())
    try:
        env = vector("OnlyHere-v0", workers=None)
        assert env.note.endswith("; no workers: only this process knows OnlyHere-v0")
        with pytest.raises(UsageError, match=r"no task or .*'OnlyHere-v0'.*--env-workers 0 opens it in this one"):
            vector("OnlyHere-v0", workers=2)
    finally:
        del gymnasium.registry["OnlyHere-v0"]


def test_an_id_without_its_module_is_found_by_the_module_that_defines_it() -> None:
    import tests.envs.faulty  # noqa: F401

    env = vector("Slow-v0", workers=1)
    assert step(env).reward.shape == (4,)
    env.close()


def test_with_workers_given_no_environment_is_opened_in_this_process(tmp_path: Path, monkeypatch) -> None:
    """One that ends its process while it is made would end the run without a word."""
    monkeypatch.setattr("tests.envs.faulty.Faulty.__init__", lambda self: pytest.fail("opened here"))
    config = tiny(FAULTY.removesuffix("-v0"), tmp_path / "run", iterations=1)
    assert cli.main(["train", *flags(config), "--cost-limit", "1", "--env-workers", "2"]) == 0


def test_a_number_below_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--env-workers is -1; it must be a whole number ≥ 0"):
        runs.run(tiny(FAULTY, tmp_path / "run", env_workers=-1))


def test_the_time_limit_of_steps_does_not_count_the_start_of_workers() -> None:
    env = vector(timeout=0.05)
    step(env)
    env.close()


def test_one_that_hangs_while_it_is_made_is_given_up() -> None:
    with pytest.raises(
        RunError, match=r"environment 0 of .*Never-v0, in worker 0, did not answer at step 0 within 0\.2 s"
    ):
        vector("tests.envs.faulty:Never-v0", timeout=0.2)
