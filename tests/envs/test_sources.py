"""What an environment may be: an id, a name, a class, a function, an instance; and how a run finds it again."""

import functools
import json
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import focops
from focops import cli
from focops.cli import arguments
from focops.envs import make
from focops.envs.names import Given, named
from focops.errors import UsageError
from tests.probes import Coin, Push
from tests.resume.tiny import OPTIONS, results

TINY: dict[str, Any] = OPTIONS | {"cost_limit": 0.5}


def make_coin() -> gymnasium.Env:
    return Coin()


class Outer:
    class Inner(Coin):
        """A class in a class."""


def train(task: Any, out: Path, **options: Any) -> Path:
    return focops.train(task, out=out, **TINY | options).path


def recorded(run: Path) -> dict[str, Any]:
    return json.loads((run / "config.json").read_text())


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (Coin, "tests.probes:Coin"),
        (make_coin, f"{__name__}:make_coin"),
        (Outer.Inner, f"{__name__}:Outer.Inner"),
        ("tests.probes:Coin", "tests.probes:Coin"),
    ],
)
def test_what_a_module_holds_is_trained_as_its_id_is_and_found_again_by_its_name(tmp_path: Path, task, name) -> None:
    half = train(task, tmp_path / "run", steps=64 * 3)
    assert recorded(half)["task"] == name
    assert "given" not in recorded(half)
    run = focops.resume(half, steps=64 * 6).path
    by_id = focops.resume(train("tests.probes:Coin-v0", tmp_path / "id", steps=64 * 3), steps=64 * 6).path
    assert results(run)["metrics"] == results(by_id)["metrics"]
    assert focops.evaluate(run, episodes=4).task == name
    assert arguments.parse([name, "--cost-limit", "1"]).config.task == name


def local_class() -> Any:
    class Local(Coin):
        pass

    return Local


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (lambda: Coin(), f"{__name__}:<lambda>"),
        (local_class(), f"{__name__}:local_class.<locals>.Local"),
        (functools.partial(Coin), "partial instance"),
    ],
)
def test_what_no_name_finds_is_trained_and_must_be_given_again(tmp_path: Path, task, name) -> None:
    run = train(task, tmp_path / "run", steps=64 * 3)
    assert (recorded(run)["task"], recorded(run)["given"]) == (name, ["env"])
    for again in (focops.resume, focops.evaluate):
        with pytest.raises(UsageError, match=r"given in Python, .*focops.resume\(path, env=…\) or focops.evaluate"):
            again(run)
    assert focops.load(run).predict([1.0]) in (0, 1)
    assert focops.evaluate(run, episodes=4, env=task).episodes == 4
    assert focops.evaluate(run, episodes=4, env="tests.probes:Coin").episodes == 4
    assert focops.resume(run, steps=64 * 6, env=task).summary["steps"] == 64 * 6
    assert recorded(run)["given"] == ["env"]


def test_what_is_defined_in_a_script_or_a_notebook_has_no_name_that_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    of_a_script = type("MyEnv", (Coin,), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "MyEnv", of_a_script, raising=False)
    assert named(of_a_script) == ("__main__:MyEnv", of_a_script)
    of_a_notebook = type("MyEnv", (Coin,), {"__module__": "cell"})
    monkeypatch.setitem(sys.modules, "cell", type(sys)("cell"))
    sys.modules["cell"].MyEnv = of_a_notebook
    assert named(of_a_notebook) == ("cell:MyEnv", of_a_notebook)


class Closing(Coin):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_an_instance_is_stepped_alone_which_is_said_and_is_not_closed(tmp_path: Path, caplog) -> None:
    env = Closing()
    options = {name: value for name, value in TINY.items() if name != "num_envs"} | {"final_episodes": 2}
    run = focops.train(env, out=tmp_path / "run", **options)
    assert "Closing instance is one environment, stepped alone; give its class" in caplog.text
    assert recorded(run.path)["num_envs"] == 1
    assert run.summary["policy"]["sampled"]["episodes"] == 2
    assert focops.evaluate(run.path, episodes=3, env=env).episodes == 3
    assert env.closed == 0
    with pytest.raises(UsageError, match="is one environment, and num_envs is 4; it must be 1 for an instance"):
        train(env, tmp_path / "more")


def test_a_run_of_a_class_is_evaluated_in_one_instance() -> None:
    with pytest.raises(UsageError, match="is one environment, and num_envs is 2"):
        make("one", 2, limits=[1.0], given=Given(Coin()))
    assert make("one", 1, limits=[1.0], given=Given(Coin())).num_envs == 1


def test_the_time_limit_is_that_of_the_spec_or_of_a_wrapper() -> None:
    assert make("one", 1, limits=[1.0], given=Given(Coin())).spec.time_limit is None
    limited = gymnasium.wrappers.OrderEnforcing(gymnasium.wrappers.TimeLimit(Coin(), 7))
    assert make("one", 1, limits=[1.0], given=Given(limited)).spec.time_limit == 7
    gymnasium.register("LimitedCoin-v0", entry_point=Coin, max_episode_steps=5)
    assert make("one", 1, limits=[1.0], given=Given(gymnasium.make("LimitedCoin-v0"))).spec.time_limit == 5


ONE = Coin()


class NoSpaces(gymnasium.Env):
    pass


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (3, "the environment is 3; it must be an id"),
        (lambda: ONE, "made the same environment twice: make a new one in each call"),
        (lambda size: ONE, r"cannot be called without arguments \(missing a required argument: 'size'\); give a func"),
        (lambda: 3, "made 3; it must make a gymnasium.Env"),
        (lambda: 1 / 0, "could not be made: ZeroDivisionError"),
        (NoSpaces, "has no observation_space; set it"),
        ("tests.probes:Nothing", "there is no task or Gymnasium environment 'tests.probes:Nothing'"),
        ("nowhere:Nothing", "the module 'nowhere' cannot be imported"),
    ],
)
def test_what_is_no_environment_is_refused_before_there_is_a_directory(tmp_path: Path, task, message) -> None:
    with pytest.raises(UsageError, match=message):
        train(task, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_name_that_is_an_id_as_well_is_refused() -> None:
    gymnasium.register("make_coin", entry_point=Coin)
    try:
        with pytest.raises(UsageError, match="has that name and registers that id; rename one of them"):
            make(f"{__name__}:make_coin", 1, limits=[1.0])
    finally:
        del gymnasium.registry["make_coin"]


def test_another_environment_than_the_runs_is_refused(tmp_path: Path) -> None:
    run = train(Coin, tmp_path / "named", steps=64)
    with pytest.raises(UsageError, match=r"env is tests.probes:Push, but the run was trained with tests.probes:Coin,"):
        focops.evaluate(run, env=Push)
    assert focops.evaluate(run, env=Coin, episodes=2).episodes == 2
    run = train(lambda: Coin(), tmp_path / "unnamed", steps=64)
    with pytest.raises(UsageError, match=r"the environment's action_size is 1; this policy is of .*, where it is 2"):
        focops.evaluate(run, env=Push, episodes=2)
    with pytest.raises(UsageError, match=r"does not fit|another kind of network or action"):
        focops.resume(run, env=Push, steps=128)


def test_the_command_line_trains_a_class_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    words = "--steps 64 --batch-size 64 --num-envs 2 --algo.hidden 8 --algo.epochs 1 --algo.minibatch-size 32"
    out = ["--out", str(tmp_path / "run"), "--final-episodes", "0"]
    assert cli.main(["train", "tests.probes:Coin", "--cost-limit", "0.5", *words.split(), *out]) == 0
    assert "tests.probes:Coin · focops" in capsys.readouterr().out
    assert cli.main(["resume", str(tmp_path / "run"), "--steps", "128"]) == 0
    assert np.isfinite(focops.evaluate(tmp_path / "run", episodes=2).reward.mean)
