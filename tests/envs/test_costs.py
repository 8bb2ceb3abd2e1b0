"""Costs: by name, computed by a function of the user's, or none at all."""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from rich.console import Console

import focops
from focops import cli
from focops.algorithms import ALGORITHMS, is_constrained
from focops.cli import arguments, evaluation_table, grid
from focops.core.spec import Constraint
from focops.display.progress import LiveDisplay, line
from focops.display.summary import summary_text
from focops.envs import make
from focops.envs.names import Given
from focops.errors import RunError, UsageError
from tests.resume.tiny import OPTIONS, metrics, results


class Robot(gymnasium.Env):
    """Each step costs speed 0.1 and torque |a|; the mapping's order changes at every step. `fault` at step 3."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    fault: ClassVar[dict[str, Any]] = {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.normal(size=1).astype(np.float32), {}

    def step(self, action):
        self.t += 1
        cost = {"speed": 0.1, "torque": abs(float(action[0]))}
        cost = dict(reversed(cost.items())) if self.t % 2 == 0 else cost
        cost = Robot.fault if Robot.fault and self.t == 3 else cost
        return self.np_random.normal(size=1).astype(np.float32), 1.0, False, self.t == 5, {"cost": cost}


class Plain(Robot):
    """The same without a cost."""

    def step(self, action):
        return *super().step(action)[:4], {}


if "LimitedRobot-v0" not in gymnasium.registry:
    gymnasium.register("LimitedRobot-v0", entry_point=Robot, max_episode_steps=5)
LIMITED = f"{__name__}:LimitedRobot-v0"
ROBOT, PLAIN = f"{__name__}:Robot", f"{__name__}:Plain"
LIMITS = {"speed": 25.0, "torque": 3.0}


def effort(obs: Any, action: Any, reward: float, info: dict[str, Any]) -> dict[str, float]:
    return {"effort": float(action[0] ** 2), "place": abs(float(obs[0])), "reward": reward, "info": len(info)}


def actions(env: Any, value: float = 0.5) -> np.ndarray:
    return np.full((env.num_envs, 1), value, np.float32)


def tiny(task: Any, out: Path, **options: Any) -> focops.Run:
    return focops.train(task, out=out, **OPTIONS | options)


def test_costs_are_matched_by_name_whatever_order_a_step_has():
    env = make(ROBOT, 2, limits=LIMITS)
    assert [(c.name, c.limit) for c in env.spec.constraints] == [("speed", 25.0), ("torque", 3.0)]
    for _ in range(4):
        np.testing.assert_allclose(env.step(actions(env)).cost, [[0.1, 0.5]] * 2)


def test_numbers_are_in_the_order_of_the_first_step_and_names_in_their_own():
    by_order = make(ROBOT, 1, limits=[25, 3], discounts=[0.9, 0.8]).spec.constraints
    assert by_order == (Constraint("speed", 25.0, 0.9), Constraint("torque", 3.0, 0.8))
    env = make(ROBOT, 1, limits={"torque": 3, "speed": 25}, discounts={"torque": 0.8})
    assert env.spec.constraints == (Constraint("torque", 3.0, 0.8), Constraint("speed", 25.0, 0.99))
    np.testing.assert_allclose(env.step(actions(env)).cost, [[0.5, 0.1]])


def test_our_tasks_and_costs_without_names_take_limits_by_name_too():
    assert make("HopperSpeed", 1, limits={"speed": 60}).spec.constraints[0].limit == 60
    two = make("tests.probes:TwoCoins-v0", 1, limits={"cost_1": 2, "cost_0": 1}).spec.constraints
    assert {c.name: c.limit for c in two} == {"cost_0": 1, "cost_1": 2}


@pytest.mark.parametrize(
    ("limits", "discounts", "message"),
    [
        ({"sped": 25, "torque": 3}, None, "--cost-limit is given for sped; the costs of .*:Robot are: speed, torque"),
        (LIMITS, {"drag": 1}, "--cost-discount is given for drag; the costs of .* are: speed, torque"),
        ({"torque": 3}, None, "has 2 cost.s. and no limit of its own for speed: give --cost-limit speed=B torque=B"),
        (None, None, "has 2 cost.s. and no limit of its own for speed: give --cost-limit speed=B torque=B"),
        ([25], None, r"has 2 cost\(s\) \(speed, torque\), but 1 limit\(s\) were given"),
    ],
)
def test_names_that_do_not_fit_are_refused_with_those_there_are(limits, discounts, message):
    with pytest.raises(UsageError, match=message):
        make(ROBOT, 1, limits=limits, discounts=discounts)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"speed": 1.0}, r"returned {'speed': 1.0} as its cost at step 2: it must be a mapping from speed, torque"),
        ({"speed": 1.0, "torque": 1.0, "drag": 1.0}, r"'drag': 1.0} as its cost .* as in the first step"),
        ({"speed": "fast", "torque": 1.0}, "returned 'fast' as its cost 'speed' at step 2: it must be a number"),
        (1.0, "returned 1.0 as its cost"),
    ],
)
def test_a_step_with_other_costs_than_the_first_is_refused(monkeypatch, fault, message):
    monkeypatch.setattr(Robot, "fault", fault)
    env = make(ROBOT, 1, limits=LIMITS)
    env.step(actions(env))
    env.step(actions(env))
    with pytest.raises(RunError, match=message):
        env.step(actions(env))


@pytest.mark.parametrize("cost", [{}, {1: 2.0}, [[1.0]], []])
def test_what_is_no_cost_is_refused(cost):
    with pytest.raises(UsageError, match="it must be a number, a vector, or a mapping from names"):
        make("it", 1, limits=[1], given=Given(Plain, lambda *_: cost))


def test_names_reach_metrics_summary_evaluation_and_config(tmp_path: Path) -> None:
    run = tiny(Robot, tmp_path / "run", cost_limit=(25, 3), final_episodes=2)
    assert json.loads((run.path / "config.json").read_text())["cost_limit"] == LIMITS
    record = metrics(run.path)[-1]
    for key in ("discounted_cost_mean", "undiscounted_cost_mean", "cost_limit", "cost_return_estimate", "nu"):
        assert {f"{key}/speed", f"{key}/torque"} <= record.keys()
    assert "speed 0.49" in line(record, SimpleNamespace(rate=None, left=lambda _: None))
    assert run.summary["cost_limit"] == LIMITS
    assert run.summary["policy"]["sampled"]["verdict"].keys() == LIMITS.keys()
    assert list(focops.evaluate(run.path, episodes=4).constraints) == ["speed", "torque"]
    assert focops.resume(run.path, steps=64 * 8).summary["discounted_cost_mean"]["speed"] == pytest.approx(0.4901, 1e-3)


def test_limits_by_name_are_flags_and_may_vary_in_a_grid():
    words = [ROBOT, "--cost-limit", "speed=25", "torque=3", "--cost-discount", "torque=0.9", "--seed", "1"]
    config = arguments.parse(words).config
    assert (config.cost_limit, config.cost_discount) == (LIMITS, {"torque": 0.9})
    assert arguments.parse(["--cost-limit", "speed=25", "torque=3", ROBOT]).config.task == ROBOT
    points = grid.expand(grid.split([ROBOT, "--cost-limit", "speed=25,30", "torque=3"]))
    found = [arguments.parse(point.words).config.cost_limit for point in points]
    assert found == [{"speed": 25.0, "torque": 3.0}, {"speed": 30.0, "torque": 3.0}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("speed=25 3", "is neither a number for each cost nor NAME=NUMBER for each, once"),
        ("speed=25 speed=3", "is neither a number for each cost nor NAME=NUMBER for each, once"),
        ("speed=", "'speed=' is neither a number nor NAME=NUMBER"),
        ("speed=25 torque=much", "'torque=much' is neither a number nor NAME=NUMBER"),
    ],
)
def test_limits_that_are_neither_numbers_nor_named_are_refused(capsys, words, message):
    assert cli.main(["train", ROBOT, "--cost-limit", *words.split()]) == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_function_computes_the_cost_from_what_the_step_returned():
    limits = dict.fromkeys(("effort", "place", "reward", "info"), 1.0)
    env = make(PLAIN, 2, limits=limits, cost=f"{__name__}:effort")
    step = env.step(actions(env, 0.5))
    np.testing.assert_allclose(step.cost[:, 0], 0.25)
    np.testing.assert_allclose(step.cost[:, 1], np.abs(step.next_obs[:, 0]))
    np.testing.assert_allclose(step.cost[:, 2:], [[1.0, 0.0]] * 2)


def test_a_run_finds_the_cost_again_by_its_name_or_says_what_to_pass(tmp_path: Path) -> None:
    limits = dict.fromkeys(("effort", "place", "reward", "info"), 1.0)
    run = tiny(Plain, tmp_path / "named", cost=effort, cost_limit=limits).path
    assert json.loads((run / "config.json").read_text())["cost"] == f"{__name__}:effort"
    assert focops.evaluate(run, episodes=2).constraints.keys() == limits.keys()
    lonely = lambda obs, action, reward, info: 0.5
    run = tiny(Plain, tmp_path / "unnamed", cost=lonely, cost_limit=1).path
    assert json.loads((run / "config.json").read_text())["given"] == ["cost"]
    with pytest.raises(UsageError, match=r"used a cost function given in Python, .*focops.resume\(path, cost=…\)"):
        focops.resume(run)
    assert focops.resume(run, cost=lonely, steps=64 * 7).summary["undiscounted_cost_mean"]["cost"] == 2.5
    assert focops.evaluate(run, cost=lonely, episodes=2).constraints["cost"].undiscounted_cost.mean == 2.5


def test_a_cost_of_ones_own_replaces_the_environments_which_is_said(caplog) -> None:
    env = make("it", 1, limits=[1], given=Given(Robot, lambda *_: 7.0))
    assert env.step(actions(env)).cost.tolist() == [[7.0]]
    assert "Robot has a cost of its own; --cost" in caplog.text


@pytest.mark.parametrize(
    ("task", "cost", "message"),
    [
        (PLAIN, "effort", "--cost is 'effort'; it must be written module:function"),
        (PLAIN, f"{__name__}:nothing", "has no function 'nothing'; define it there"),
        (PLAIN, "nowhere:cost", "the module 'nowhere' cannot be imported"),
        ("HopperSpeed", f"{__name__}:effort", "HopperSpeed-v0 is a task of ours, with its own: leave --cost out"),
    ],
)
def test_a_cost_that_cannot_be_used_is_refused(task, cost, message):
    with pytest.raises(UsageError, match=message):
        make(task, 1, limits=[1.0], cost=cost)
    with pytest.raises(UsageError, match="cost is 3; it must be a function of"):
        make(PLAIN, 1, limits=[1.0], given=Given(Plain, 3))


def test_only_ppo_and_trpo_ignore_costs():
    assert {name for name in ALGORITHMS if not is_constrained(name)} == {"ppo", "trpo"}


@pytest.mark.parametrize("algo", ["ppo", "trpo"])
def test_an_unconstrained_algorithm_trains_without_a_cost_and_resumes_exactly(tmp_path: Path, algo, capsys) -> None:
    options = OPTIONS if algo == "ppo" else {k: v for k, v in OPTIONS.items() if k not in ("epochs", "minibatch_size")}
    whole = focops.train(Plain, algo=algo, out=tmp_path / "whole", **options | {"final_episodes": 2})
    stops = iter([False, False, False, True])
    half = focops.train(Plain, algo=algo, out=tmp_path / "half", callbacks=[lambda _: next(stops)], **options).path
    resumed = focops.resume(half)
    assert results(resumed.path)["metrics"] == results(whole.path)["metrics"]
    assert not [key for key in metrics(half)[-1] if "cost" in key or "nu" in key]
    summary = whole.summary
    assert (summary["cost_limit"], summary["satisfied"], summary["training_within_limits"]) == ({}, None, None)
    assert summary["policy"]["sampled"]["reward"] == 5.0
    focops.load(whole.path).predict([0.0], deterministic=True)  # no warning
    assert cli.main(["evaluate", str(whole.path), "--episodes", "4"]) == 0
    assert cli.main(["evaluate", str(whole.path), str(half), "--episodes", "4"]) == 0
    said = capsys.readouterr().out
    assert "reward" in said
    assert "verdict" not in said
    assert "cost " not in shown(summary_text(summary))


def test_a_constrained_algorithm_needs_a_cost_and_a_limit_needs_one_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Plain returns no cost: (.|\n)*--cost my_module:my_cost(.|\n)*--algo ppo"):
        tiny(Plain, tmp_path / "run", cost_limit=1)
    with pytest.raises(
        UsageError, match=r"--cost-limit is given, but .*Plain returns no cost: leave it out, or compute"
    ):
        tiny(Plain, tmp_path / "run", algo="ppo", cost_limit=1)


def shown(what: Any) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(what)
    return console.file.getvalue()


def live(constraints: list[Constraint], record: dict[str, Any]) -> str:
    display = LiveDisplay(Console(file=io.StringIO()))
    algo = SimpleNamespace(network=None)
    config = SimpleNamespace(task="t", algorithm="a", algo=algo, preset="p", seed=0, out=None)
    display.start(config, SimpleNamespace(constraints=constraints))
    display.update({"samples": 1, "steps": 2} | record)
    display.stop()
    return shown(display._render())


def test_a_discount_of_1_is_never_called_discounted(tmp_path: Path) -> None:
    run = tiny(LIMITED, tmp_path / "run", cost_limit=LIMITS, cost_discount=(1, 1), final_episodes=2)
    assert "discounted" not in shown(summary_text(run.summary))
    assert "discounted" not in shown(evaluation_table.one(focops.evaluate(run.path, episodes=2)))
    record = metrics(run.path)[-1]
    both = [Constraint(name, limit, 1.0) for name, limit in LIMITS.items()]
    assert "discounted" not in live(both, record)
    assert live([both[0], Constraint("torque", 3.0, 0.9)], record).count("discounted") == 1
    assert "discounted cost" in live([Constraint(name, limit) for name, limit in LIMITS.items()], record)
