"""The commands that a run suggests are complete: as printed, in a shell, they do what they say."""

import dataclasses
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from focops import cli
from focops.cli import arguments, commands
from focops.runs.directory import RunDirectory


@pytest.mark.parametrize(
    "words",
    [
        "",
        "AntCircle --preset paper --seed 4",
        "HopperSpeed --cost-limit 60 --algo.temperature 1.0 --exact --threads 2",
        "HopperSpeed --backend mjx --self-contacts 3 --steps 2M",
        "tests.probes:TwoCoins-v0 --algo cpo --cost-limit 0.1 3 --cost-discount 0.9 0.8 --fresh-episodes True",
        "tests.probes:TwoCoins --cost-limit cost_0=0.1 cost_1=3 --algo.nu-max inf --algo.hidden 8 9 --algo.settle True",
        "tests.probes:Coin --algo ppo --cost tests.probes:cost --cost-limit 1 --env-timeout 2.5 --final-episodes 0",
        "tests.probes:Coin --algo trpo --from runs/before --algo.init-log-std -1.5 --cost-limit 1e-7",
    ],
)
def test_the_command_of_a_run_gives_its_config_again(words: str) -> None:
    config = arguments.parse(words.split()).config
    focops, train, *again = shlex.split(commands.train(config))
    assert (focops, train) == ("focops", "train")
    assert "--steps" in again
    assert arguments.parse(again).config == config


def words_of(line: str) -> list[str]:
    """What a shell hands to `focops`, which runs here: a process of its own would only import and compile again."""
    shell = ["bash", "-c", rf"""focops() {{ printf '%s\0' "$@"; }}; {line}"""]
    return subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]


@pytest.mark.parametrize(
    "words",
    [
        "tests.probes:TwoCoins --cost-limit cost_0=0.3 cost_1=0.2 --algo.minibatch-size 32",
        "tests.probes:Coin --algo ppo --cost-limit 1 --algo.minibatch-size 32",
        "PointCircle --algo trpo --cost-limit 3.5",
    ],
)
def test_what_a_finished_run_prints_runs_as_printed(tmp_path: Path, capsys, monkeypatch, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    small = "--steps 128 --batch-size 64 --num-envs 4 --algo.hidden 8 --final-episodes 0 --seed 5"
    assert cli.main(["train", *words.split(), *small.split(), "--out", "a run's"]) == 0
    printed = re.findall(r"focops (?:evaluate|resume|train) .*", capsys.readouterr().out)
    assert [line.split()[1] for line in printed] == ["evaluate", "resume", "train"]
    for line in printed:
        assert cli.main(words_of(line)) == 0
    run = RunDirectory(tmp_path / "a run's")
    assert (tmp_path / "a run's" / "evaluation.json").is_file()
    assert run.summary["steps"] == 256
    (another,) = (tmp_path / "runs").iterdir()
    before = dataclasses.replace(run.config, seed=6, steps=128, out=another)
    assert RunDirectory(another).config == before
