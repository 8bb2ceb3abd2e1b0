"""Same seed and flags, same bytes, at any number of threads; another seed, other bytes."""

from pathlib import Path

import pytest

from focops import api as runs
from focops.algorithms import ALGORITHMS
from focops.errors import UsageError
from focops.runs import checkpoint
from focops.training.host import Trainer
from tests.resume.tiny import OURS, arrays_of, restore, results, tiny
from tests.resume.worlds import Drift

DRIFT = f"{Drift.__module__}:Drift-v0"


@pytest.mark.parametrize("task", [OURS, "HopperSpeed-v0", DRIFT])
def test_the_same_seed_gives_the_same_bytes_at_any_number_of_threads(tmp_path: Path, task: str) -> None:
    found = [results(runs.run(tiny(task, tmp_path / str(n), threads=n)).path) for n in (1, 2, 3)]
    assert found[0] == found[1] == found[2]


def test_another_seed_gives_other_bytes(tmp_path: Path) -> None:
    found = [results(runs.run(tiny(OURS, tmp_path / str(n), seed=n)).path) for n in (1, 2)]
    assert all(found[0][name] != found[1][name] for name in found[0])


def test_stopping_and_resuming_each_iteration_gives_the_same_bytes(tmp_path: Path) -> None:
    expected = results(runs.run(tiny(DRIFT, tmp_path / "whole")).path)
    stops = iter([False, True] * 6)
    path = runs.run(tiny(DRIFT, tmp_path / "pieces"), should_stop=lambda: next(stops)).path
    for _ in range(5):
        summary = runs.resume(path, should_stop=lambda: next(stops)).summary
    assert summary["finished"]
    assert results(path) == expected


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_goes_on_exactly_from_its_arrays(tmp_path: Path, algorithm: str) -> None:
    trainer = Trainer(tiny(OURS, tmp_path, algorithm=algorithm))
    trainer.iterate()
    saved = checkpoint.serialize(arrays_of(trainer)[0], {})
    expected = trainer.iterate(), checkpoint.serialize(arrays_of(trainer)[0], {})
    trainer.iterate()
    restore(trainer, [checkpoint.deserialize(saved, "it")[0]])
    assert (trainer.iterate(), checkpoint.serialize(arrays_of(trainer)[0], {})) == expected


def test_a_checkpoint_of_other_environments_is_refused(tmp_path: Path) -> None:
    trainer = Trainer(tiny(OURS, tmp_path))
    arrays = {name: array for name, array in arrays_of(trainer)[0].items() if name != "env/simulation"}
    with pytest.raises(UsageError, match=r"does not fit this run: env/simulation should be \(4, \d+\), found nothing"):
        restore(trainer, [arrays])


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    path = runs.run(tiny(OURS, tmp_path / "run")).path
    before = results(path)
    runs.resume(path)
    assert results(path) == before
