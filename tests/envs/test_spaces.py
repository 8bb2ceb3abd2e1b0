"""Spaces that are not vectors: trained, resumed, evaluated and loaded, wherever the environments run."""

import sys
from pathlib import Path

import numpy as np
import pytest

import focops
from focops import api as runs
from focops.algorithms import ALGORITHMS
from focops.core.spec import Spec
from focops.envs import make
from focops.errors import UsageError
from focops.training.host import Trainer
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
    with pytest.raises(UsageError, match=r"environment's nvec is \(3, 2\); this policy .*where it is \(2, 3\)"):
        focops.load(levers).require_fit(Spec(2, 5, True, (), None, nvec=(3, 2)))


@pytest.mark.parametrize("place", [{}, {"workers": 1}, {"workers": 1, "python": Path(sys.executable)}])
def test_the_description_of_spaces_is_the_same_everywhere(place: dict, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    env = make(LEVERS, 2, limits=[1.0], **place)
    assert (env.spec.nvec, env.spec.action_size, env.spec.discrete) == ((2, 3), 5, True)
    env.close()
