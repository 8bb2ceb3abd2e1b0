"""The runs that these tests train, so that they share compiled programs: PointCircle is moved, not simulated, so its
programs compile in seconds; three runs of one size share one of them.
"""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from focops.config import TrainConfig, default_config
from focops.core.types import Trajectories
from focops.runs import checkpoint
from focops.training.device import DeviceTrainer
from tests.resume.tiny import NOWHERE, OURS, results, tiny


def config(out: Path = NOWHERE, **changes: Any) -> TrainConfig:
    """A tiny run; `changes` are of the algorithm's config where it has such a field."""
    names = {f.name for f in dataclasses.fields(default_config().algo)}
    algo = {name: changes.pop(name) for name in names & set(changes)}
    return tiny(OURS, out, algo=algo, backend="mjx", **changes)


def in_warp(task: str, **changes: Any) -> TrainConfig:
    """A run so small that it is simulated in seconds without a GPU."""
    small = {"hidden": (4,), "epochs": 1, "minibatch_size": 8}
    return tiny(task, NOWHERE, algo=small, backend="mjx", num_envs=2, batch_size=8, steps=32, **changes)


BASE = config()
VARIED = [
    BASE,
    config(seed=4, temperature=0.5, cost_limit=(1.0,), policy_rate=1e-3, discount=0.9, nu_init=0.5),
    config(seed=5, temperature=2.0, cost_limit=(20.0,), cost_discount=(1.0,), value_rate=2e-3, nu_max=0.1, gae=0.5),
]


class Watched(DeviceTrainer):
    """A trainer whose batches can be read; it must not run ahead."""

    def _iterate_once(self, number: int) -> Any:
        iterated = super()._iterate_once(number)
        self._batches = iterated[2]
        return iterated

    def batch(self, run: int) -> Trajectories:
        """The latest batch [T, E] of a run."""
        return jax.tree.map(lambda x: np.asarray(x[:, run]), self._batches)


def advanced(configs: list[TrainConfig], iterations: int, **options: Any) -> DeviceTrainer:
    trainer = DeviceTrainer(configs, **options)
    for _ in range(iterations):
        trainer.advance()
    return trainer


def set_simulations(trainer: DeviceTrainer, run: int, **fields: np.ndarray) -> None:
    """Put arrays in the place of one run's own, such as `qpos` [E, ...]."""
    states = list(trainer.states())
    states[run] = states[run]._replace(sims=states[run].sims._replace(**fields))
    trainer.restore(states)


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """To the bit."""
    assert checkpoint.serialize(found, {}) == checkpoint.serialize(expected, {})


def assert_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """But for rounding, which is a hundredth of this after 6 iterations; another temperature is 5000 times it."""
    assert set(found) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def varied(base: Path, **changes: Any) -> list[TrainConfig]:
    """The three runs, with directories in `base`."""
    return [dataclasses.replace(each, out=base / str(i), **changes) for i, each in enumerate(VARIED)]


def failing(base: Path, **changes: Any) -> list[TrainConfig]:
    """The three runs, the second of which cannot go well."""
    configs = varied(base, **changes)
    configs[1] = dataclasses.replace(configs[1], algo=dataclasses.replace(configs[1].algo, policy_rate=1e38))
    return configs


def stopped_after(iterations: int):
    answers = iter([False] * iterations + [True] * 2)
    return lambda: next(answers)


def all_results(base: Path) -> list[dict[str, Any]]:
    return [results(base / str(i)) for i in range(3)]
