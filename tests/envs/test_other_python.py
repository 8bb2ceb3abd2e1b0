"""Environments under another interpreter: old ones, steps of 4, 5 and 6 values, and what is said of an unfit one."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from focops import api as runs
from focops import evaluate
from focops.envs import make, worker_process
from focops.envs.gymnasium import GymnasiumVector
from focops.envs.local import LocalEnvs
from focops.errors import RunError, UsageError
from focops.runs.directory import RunDirectory
from tests.envs.walks import Five
from tests.resume.tiny import OURS, results, tiny

HERE = Path(__file__).parent
THIS = Path(sys.executable)
FIVE = "tests.envs.walks:Five-v0"


@pytest.fixture
def old_gym(tmp_path: Path) -> Path:
    """This interpreter with a gym of 2021."""
    file = tmp_path / "python"
    file.write_text(f'#!/bin/sh\nPYTHONPATH="{HERE}/old_gym:{HERE}" exec "{sys.executable}" "$@"\n')
    file.chmod(0o755)
    return file


@pytest.fixture(scope="session")
def old_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with a Gymnasium of 2023, and without focops and JAX."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-compile", "gymnasium==0.28.1", "numpy<2"], check=True)
    return folder


def walk(name: str, python: Path | None, workers: int = 2):
    return make(name, 4, limits=[1.0], workers=workers, python=python)


def episodes(env) -> list[np.ndarray]:
    env.reset(3)
    found = [env.obs.copy()]
    for t in range(12):
        step = env.step(np.full((4, 1), 0.1 * (t % 5), np.float32))
        found += [*step, env.obs.copy()]
    env.close()
    return found


def same(found: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", ["Five-v0", "Six-v0", "Unregistered-v0"])
def test_steps_of_five_and_six_values_are_those_of_this_process(name: str) -> None:
    expected = walk(FIVE, None, workers=0)
    env = walk(f"tests.envs.walks:{name}", THIS)
    assert env.spec.obs_size == expected.spec.obs_size == 5
    assert (env.spec.action_low, env.spec.action_high) == ((-1.0,), (1.0,))
    if name != "Unregistered-v0":  # whose time limit nobody has told
        assert env.spec == expected.spec
        assert same(episodes(env), episodes(expected))


def test_steps_of_four_values_under_an_old_gym_are_those_of_this_process(old_gym: Path) -> None:
    assert same(episodes(walk("walks:Four-v0", old_gym)), episodes(walk(FIVE, None, workers=0)))


def test_an_old_gymnasium_in_a_virtual_environment_trains_to_the_same_bytes(tmp_path: Path, old_venv: Path) -> None:
    expected = results(runs.run(tiny(FIVE, tmp_path / "here", env_workers=0)).path)
    config = tiny(FIVE, tmp_path / "there", env_workers=2, env_python=old_venv)
    stops = iter([False, False, True] + [False] * 9)
    run = runs.run(config, should_stop=lambda: next(stops)).path
    written = json.loads((run / "config.json").read_text())
    assert written["env_python"] == str(old_venv)
    assert written["versions"]["env_gymnasium"] == "0.28.1"
    assert written["versions"]["env_numpy"].startswith("1.")
    assert written["versions"]["env_python"] == written["versions"]["python"]
    assert RunDirectory(run).changed_versions() == []
    assert f"env_gymnasium 0.28.1 is now {written['versions']['gymnasium']}" in RunDirectory(run).changed_versions(THIS)
    assert runs.resume(run).summary["finished"]
    assert results(run)["policy"] == expected["policy"]
    assert results(run)["metrics"] == expected["metrics"]
    there = evaluate(run, episodes=30)
    assert evaluate(run, episodes=30, env_python=THIS, env_workers=1).reward == there.reward


def test_what_an_environment_raises_there_is_named_with_its_place_and_seed(monkeypatch) -> None:
    monkeypatch.setenv("FAULT", "raise")
    message = r"environment \d .* out of coffee \(.*walks.py:\d+\) in step at step 4 \(the seed of its episode: \d+\)"
    with pytest.raises(RunError, match=message):
        episodes(walk(FIVE, THIS))


def test_the_interpreter_is_checked_before_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no program")
    answers = {"none": "exit 3", "talks": "echo hello", "old": 'echo \'{"python": "3.7.1", "numpy": "1", "gym": "1"}\''}
    answers["bare"] = 'echo \'{"python": "3.9.1"}\''
    for name, line in answers.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    for name, message in {
        "gone": "which does not exist; give an interpreter, or the folder of a virtual environment",
        "empty": "which has no bin/python",
        "text": "text is not executable",
        "none": "fails when asked for its packages: exit status 3",
        "talks": "is no Python interpreter",
        "old": r"is Python 3.7.1; it must be 3.8 or newer",
        "bare": r"numpy and gymnasium \(or gym\) cannot be imported there; install .* pip install numpy gymnasium",
    }.items():
        if name == "text" and os.geteuid() == 0 and os.access(tmp_path / name, os.X_OK):
            continue
        with pytest.raises(UsageError, match=f"--env-python is {tmp_path / name}.*{message}"):
            walk(FIVE, tmp_path / name)


def test_our_own_tasks_refuse_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--env-python is .*left out for PointCircle-v0\. It is for Gymnasium"):
        runs.run(tiny(OURS, tmp_path / "run", env_python=THIS))


def test_what_cannot_be_made_there_says_why_and_who() -> None:
    with pytest.raises(UsageError, match=rf"tests.envs.walks:None-v0 could not be made by {THIS}: KeyError"):
        walk("tests.envs.walks:None-v0", THIS)


@pytest.mark.parametrize("name", ["worker.py", "plain_env.py", "contract.py"])
def test_the_workers_files_need_python_3_8_the_standard_library_and_numpy(name: str) -> None:
    tree = ast.parse(worker_process.PROGRAM.with_name(name).read_text(), feature_version=(3, 8))
    imported = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert {each.partition(".")[0] for each in imported} <= {*sys.stdlib_module_names, "numpy"}


PLACES = {"no worker": {"workers": 0}, "workers": {"workers": 2}, "another python": {"workers": 2, "python": THIS}}
COSTS = {
    "named": {"name": "tests.envs.walks:Named", "limits": {"torque": 1.0, "speed": 2.0}},
    "computed": {"name": "tests.envs.walks:NoCost", "limits": [1.0], "cost": "tests.envs.walks:torque"},
    "none": {"name": "tests.envs.walks:NoCost", "needs_cost": False},
}


@pytest.mark.parametrize("place", ["workers", "another python"])
@pytest.mark.parametrize("costs", COSTS)
def test_classes_and_costs_of_all_kinds_are_the_same_everywhere(costs: str, place: str, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE.parents[1]))
    here, there = (make(num_envs=4, **COSTS[costs], **PLACES[each]) for each in ("no worker", place))
    names = {"named": ["torque", "speed"], "computed": ["cost"], "none": []}
    assert [c.name for c in there.spec.constraints] == names[costs]
    assert here.spec == there.spec
    assert same(episodes(here), episodes(there))


FAULTS = {
    "OneMore": r"'drag': 1.0} as its cost at step 3: it must be a mapping from torque, speed, as in the first step",
    "Switches": r"an observation that is not of its observation space MultiDiscrete.* at step 3 \(.* is not within ",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_refused_is_the_same_everywhere(name: str, place: str, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE.parents[1]))
    limits = {"torque": 1.0, "speed": 2.0} if name == "OneMore" else [1.0]
    env = make(f"tests.envs.walks:{name}", 4, limits=limits, **PLACES[place])
    with pytest.raises(RunError, match=rf"environment 0 of tests.envs.walks:{name} returned .*{FAULTS[name]}"):
        episodes(env)


@pytest.mark.parametrize("place", PLACES)
def test_a_missing_cost_is_refused_with_the_way_out(place: str, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE.parents[1]))
    with pytest.raises(UsageError, match=r"NoCost returns no cost: (.|\n)*--cost my_module:my_cost(.|\n)*--algo ppo"):
        make("tests.envs.walks:NoCost", 4, limits=[1.0], **PLACES[place])


def test_what_no_name_finds_stays_in_this_process() -> None:
    env = GymnasiumVector(lambda: Five(), 4, limits=[1.0], workers=None)
    assert isinstance(env._envs, LocalEnvs)
    env.close()
    with pytest.raises(UsageError, match=r"lambda.* cannot go to worker processes.*leave out --env-workers"):
        GymnasiumVector(lambda: Five(), 4, limits=[1.0], workers=2)
