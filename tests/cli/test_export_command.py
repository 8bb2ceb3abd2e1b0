"""`focops export`."""

from pathlib import Path

import pytest

from focops import cli
from focops.runs.policy_file import save_policy
from tests.deploy.policies import SPECS, make


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    policy, folder = make("continuous"), tmp_path_factory.mktemp("policy")
    save_policy(folder, policy.params, policy.stats, SPECS["continuous"], (16, 8), "Task-v0", 7)
    return folder


def test_a_policy_is_written_and_it_is_said_how_well_it_agrees(saved: Path, tmp_path: Path, capsys) -> None:
    file = tmp_path / "policy.onnx"
    assert cli.main(["export", str(saved), str(file)]) == 0
    assert file.stat().st_size > 1000
    assert f"written to {file}" in capsys.readouterr().out


def test_another_ending_is_refused_before_anything_is_loaded(tmp_path: Path, capsys) -> None:
    assert cli.main(["export", "nowhere", str(tmp_path / "policy.pt")]) == cli.USAGE
    assert "ending must be .onnx (a graph) or .py" in capsys.readouterr().err
