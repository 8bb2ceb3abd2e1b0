"""`--engine ray` on a cluster of two nodes: whatever is killed, nothing is lost, and the bytes are those of `local`."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from focops import cli
from focops.cli.engines import Job, Watch, mirror, ray_cluster
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory
from focops.runs.files import write_atomically
from tests.resume.tiny import metrics, results

MINE = """
title = "Mine"
tasks = ["tests.resume.worlds:SlowSwimmer-v0"]
algorithms = ["focops"]
steps = 3200
seeds = 2
[set]
"env-workers" = 0
"cost-limit" = 1
"batch-size" = 64
"num-envs" = 4
"algo.minibatch-size" = 32
"algo.hidden" = 8
"algo.epochs" = 2
"final-episodes" = 0
"checkpoint-every" = 2
"""
pytestmark = pytest.mark.filterwarnings("ignore:os.fork")  # Ray's processes are other programs: JAX is not in them
RUNS = tuple(f"tests.resume.worlds_SlowSwimmer-v0,focops,seed={seed}" for seed in range(2))
DRIVER = """
import sys
from focops import cli
from focops.cli.engines import Job, mirror, ray_cluster
ray_cluster.REPORT_SECONDS = 0.3
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and a second node, with a core each."""
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    found.add_node(num_cpus=1)
    yield found
    found.shutdown()
    patch.undo()


def newest(base: Path) -> list[int]:
    return [max(checkpoint.numbers(base / name / "checkpoint"), default=0) for name in RUNS]


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_ctrl_c_stops_the_runs_of_all_machines_with_checkpoints(cluster: Any, tmp_path: Path) -> None:
    """Which come back: none is due for long."""
    (tmp_path / "mine.toml").write_text(MINE.replace('"checkpoint-every" = 2', '"checkpoint-every" = 1000'))
    base = tmp_path / "ray"
    words = ["study", str(tmp_path / "mine.toml"), "--out", str(base), "--engine", "ray", "--address", cluster.address]
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, *words], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: all((base / name / "metrics.jsonl").is_file() for name in RUNS))
    driver.send_signal(signal.SIGINT)
    _, said = driver.communicate(timeout=60)
    assert driver.returncode == 128 + signal.SIGINT
    assert f"Resume:  focops study {tmp_path / 'mine.toml'} --out {base} --engine ray --address" in said
    assert newest(base) == [len(metrics(base / name)) for name in RUNS]
    assert not any(RunDirectory(base / name).is_finished() for name in RUNS)


def test_a_killed_driver_and_a_lost_node_lose_nothing_and_the_bytes_are_those_of_local(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    study = ["study", str(tmp_path / "mine.toml"), "--out"]
    base, by_local = tmp_path / "ray", tmp_path / "local"
    words = [*study, str(base), "--engine", "ray", "--address", cluster.address]

    driver = subprocess.Popen([sys.executable, "-c", DRIVER, *words], stdout=subprocess.DEVNULL)
    wait_for(lambda: max(newest(base)) > 0)
    driver.kill()
    driver.wait()
    came_back = newest(base)
    assert not any(RunDirectory(base / name).is_finished() for name in RUNS)

    def lose_a_node() -> None:
        wait_for(lambda: all(now > before for now, before in zip(newest(base), came_back, strict=True)))
        cluster.remove_node(cluster.list_all_nodes()[1], allow_graceful=False)

    monkeypatch.setattr(ray_cluster, "REPORT_SECONDS", 0.3)
    loss = threading.Thread(target=lose_a_node)
    loss.start()
    assert cli.main(words) == 0
    loss.join()
    said = capsys.readouterr().err
    assert said.count("lost the machine of tests.resume.worlds_SlowSwimmer-v0") == 1
    assert "it continues elsewhere from iteration" in said

    assert cli.main([*study, str(by_local)]) == 0
    for name in RUNS:
        assert results(base / name) == results(by_local / name)
        written = (RunDirectory(each / name).config_file.read_text() for each in (base, by_local))
        assert len({text.replace(str(each), "") for text, each in zip(written, (base, by_local), strict=True)}) == 1


def test_a_node_with_another_focops_fails_its_runs_and_says_so(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    monkeypatch.setattr(ray_cluster.metadata, "version", lambda _: "9.9")
    words = ["study", str(tmp_path / "mine.toml"), "--engine", "ray", "--address", cluster.address]
    assert cli.main([*words, "--out", str(tmp_path / "ray")]) == 1
    said = capsys.readouterr().err
    assert said.count("and 9.9 where the study was started") == len(RUNS)
    assert f"failed: 2 of 2. Try them again with:  focops study {tmp_path / 'mine.toml'} --engine ray --address" in said


def test_what_changes_in_a_directory_comes_back_and_nothing_else(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "checkpoint").mkdir(parents=True)
    (here / "metrics.jsonl").write_bytes(b"1\n")
    (here / "checkpoint" / "1.safetensors").write_bytes(b"one")
    (here / "checkpoint" / "2.safetensors.tmp").write_bytes(b"half")
    (here / "config.json").write_text(f'{{"out": "{here}"}}')
    (here / ".lock").touch()
    source = mirror.Source(here, str(there))
    first = source.changes()
    assert [piece.name for piece in first.pieces] == ["config.json", "metrics.jsonl", "checkpoint/1.safetensors"]
    mirror.write(there, first)
    assert (there / "config.json").read_text() == f'{{"out": "{there}"}}'

    with open(here / "metrics.jsonl", "ab") as file:
        file.write(b"2\n3")
    (here / "checkpoint" / "1.safetensors").rename(here / "checkpoint" / "2.safetensors")
    second = source.changes()
    assert second.pieces == [
        mirror.Piece("metrics.jsonl", 2, b"2\n3"),
        mirror.Piece("checkpoint/2.safetensors", 0, b"one"),
    ]
    mirror.write(there, second, first.names)
    files = {str(file.relative_to(there)): file.read_bytes() for file in there.rglob("*.*") if file.suffix != ".json"}
    assert files == {"metrics.jsonl": b"1\n2\n3", "checkpoint/2.safetensors": b"one"}
    assert source.changes().pieces == []


def test_metrics_that_were_cut_back_and_have_grown_again_come_back_whole(tmp_path: Path) -> None:
    """As those of a run that is resumed: records beyond its checkpoint are written anew, with other times."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    (here / "metrics.jsonl").write_bytes(b'{"n": 1}\n{"n": 2, "s": 0.5}\n')
    source = mirror.Source(here, str(there))
    mirror.write(there, source.changes())
    (here / "metrics.jsonl").write_bytes(b'{"n": 1}\n{"n": 2, "s": 0.25}\n{"n": 3, "s": 0.5}\n')
    mirror.write(there, source.changes(), {"metrics.jsonl"})
    assert (there / "metrics.jsonl").read_bytes() == (here / "metrics.jsonl").read_bytes()


def test_a_file_that_is_replaced_while_it_is_read_comes_back_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_bytes(b"{}")
    longer = b'{"changes": [1, 2, 3]}'

    def replace_first(path: Path, mode: str) -> Any:
        write_atomically(path, longer)
        return open(path, mode)

    monkeypatch.setattr(mirror, "open", replace_first, raising=False)
    assert mirror.Source(tmp_path, "there").changes().pieces == [mirror.Piece("config.json", 0, longer)]


def test_a_file_that_is_replaced_by_one_of_the_same_size_and_time_comes_back(tmp_path: Path) -> None:
    """Of a clock's tick, as two policies in quick succession."""
    file = tmp_path / "policy.safetensors"
    file.write_bytes(b"one")
    source = mirror.Source(tmp_path, "there")
    assert len(source.changes().pieces) == 1
    times = file.stat().st_mtime_ns
    write_atomically(file, b"two")
    os.utime(file, ns=(times, times))
    assert source.changes().pieces == [mirror.Piece(file.name, 0, b"two")]


def test_folders_in_folders_come_back(tmp_path: Path) -> None:
    """As those of Weights & Biases."""
    mirror.write(tmp_path / "run", mirror.Changes([mirror.Piece("wandb/run-1/files/output.log", 0, b"said")], set()))
    assert (tmp_path / "run" / "wandb" / "run-1" / "files" / "output.log").read_bytes() == b"said"


def test_an_error_without_words_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    import ray

    class Generator:
        def __next__(self) -> Any:
            raise ray.exceptions.RayTaskError("work", "Traceback:\nMemoryError", MemoryError())

    job = Job("run", tmp_path / "run", ["train"])
    task, watch = ray_cluster.Task(job), Watch(Shown(), [])
    generator = Generator()
    assert ray_cluster.RayCluster()._receive(ray, generator, {generator: task}, watch) == []
    assert (job.state, job.error) == ("failed", "MemoryError")


class Shown:
    def ended(self, job: Job) -> None: ...


def test_a_copy_of_a_run_without_a_checkpoint_can_be_gone_on_with(tmp_path: Path) -> None:
    """It has the folder for them: one without looks as if they were lost."""
    (tmp_path / "here").mkdir()
    for name in ("config.json", "metrics.jsonl"):
        (tmp_path / "here" / name).write_text("{}\n")
    mirror.write(tmp_path / "there", mirror.Source(tmp_path / "here", "there").changes())
    RunDirectory(tmp_path / "there").require_no_lost_checkpoint(2)


def test_a_checkpoint_that_is_written_meanwhile_comes_with_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "metrics.jsonl").write_bytes(b"1\n")
    source, read = mirror.Source(tmp_path, "there"), mirror.Source._piece

    def write_meanwhile(self: mirror.Source, *file: Any) -> mirror.Piece:
        (tmp_path / "checkpoint" / "1.safetensors").write_bytes(b"one")
        return read(self, *file)

    monkeypatch.setattr(mirror.Source, "_piece", write_meanwhile)
    assert {piece.name for piece in source.changes().pieces} == {"metrics.jsonl", "checkpoint/1.safetensors"}


def test_a_run_that_only_loses_machines_is_given_up(tmp_path: Path) -> None:
    task = ray_cluster.Task(Job("run", tmp_path / "run", ["train"]))
    task.order()
    assert [task.lost() for _ in range(5)] == [True] * 4 + [False]
    (tmp_path / "run" / "checkpoint").mkdir()
    (tmp_path / "run" / "checkpoint" / "00000010.safetensors").touch()
    assert task.lost()  # it got on
    task.close()
