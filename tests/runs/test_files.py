"""What is written where: streams in place, nothing through links, nothing outside a run's or a grid's directory."""

import dataclasses
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from focops import cli
from focops.cli import engines
from focops.config import default_config
from focops.errors import RunError, UsageError
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory
from focops.runs.files import write_atomically, write_json
from focops.runs.sinks import JSONL


def read_in_background(path: Path) -> tuple[threading.Thread, list[bytes]]:
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(path.read_bytes()), daemon=True)
    thread.start()
    return thread, found


def test_a_named_pipe_gets_the_data_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread, found = read_in_background(pipe)
    write_json(pipe, {"a": 1})
    thread.join(10)
    assert json.loads(found[0]) == {"a": 1}
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the system has no /dev/fd")
def test_what_a_descriptor_leads_to_is_written_in_place(tmp_path: Path) -> None:
    """As /dev/stdout does, with a pipe behind it or a file that others have written to."""
    reader, writer = os.pipe()
    write_json(Path(f"/dev/fd/{writer}"), [1])
    assert json.loads(os.read(reader, 100)) == [1]
    with open(tmp_path / "out", "w+b", buffering=0) as file:
        file.write(b"a table\n")
        write_atomically(Path(f"/dev/fd/{file.fileno()}"), b"and more\n")
    assert (tmp_path / "out").read_bytes() == b"a table\nand more\n"
    os.close(reader)
    os.close(writer)


def test_standard_output_in_a_file_has_all_in_order(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from focops.runs.files import write_json; print('a table');"
        "write_json(Path('/dev/fd/1'), [1]); print('written')"
    )
    with open(tmp_path / "out", "wb") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out").read_text().split() == ["a", "table", "[", "1", "]", "written"]


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the user's that a stranger's links point to."""
    file = tmp_path / "precious"
    file.write_text("mine")
    return file


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path: Path, precious: Path) -> None:
    for name in ("summary.json", "other.json.tmp"):
        (tmp_path / name).symlink_to(precious)
        write_json(tmp_path / name.removesuffix(".tmp"), {"a": 1})
        assert json.loads((tmp_path / name.removesuffix(".tmp")).read_text()) == {"a": 1}
    assert precious.read_text() == "mine"


def test_a_log_or_a_lock_that_is_a_link_is_refused(tmp_path: Path, precious: Path) -> None:
    run = tmp_path / "run"
    RunDirectory.create(dataclasses.replace(default_config(), out=run)).close()
    (run / "metrics.jsonl").symlink_to(precious)
    with pytest.raises(RunError, match=r"metrics.jsonl: it is a symbolic link"):
        JSONL(run)
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(precious)
    with pytest.raises(UsageError, match=r"\.lock: it is a symbolic link"):
        RunDirectory.open(run)
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("name", ["checkpoint", "policy"])
def test_a_folder_that_is_a_link_is_refused_before_training(tmp_path: Path, name: str) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    RunDirectory.create(dataclasses.replace(default_config(), out=run)).close()
    if name == "checkpoint":
        (run / name).rmdir()
    (run / name).symlink_to(elsewhere)
    with pytest.raises(UsageError, match=rf"cannot write in {run / name}: it is a symbolic link"):
        RunDirectory.open(run)
    with pytest.raises(checkpoint.CheckpointError, match="it is a symbolic link"):
        checkpoint.save(run / name, 1, {}, {})
    assert list(elsewhere.iterdir()) == []


def test_an_out_that_is_a_link_to_a_directory_of_the_users_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with RunDirectory.create(dataclasses.replace(default_config(), out=tmp_path / "link")) as run:
        checkpoint.save(run.checkpoints, 1, {}, {})
        run.require_in_place()
    assert (tmp_path / "real" / "checkpoint" / "00000001.safetensors").exists()


TRAIN = ["train", "HopperSpeed", "--seed", "0"]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"name": "../../there", "words": TRAIN}, "the name '../../there' is not that of a folder"),
        ({"name": "..", "words": TRAIN}, "the name '..' is not"),
        ({"name": "", "words": TRAIN}, "the name '' is not"),
        ({"name": "/there", "words": TRAIN}, "the name '/there' is not"),
        ({"name": 5, "words": TRAIN}, "the name 5 is not"),
        ({"name": "link", "words": TRAIN}, "link is a symbolic link"),
        ({"name": "seed=0", "words": ["solve", "x", "--save", "there"]}, "the words of seed=0 are not a `train`"),
        ({"name": "seed=0", "words": "train"}, "the words of seed=0 are not a `train`"),
    ],
)
def test_a_grid_that_leads_outside_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], run: dict, message: str
) -> None:
    monkeypatch.setattr(engines, "run", lambda *_: pytest.fail("a run was started"))
    base = tmp_path / "deep" / "grid"
    base.mkdir(parents=True)
    (base / "link").symlink_to(tmp_path)
    (base / "grid.json").write_text(json.dumps({"runs": [run]}))
    assert cli.main(["resume", str(base)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert message in said
    assert "resume its runs one by one" in said


def test_a_grid_trains_what_has_not_begun_where_it_lies_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begun with a relative --out and --from; then moved, and resumed from another working directory."""
    started: list[engines.Job] = []
    monkeypatch.setattr(engines, "run", lambda base, jobs, *_: started.extend(jobs) or 0)
    monkeypatch.setattr("focops.cli.arguments.check", lambda _: None)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "HopperSpeed", "--seeds", "0..1", "--out", "old", "--from", "source"]) == 0
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "old").rename(tmp_path / "new")
    monkeypatch.chdir(tmp_path / "elsewhere")
    started.clear()
    assert cli.main(["resume", str(tmp_path / "new")]) == 0
    for seed, job in enumerate(started):
        out, source = tmp_path / "new" / f"seed={seed}", tmp_path / "source"
        expected = f"train HopperSpeed --seed {seed} --from {source} --out {out} --quiet"
        assert (job.directory, job.words) == (out, expected.split())
