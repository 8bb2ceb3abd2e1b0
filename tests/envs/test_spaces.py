"""Spaces that are not vectors: trained, resumed, evaluated and loaded, wherever the environments run."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import focops
from focops import api as runs
from focops.algorithms import ALGORITHMS
from focops.core.spec import Spec
from focops.envs import make
from focops.envs.gymnasium import GymnasiumVector
from focops.errors import UsageError
from focops.runs import checkpoint
from focops.training.host import Trainer
from tests.envs.rooms import Panel, Switches
from tests.resume.tiny import results, tiny

LEVERS = "tests.envs.rooms:Levers"
PLACES = {"workers": {"env_workers": 2}, "another python": {"env_workers": 2, "env_python": Path(sys.executable)}}


def stopped_after_3(config):
    stops = iter([False, False, False, True])
    return runs.run(config, should_stop=lambda: next(stops)).path


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_takes_several_discrete_actions(algorithm: str) -> None:
    trainer = Trainer(tiny(LEVERS, iterations=2, algorithm=algorithm))
    before = trainer.state.learner.policy
    trainer.iterate()
    after = trainer.iterate()
    assert np.isfinite(after["kl"])
    assert not np.array_equal(before.network[0].weight, trainer.state.learner.policy.network[0].weight)
    actions = trainer.collector.batch.action
    assert actions.shape == (16, 4, 2)
    assert set(actions[..., 0].flat) == {0, 1}
    assert set(actions[..., 1].flat) == {0, 1, 2}


@pytest.mark.parametrize(
    ("kind", "nvec", "action", "expected"),
    [(Panel, (2, 3), [1, 2], [[1, 7]]), (Switches, (2, 2, 2), [1, 0, 1], [1, 0, 1])],
)
def test_several_discrete_actions_come_as_their_space_has_them(kind, nvec, action, expected) -> None:
    one = kind()
    env = GymnasiumVector(one, 1, limits=[1.0])
    assert (env.spec.nvec, env.spec.action_size, env.spec.action_shape) == (nvec, sum(nvec), (len(nvec),))
    env.step(np.array([action], np.int32))
    assert one.given.tolist() == expected
    assert one.given in one.action_space


@pytest.fixture(scope="module")
def levers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.run(tiny(LEVERS, tmp_path_factory.mktemp("levers") / "run", env_workers=0)).path


@pytest.mark.parametrize("place", PLACES)
def test_several_discrete_actions_are_the_same_in_workers_and_resume_exactly(
    levers: Path, tmp_path: Path, place: str, monkeypatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    run = stopped_after_3(tiny(LEVERS, tmp_path / "run", **PLACES[place]))
    assert results(runs.resume(run).path) == results(levers)


def test_a_policy_of_several_discrete_actions_is_evaluated_and_loaded(levers: Path) -> None:
    for deterministic in (False, True):
        found = focops.evaluate(levers, episodes=8, deterministic=deterministic)
        assert 0 <= found.constraints["cost"].discounted_cost.mean < 18
    policy = focops.load(levers)
    assert policy.predict(np.zeros(2)).shape == (2,)
    actions = np.stack([policy.predict(np.zeros((64, 2))) for _ in range(4)])
    assert set(actions[..., 1].flat) == {0, 1, 2}
    best = policy.predict(np.zeros((3, 2)), deterministic=True)
    assert (best == best[0]).all()


def test_a_policy_refuses_as_many_actions_of_other_parts(levers: Path) -> None:
    other = Spec(2, 5, True, (), None, nvec=(3, 2), layout="Box(2) float64 → MultiDiscrete(3, 2)")
    with pytest.raises(UsageError, match=r"spaces are .*\(3, 2\); this policy, of .*Levers, has .*\(2, 3\): give the"):
        focops.load(levers).require_fit(other)


def test_a_policy_of_one_discrete_action_refuses_several(levers: Path, tmp_path: Path) -> None:
    arrays, meta = checkpoint.load(levers / "policy" / "policy.safetensors")
    for name in ("nvec", "layout"):
        del meta["policy"][name]
    (tmp_path / "policy.safetensors").write_bytes(checkpoint.serialize(arrays, meta))
    with pytest.raises(UsageError, match=r"environment's nvec is \(2, 3\); this policy .* where it is None"):
        focops.load(tmp_path).require_fit(make(LEVERS, 1, limits=[1.0]).spec)


LAYOUTS = {
    "Levers": "Box(2) float64 → MultiDiscrete(2, 3)",
    "Cabin": "Dict(gear: Discrete(3), place: Box(2) float64) → MultiDiscrete(2, 3)",
    "Engine": "Tuple(Discrete(3), Box(2) float64) → MultiDiscrete(2, 3)",
    "Camera": "Box(36, 40, 3) uint8 → Discrete(2)",
}


@pytest.mark.parametrize("place", [{}, {"workers": 1}, {"workers": 1, "python": Path(sys.executable)}])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_description_of_spaces_is_the_same_everywhere(name: str, place: dict, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    env = make(f"tests.envs.rooms:{name}", 2, limits=[1.0], **place)
    assert env.spec.layout == LAYOUTS[name]
    assert env.spec.nvec == (None if name == "Camera" else (2, 3))
    assert env.spec.image == ((36, 40, 3) if name == "Camera" else None)
    env.close()


@pytest.fixture(scope="module")
def cabin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.run(tiny("tests.envs.rooms:Cabin", tmp_path_factory.mktemp("cabin") / "run")).path


def renamed(run: Path, folder: Path, **changes) -> Path:
    """A copy whose config.json says something else."""
    copy = Path(shutil.copytree(run, folder))
    written = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(written | changes))
    return copy


def test_the_layout_is_recorded_and_another_of_the_same_size_is_refused(cabin: Path, tmp_path: Path) -> None:
    assert json.loads((cabin / "config.json").read_text())["layout"] == LAYOUTS["Cabin"]
    policy = focops.load(cabin)
    assert policy.description["layout"] == LAYOUTS["Cabin"]
    message = r"spaces are Tuple\(Discrete\(3\), .*has Dict\(gear: .*give the environment that it was trained in"
    with pytest.raises(UsageError, match=message):
        policy.require_fit(make("tests.envs.rooms:Engine", 1, limits=[1.0]).spec)
    with pytest.raises(UsageError, match=message):
        runs.run(tiny("tests.envs.rooms:Engine", tmp_path / "from", init_from=cabin))
    changed = renamed(cabin, tmp_path / "changed", layout=LAYOUTS["Engine"])
    with pytest.raises(UsageError, match=r"spaces are Dict\(gear: .*has Tuple\("):
        runs.resume(changed, steps=64 * 8)
    with pytest.raises(UsageError, match=r"this policy takes \[5\] or \[N, 5\]: Dict\(.*gymnasium.spaces.flatten"):
        policy.predict({"gear": 0, "place": np.zeros(2)})


def test_what_was_saved_without_a_layout_is_resumed_and_loaded(cabin: Path, tmp_path: Path) -> None:
    old = renamed(cabin, tmp_path / "old")
    written = json.loads((old / "config.json").read_text())
    del written["layout"]
    (old / "config.json").write_text(json.dumps(written))
    file = old / "policy" / "policy.safetensors"
    arrays, meta = checkpoint.load(file)
    del meta["policy"]["layout"]
    file.write_bytes(checkpoint.serialize(arrays, meta))
    focops.load(old).require_fit(make("tests.envs.rooms:Cabin", 1, limits=[1.0]).spec)
    assert runs.resume(old, steps=64 * 8).summary["finished"]
