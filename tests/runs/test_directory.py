"""A run's directory: made once, locked, and its config comes back exactly."""

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import focops
from focops.config import TrainConfig, default_config
from focops.errors import UsageError
from focops.runs.config_json import config_from_json, config_to_json
from focops.runs.directory import RunDirectory
from focops.runs.paths import default_path
from focops.runs.versions import current_versions


def config_in(path: Path | None) -> TrainConfig:
    return dataclasses.replace(default_config("HopperSpeed"), out=path)


def through_json(config: TrainConfig) -> TrainConfig:
    return config_from_json(json.loads(json.dumps(config_to_json(config), allow_nan=False)))


@pytest.mark.parametrize("preset", ["fast", "paper"])
@pytest.mark.parametrize("task", ["HalfCheetahSpeed-v0", "AntCircle-v0", "CartPole-v1"])
def test_config_comes_back_exactly_from_json(task: str, preset: str) -> None:
    config = default_config(task, "focops", preset)
    assert through_json(config) == config


def test_infinities_tuples_and_paths_come_back_exactly() -> None:
    algo = dataclasses.replace(default_config().algo, nu_max=math.inf, max_grad_norm=math.inf, hidden=(5, 6, 7))
    config = dataclasses.replace(
        default_config(), algo=algo, cost_limit=(1.0, 0.1), cost_discount=(1.0, 0.99), out=Path("a b/ü")
    )
    found = through_json(config)
    assert found == config
    assert isinstance(found.algo.hidden, tuple)
    assert isinstance(found.out, Path)


def test_numpy_scalars_are_stored_as_numbers() -> None:
    config = dataclasses.replace(default_config(), seed=np.int64(3), cost_limit=(np.float64(0.25),))
    assert through_json(config) == dataclasses.replace(default_config(), seed=3, cost_limit=(0.25,))


def test_every_float_comes_back_to_the_last_bit() -> None:
    algo = dataclasses.replace(default_config().algo, temperature=0.1 + 0.2, policy_rate=math.nextafter(3e-4, 1))
    assert through_json(dataclasses.replace(default_config(), algo=algo)).algo == algo


def test_a_network_from_python_is_described_and_not_rebuilt() -> None:
    class Wide:
        def __repr__(self) -> str:
            return "Wide(512)"

    config = dataclasses.replace(default_config(), algo=dataclasses.replace(default_config().algo, network=Wide()))
    data = config_to_json(config)
    assert data["algo"]["network"] == "Wide(512)"
    with pytest.raises(UsageError, match=r"Wide\(512\).*which a file cannot hold"):
        config_from_json(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 2; this focops reads format 1"),
        ({"algorithm": "sac"}, "unknown algorithm 'sac'"),
        ({"algorithm": []}, r"unknown algorithm \[\]"),
        ({"env_timeout": 10**400}, "env_timeout is 1000"),
        ({"colour": "red"}, "has unknown colour"),
        ({"seed": "zero"}, "seed is 'zero'; expected int"),
        ({"seed": True}, "seed is True"),
        ({"steps": 1.5}, r"steps is 1\.5"),
        ({"preset": "slow"}, "preset is 'slow'"),
        ({"cost_limit": 3}, "cost_limit is 3"),
        ({"algo": None}, "algo is None"),
        ({"algo": {"temperature": "hot"}}, "algo.temperature is 'hot'; expected float"),
    ],
)
def test_a_config_that_does_not_fit_is_explained(change: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        config_from_json(config_to_json(default_config()) | change)


def test_a_missing_field_is_named() -> None:
    data = config_to_json(default_config())
    del data["num_envs"]
    with pytest.raises(UsageError, match="lacks num_envs"):
        config_from_json(data)


def test_create_writes_config_and_versions(tmp_path: Path) -> None:
    with RunDirectory.create(config_in(tmp_path / "deep" / "run")) as run:
        assert run.config == config_in(tmp_path / "deep" / "run")
        assert {"python", "focops", "jax", "jaxlib", "numpy", "mujoco", "gymnasium", "platform"} <= run.versions.keys()
        assert run.changed_versions() == []


def test_changed_versions_are_named(tmp_path: Path) -> None:
    with RunDirectory.create(config_in(tmp_path), current_versions() | {"jax": "0.0.1"}) as run:
        assert [change.split()[:2] for change in run.changed_versions()] == [["jax", "0.0.1"]]


def test_extending_a_run_keeps_the_versions_it_began_with(tmp_path: Path) -> None:
    with RunDirectory.create(config_in(tmp_path), {"jax": "0.0.1"}) as run:
        run.write_config(dataclasses.replace(run.config, steps=7))
        assert run.config.steps == 7
        assert run.versions == {"jax": "0.0.1"}


def test_a_moved_run_knows_where_it_is(tmp_path: Path) -> None:
    RunDirectory.create(config_in(tmp_path / "old")).close()
    (tmp_path / "old").rename(tmp_path / "new")
    assert RunDirectory.open(tmp_path / "new", lock=False).config.out == tmp_path / "new"


def test_a_directory_that_holds_a_run_is_refused_and_left_alone(tmp_path: Path) -> None:
    RunDirectory.create(config_in(tmp_path)).close()
    before = (tmp_path / "config.json").read_bytes()
    other = dataclasses.replace(config_in(tmp_path), seed=9)
    with pytest.raises(UsageError, match=f"{tmp_path} holds a run; `focops resume {tmp_path}` resumes it"):
        RunDirectory.create(other)
    assert (tmp_path / "config.json").read_bytes() == before


def test_a_directory_with_other_files_can_hold_a_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    RunDirectory.create(config_in(tmp_path)).close()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UsageError, match=r"cannot make a run's directory .*; choose another --out"):
            RunDirectory.create(config_in(path))


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_an_unwritable_place_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        RunDirectory.create(config_in(tmp_path / "run"))


def test_a_place_where_the_system_refuses_to_write_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cannot .*/proc/.*choose another --out"):
        RunDirectory.create(config_in(Path("/proc/focops-run")))


def test_a_directory_without_a_run_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        RunDirectory.open(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_config_is_explained(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UsageError, match="damaged"):
        _ = RunDirectory.open(tmp_path, lock=False).config


@pytest.mark.parametrize(("name", "value"), [("versions", None), ("versions", [1]), ("changes", 5), ("changes", [5])])
def test_notes_in_a_config_that_are_no_notes_are_explained(tmp_path: Path, name: str, value) -> None:
    RunDirectory.create(config_in(tmp_path)).close()
    run = RunDirectory.open(tmp_path, lock=False)
    run.config_file.write_text(json.dumps(json.loads(run.config_file.read_text()) | {name: value}))
    with pytest.raises(UsageError, match=f"{name} is .*; it must be .*mend it"):
        _ = run.changed_versions() if name == "versions" else run.changes


@pytest.mark.parametrize("summary", [{}, {"finished": True}, {"finished": True, "steps": "many"}, {"finished": 1}])
def test_a_summary_that_is_no_summary_is_of_an_unfinished_run(tmp_path: Path, summary: dict) -> None:
    with RunDirectory.create(config_in(tmp_path)) as run:
        run.write_summary(summary)
        assert not run.is_finished()


@pytest.mark.parametrize("name", ["a\0b", "a\udcffb"])
def test_a_name_that_cannot_be_written_down_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"--out is '.*'; it must be a name in UTF-8, without NUL"):
        RunDirectory.create(config_in(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


def test_no_name_is_refused_from_python_as_on_the_command_line() -> None:
    with pytest.raises(UsageError, match=r"--out is ''; it must name a directory"):
        focops.train("PointCircle", out="")


def test_an_existing_run_that_cannot_be_read_is_not_sent_elsewhere(tmp_path: Path, monkeypatch) -> None:
    RunDirectory.create(config_in(tmp_path)).close()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(UsageError, match="check its permissions") as error:
        RunDirectory.open(tmp_path)
    assert "--out" not in str(error.value)
    with pytest.raises(UsageError, match="check its permissions") as error:
        _ = RunDirectory.open(tmp_path, lock=False).config
    assert "--out" not in str(error.value)


def test_a_second_process_on_a_run_is_refused(tmp_path: Path) -> None:
    program = "import sys; from focops.runs.directory import *; RunDirectory.open(Path(sys.argv[1]))"
    command = [sys.executable, "-c", program, str(tmp_path)]
    with RunDirectory.create(config_in(tmp_path)):
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert f"another process (pid {os.getpid()}) works on the run in {tmp_path}" in refused.stderr
    assert subprocess.run(command, check=False).returncode == 0


def test_readers_need_no_lock(tmp_path: Path) -> None:
    with RunDirectory.create(config_in(tmp_path)) as run:
        assert RunDirectory.open(tmp_path, lock=False).config == run.config


def test_a_summary_is_valid_json_whatever_its_numbers(tmp_path: Path) -> None:
    with RunDirectory.create(config_in(tmp_path)) as run:
        assert run.summary is None
        run.write_summary({"return_mean": math.nan, "steps": np.int64(5), "cost": {"speed": np.float32(0.5)}})
        assert run.summary == {"return_mean": None, "steps": 5, "cost": {"speed": 0.5}}


def test_the_default_path_is_safe_and_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda _: "NOW")
    config = dataclasses.replace(default_config("my_module:Maze/Hard-v0"), seed=4)
    assert default_path(config) == Path("runs/my_module_Maze_Hard-v0-focops-4-NOW")
    default_path(config).mkdir(parents=True)
    assert default_path(config) == Path("runs/my_module_Maze_Hard-v0-focops-4-NOW-2")
