"""What is shipped: the wheel, the source distribution, and the extras."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import focops
from focops import cli
from tests.studies.factory import make_grid

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    "gpu": [("mujoco.mjx", "train PointCircle --backend mjx")],
    "wandb": [("wandb", "train PointCircle --wandb")],
    "onnx": [("onnx", "export zoo:HopperSpeed policy.onnx")],
    "video": [("imageio_ffmpeg", "record zoo:HopperSpeed --steps 2"), ("PIL", "record zoo:HopperSpeed --steps 2")],
    "hub": [
        ("huggingface_hub", "card zoo:HopperSpeed --out card.md"),
        ("huggingface_hub", "card zoo:HopperSpeed --out card.md --push USER/REPO"),
    ],
    "tune": [("optuna", "tune PointCircle")],
    "ray": [("ray", "study speed-limit --engine ray --seeds 1 --tasks HopperSpeed")],
    "plot": [("matplotlib.figure", "plot GRID --out GRID/plot.png"), ("plotly", "report GRID")],
}
"""Of each extra: a module of it, and a command that needs it."""
FOR_DEVELOPERS = {"bench", "dev", "docs"}


def not_source(folder: str, names: list[str]) -> set[str]:
    generated = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")(folder, names)
    return generated | ({"build", "dist", "runs"} if folder == str(ROOT) else set())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a wheel and a source distribution, made from a copy: building leaves files behind."""
    if int(importlib.metadata.version("setuptools").split(".")[0]) < 77:
        pytest.skip("setuptools is too old to build focops; scripts/setup dev installs a newer one")
    copy = tmp_path_factory.mktemp("build") / "focops"
    shutil.copytree(ROOT, copy, ignore=not_source)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "dist"


def source_files() -> set[str]:
    files = (path for path in (ROOT / "src").rglob("*") if path.is_file())
    return {
        path.relative_to(ROOT / "src").as_posix()
        for path in files
        if "__pycache__" not in path.parts and "egg-info" not in str(path)
    }


def metadata(built: Path) -> Message:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        return Parser().parsestr(wheel.read(next(n for n in wheel.namelist() if n.endswith("/METADATA"))).decode())


def test_the_wheel_has_every_file_of_the_package(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert shipped == source_files()
    assert {"focops/py.typed", "focops/studies/published.toml", "focops/studies/page/report.js"} <= shipped


def test_the_source_distribution_has_its_tests_and_what_they_read(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as source:
        shipped = {"/".join(name.split("/")[1:]) for name in source.getnames()}
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert tests | pages | {"LICENSE", "README.md", "constraints.txt", "scripts/test"} <= shipped


def outside(folder: Path, path: Path, *command: str) -> str:
    """What a program prints in a folder without the repository, with the packages of this Python and `path`."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PYTHONPATH": str(path)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_installs_and_works_outside_the_repository(built: Path, tmp_path: Path) -> None:
    installed, work = tmp_path / "installed", tmp_path / "work"
    work.mkdir()
    pip = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    outside(work, installed, sys.executable, *pip, "--target", str(installed), str(next(built.glob("*.whl"))))
    where = outside(work, installed, sys.executable, "-c", "import focops; print(focops.__file__)")
    assert where.strip() == str(installed / "focops/__init__.py")
    script = [sys.executable, str(installed / "bin/focops")]
    assert "zoo:HopperSpeed" in outside(work, installed, *script, "zoo")
    small = (
        "train PointCircle --steps 64 --batch-size 64 --num-envs 8 --algo.minibatch-size 32 --final-episodes 2 --out r"
    )
    assert "PointCircle" in outside(work, installed, *script, *small.split(), "--out", "r")
    assert "policy" in outside(work, installed, *script, "export", "r", "policy.py")


def test_the_tests_of_the_source_distribution_run_in_it(built: Path, tmp_path: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as source:
        source.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    some = ["tests/tabular/test_lp.py", "tests/studies/test_published.py"]
    said = outside(folder, folder / "src", sys.executable, "-m", "pytest", *some, "-p", "no:cacheprovider")
    assert "passed" in said or "100%" in said


def test_the_metadata_say_what_an_index_asks_for(built: Path) -> None:
    found = metadata(built)
    assert found["License-Expression"] == "MIT"
    assert found["License-File"] == "LICENSE"
    assert found["Version"] == focops.__version__
    assert found["Author"] == "the focops authors"
    assert found["Requires-Python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    assert str(found.get_payload()).startswith("# focops")
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.13"} <= set(found.get_all("Classifier") or [])
    assert "safe RL" in found["Keywords"]
    assert found.get_all("Project-URL") == ["Paper, https://arxiv.org/abs/2002.06506"]


def test_every_extra_for_users_is_tested_here() -> None:
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - FOR_DEVELOPERS


def test_an_extra_brings_the_modules_that_are_imported() -> None:
    names = importlib.metadata.packages_distributions()
    for extra, needs in EXTRAS.items():
        promised = {re.split(r"[<>=\[;~! ]", need)[0].lower() for need in PROJECT["optional-dependencies"][extra]}
        for module in (module.split(".")[0] for module, _ in needs):
            if module in names:  # installed here: the extra must bring it
                assert promised & {name.lower() for name in names[module]}, f"{extra} does not bring {module}"


@pytest.mark.parametrize(
    ("extra", "module", "command"), [(extra, *each) for extra, needs in EXTRAS.items() for each in needs]
)
def test_a_missing_extra_is_named(extra: str, module: str, command: str, tmp_path, monkeypatch, capsys) -> None:
    make_grid(tmp_path / "grid", seeds=1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISPLAY", "")
    for loaded in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, module, None)  # importing it raises ImportError
    assert cli.main(command.replace("GRID", "grid").split()) == 2
    assert f"pip install 'focops[{extra}]'" in capsys.readouterr().err
