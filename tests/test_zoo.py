"""Every policy that comes with focops loads, is of its task, and does what its card says."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import focops
from focops import cli, envs, zoo
from focops.cli import commands
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory
from focops.runs.policy_file import FILE


@pytest.fixture(scope="module")
def name() -> str:
    return "HopperSpeed"


def test_every_policy_is_of_its_task_in_float32_with_its_card_and_small() -> None:
    assert zoo.names()
    for name in zoo.names():
        home, task = zoo.located(f"zoo:{name}"), envs.find(name)
        policy, found = focops.load(f"zoo:{name}"), json.loads((home / "summary.json").read_bytes())["policy"]
        assert policy.description["task"] == RunDirectory(home).config.task == task.name
        arrays, _ = checkpoint.load(home / "policy" / FILE)
        assert {str(array.dtype) for array in arrays.values()} <= {"float32", "int32"}
        assert policy.evaluation == found
        assert f'focops.load("zoo:{name}")' in (home / "README.md").read_text()
        assert sum(file.stat().st_size for file in home.rglob("*") if file.is_file()) < 400_000


def test_the_command_in_a_card_trains_the_same_with_the_presets_as_they_are() -> None:
    """If not: python benchmarks/make_zoo.py --cards"""
    for name in zoo.names():
        config, card = RunDirectory(zoo.HOME / name).config, (zoo.HOME / name / "README.md").read_text()
        (command,) = [line for line in card.splitlines() if line.startswith("focops train ")]
        assert command == commands.train(config)


def test_the_versioned_name_is_the_same_policy(name: str) -> None:
    assert zoo.located(f"zoo:{name}-v0") == zoo.located(Path(f"zoo:{name}")) == zoo.HOME / name


def test_no_file_of_the_zoo_names_a_path_of_the_machine_that_made_it() -> None:
    for name in zoo.names():
        config = json.loads((zoo.HOME / name / "config.json").read_bytes())
        assert [config.get(entry) for entry in ("out", "init_from", "env_python")] == [None] * 3
        assert "out" not in json.loads((zoo.HOME / name / "summary.json").read_bytes())


def test_episodes_of_a_zoo_policy_lie_where_its_card_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = focops.evaluate(f"zoo:{name}", episodes=4, seeds=[7], deterministic=True)
    told = focops.load(f"zoo:{name}").evaluation["mean_action"]["discounted_cost"]["speed"]
    np.testing.assert_allclose(result.constraints["speed"].discounted_cost.mean, told, rtol=0.3)
    before = sorted(zoo.HOME.rglob("*"))
    assert cli.main(["evaluate", f"zoo:{name}", "--episodes", "2"]) == 0
    assert "not written to a file; --json FILE does that" in capsys.readouterr().out
    assert sorted(zoo.HOME.rglob("*")) == before


def test_the_list_has_reward_cost_limit_and_verdict_of_each(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["zoo"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("zoo:")}
    assert list(rows) == [f"zoo:{each}" for each in zoo.names()]
    found = focops.load(f"zoo:{name}").evaluation["sampled"]
    for value in (found["reward"], found["discounted_cost"]["speed"], found["cost_limit"]["speed"]):
        shown = [float(word) for word in re.findall(r"[\d.]+\d", rows[f"zoo:{name}"])]
        assert any(each == pytest.approx(value, rel=1e-3) for each in shown)
    assert found["verdict"]["speed"] in rows[f"zoo:{name}"]


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(focops.UsageError, match=r"no 'HoperSpeed'; did you mean zoo:HopperSpeed\? There are: .*Half"):
        focops.load("zoo:HoperSpeed")
    with pytest.raises(focops.UsageError, match=r"no '\.\./\.\.'; there are: "):
        focops.load("zoo:../..")


def test_a_zoo_policy_is_neither_resumed_nor_written_to(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(focops.UsageError, match="policy without checkpoints, which cannot be trained on"):
        focops.resume(f"zoo:{name}")
    assert cli.main(["card", f"zoo:{name}"]) == 2
    assert "give --out FILE" in capsys.readouterr().err


def test_a_run_that_is_to_start_from_a_zoo_policy_is_told_that_it_has_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(focops.UsageError, match=r"zoo:PointCircle has no checkpoint to start from.* zoo has none"):
        focops.train("PointCircle", init_from="zoo:PointCircle", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
