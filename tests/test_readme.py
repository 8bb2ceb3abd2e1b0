"""The commands and programs of README and docs do what they say."""

import contextlib
import dataclasses
import functools
import io
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import tyro

import focops
from focops import api as runs
from focops import cli
from focops.cli import arguments, grid, study_runs, tune_command
from focops.config import TrainConfig
from focops.studies import definition
from tests.studies.factory import make_grid
from tests.video.test_record import Grey

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


TRAINED = [ROOT / "docs" / name for name in ("commands.md", "environments.md", "workers.md", "many-runs.md")]
"""Pages whose commands are trained, for a batch; those of the others differ in numbers only, and are checked."""
MODULE = "# my_package.py"
PRINTING = ("tasks", "algos", "solve", "zoo")
USING = ("evaluate", "export", "record", "card", "resume")
"""Commands that take a run."""


def shell_lines(pages: Sequence[Path]) -> list[str]:
    """Every line of a shell block, without its comment."""
    blocks = [block for page in pages for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)]
    return [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]


def commands(pages: Sequence[Path] = PAGES) -> list[str]:
    """Every `focops …` line, without what it is redirected to."""
    return sorted({line.split(">")[0].strip() for line in shell_lines(pages) if line.startswith("focops ")})


def mentioned() -> list[str]:
    """Every `focops …` within a sentence."""
    texts = [re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL) for page in PAGES]
    return sorted({" ".join(found.split()) for text in texts for found in re.findall(r"`(focops [^`]*)`", text)})


def of(*names: str) -> list[str]:
    """The documented commands of these names."""
    return [command for command in commands() if command.split()[1] in names]


def programs(page: Path) -> list[str]:
    """The Python blocks of a page, but for the module of docs/environments.md."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    return [block for block in blocks if not block.startswith(MODULE)]


@pytest.fixture(scope="session")
def my_package(tmp_path_factory):
    """The module of docs/environments.md."""
    (code,) = re.findall(rf"```python\n{MODULE}\n(.*?)```", (ROOT / "docs/environments.md").read_text(), re.DOTALL)
    folder = tmp_path_factory.mktemp("docs")
    (folder / "my_package.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{ROOT}")  # for another Python
        yield


def tiny(config: TrainConfig, out: Path) -> TrainConfig:
    """The same run, one small batch long."""
    algo = dataclasses.replace(config.algo, **{"minibatch_size": 32} if hasattr(config.algo, "minibatch_size") else {})
    return dataclasses.replace(
        config, algo=algo, batch_size=64, steps=64, num_envs=min(config.num_envs, 32), final_episodes=0, out=out
    )


def test_there_are_commands_to_test():
    assert "focops train" in commands()
    assert len(commands()) > 5


def trainings(pages: Sequence[Path]) -> list[str]:
    return [command for command in commands(pages) if command.startswith("focops train") and "--help" not in command]


@pytest.mark.parametrize("command", sorted(set(trainings(PAGES)) - set(trainings(TRAINED))))
@pytest.mark.usefixtures("my_package")
def test_a_documented_training_command_can_be_trained(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = command.split()[2:]
    for point in [point.words for point in grid.expand(grid.split(words))] or [words]:
        arguments.check(arguments.parse(point))


@pytest.mark.parametrize("command", trainings(TRAINED))
@pytest.mark.usefixtures("my_package")
def test_a_documented_training_command_trains(command, tmp_path):
    words = command.removeprefix("focops train")
    words = words.replace("safety_gymnasium:SafetyPointGoal1-v0", "tests.envs.walks:Six-v0")
    words = words.replace("DIR", sys.executable).split()
    if "mjx" in words:  # a robot's simulation takes a minute to compile there; tests/envs/test_mjx.py has them
        words[0] = "PointCircle"
    points = [point.words for point in grid.expand(grid.split(words))] or [words]
    for number, point in enumerate(points):
        options = arguments.parse(point)
        config = tiny(options.config, tmp_path / str(number))
        if number == 0:
            assert runs.run(config).summary["finished"]
        else:
            arguments.check(dataclasses.replace(options, config=config))


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("focops study") and "gpu" not in c])
def test_a_documented_study_can_be_trained(command):
    options = tyro.cli(study_runs.StudyOptions, args=command.split()[2:])
    study = definition.narrowed(definition.load(options.study), tasks=options.tasks, seeds="0")
    assert all(arguments.parse(point.words) for point in study_runs.points_of(study, "cpu"))


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("focops tune")])
def test_a_documented_search_can_be_begun(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tune_command, "_run", lambda *_: 0)
    assert cli.main(command.split()[1:]) == 0


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith(("focops plot", "focops report"))])
def test_a_documented_command_that_reads_runs_reads_them(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISPLAY", "")
    words = command.split()[1:]
    for folder in (word for word in words if word.startswith("runs/") and not Path(word).suffix):
        make_grid(tmp_path / folder, seeds=2)
    assert cli.main(words) == 0


@functools.cache
def help_of(name: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert cli.main([name, "--help"]) == 0
    return shown.getvalue()


@pytest.mark.parametrize("command", sorted({*commands(), *mentioned()}))
def test_a_documented_command_has_its_flags(command):
    name, *words = command.split()[1:]
    if name in ("--help", "COMMAND"):
        return
    shown = help_of(name) + (help_of("train") if name in ("tune", "resume") else "")  # which pass flags on
    for flag in (word for word in words if word.startswith("--") and not word.startswith("--algo.")):
        assert re.search(rf"{flag}\b", shown), f"{command}: no {flag}"


@pytest.mark.parametrize("command", ["--help", "--version", *(c.removeprefix("focops ") for c in of(*PRINTING))])
def test_what_only_prints_prints(command, capsys):
    assert cli.main(command.split()) == 0
    assert len(capsys.readouterr().out) > 10


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """A run of one batch, with a policy and a summary."""
    path = tmp_path_factory.mktemp("small") / "run"
    small = dict(minibatch_size=32, hidden=(4,), epochs=1, steps=64, batch_size=64, num_envs=8, final_episodes=2)
    focops.train("PointCircle", out=path, **small)
    return path


@pytest.mark.parametrize("command", [c for c in of(*USING) if " runs/" in c and "mjx" not in c])
def test_a_documented_command_that_takes_a_run_works(command, small_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("focops.envs.scene.Scene", Grey)
    words = re.sub(r"--steps \d+k?", "--steps 128", re.sub(r"--episodes \d+", "--episodes 2", command)).split()[1:]
    for folder in (word for word in words if word.startswith("runs/") and not Path(word).suffix):
        shutil.copytree(small_run, folder)
    before = set(tmp_path.rglob("*"))
    assert cli.main(words) == 0
    assert words[0] in ("evaluate", "resume") or set(tmp_path.rglob("*")) - before, "nothing was written"


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    short = example.replace("steps=20_000", "steps=2048, final_episodes=2")
    assert short != example
    exec(short, names)
    assert names["action"].shape == (6,)
    assert "151.989" in capsys.readouterr().out


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with a policy as docs/deploy.md exports it."""
    folder = tmp_path_factory.mktemp("programs")
    for file in ("policy.onnx", "policy.py"):
        focops.load("zoo:HalfCheetahSpeed").export(folder / file)
    return folder


@pytest.mark.parametrize("page", [p for p in PAGES[1:] if programs(p)], ids=lambda page: page.stem)
@pytest.mark.usefixtures("my_package")
def test_the_programs_of_a_page_run(page, exported, monkeypatch):
    monkeypatch.chdir(exported)
    monkeypatch.syspath_prepend(exported)
    names: dict = {"focops": focops, "observation": [0.0] * 17}
    for program in programs(page):
        exec(program, names)


def test_a_documented_program_of_the_repository_exists():
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    found = {
        match[1] for line in shell_lines(pages) if (match := re.match(r"(?:python )?((?:scripts|docs|bench)\S+)", line))
    }
    assert {"scripts/train", "scripts/test", "docs/make_site.py"} <= found
    assert all((ROOT / name).is_file() for name in found), found


def test_every_link_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
