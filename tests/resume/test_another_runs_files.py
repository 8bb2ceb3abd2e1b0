"""Another run's files in this run's directory, files from before runs had an id, and numbers that are not finite."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import focops
from focops import api as runs
from focops.errors import UsageError
from focops.runs import checkpoint
from tests.resume.tiny import results, tiny
from tests.resume.worlds import Drift

DRIFT, ENDLESS = f"{Drift.__module__}:Drift-v0", f"{Drift.__module__}:EndlessDrift-v0"
NEWEST = Path("checkpoint", "00000004.safetensors")
POLICY = Path("policy", "policy.safetensors")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run, and others whose arrays have the same shapes."""
    base = tmp_path_factory.mktemp("trained")
    kinds = {
        "own": tiny(DRIFT, base / "own", iterations=4),
        "seed": tiny(DRIFT, base / "seed", iterations=4, seed=4),
        "task": tiny(ENDLESS, base / "task", iterations=4),
        "settings": tiny(DRIFT, base / "settings", iterations=4, algo={"temperature": 1.25}),
    }
    return {kind: runs.run(config).path for kind, config in kinds.items()}


@pytest.fixture
def own(tmp_path: Path, trained: dict[str, Path]) -> Path:
    """A copy to spoil: a run copied whole is the same run."""
    return Path(shutil.copytree(trained["own"], tmp_path / "run"))


SAID = {
    "seed": "its seed is 4, here it is 3",
    "task": f"its task is '{ENDLESS}', here it is '{DRIFT}'",
    "settings": "it began with the same task, algorithm and seed, but with other settings",
}


@pytest.mark.parametrize("kind", SAID)
def test_another_runs_newest_checkpoint_is_said_and_the_one_before_gives_the_same_bytes(
    own: Path, trained: dict[str, Path], kind: str
) -> None:
    shutil.copy(trained[kind] / NEWEST, own / NEWEST)
    message = rf"00000004.* is of another run \({SAID[kind]}\).*Going on from .*00000002"
    with pytest.warns(checkpoint.CheckpointWarning, match=message):
        runs.resume(own)
    assert results(own) == results(trained["own"])


def test_only_checkpoints_of_another_run_are_refused_and_nothing_is_changed(
    own: Path, trained: dict[str, Path]
) -> None:
    shutil.rmtree(own / "checkpoint")
    shutil.copytree(trained["seed"] / "checkpoint", own / "checkpoint")
    before = (own / "metrics.jsonl").read_bytes(), (own / POLICY).read_bytes()
    with pytest.raises(UsageError, match=r"no usable checkpoint: .*00000004.* is of another run \(its seed is 4"):
        runs.resume(own)
    assert ((own / "metrics.jsonl").read_bytes(), (own / POLICY).read_bytes()) == before


@pytest.mark.parametrize("kind", SAID)
def test_another_runs_policy_is_not_loaded_or_evaluated_as_this_ones(
    own: Path, trained: dict[str, Path], kind: str
) -> None:
    shutil.copy(trained[kind] / POLICY, own / POLICY)
    for use in (focops.evaluate, focops.load):
        with pytest.raises(UsageError, match=rf"policy.* is of another run \({SAID[kind]}\); `focops resume {own}`"):
            use(own)
    assert focops.load(own / POLICY).description["iteration"] == 4  # by itself it is anybody's
    runs.resume(own)
    assert results(own) == results(trained["own"])


def rewrite(file: Path, change: Callable[[dict, dict], None]) -> None:
    """Change a file's arrays and meta; its checksum is right again."""
    arrays, meta = checkpoint.load(file)
    change(arrays, meta)
    file.write_bytes(checkpoint.serialize(arrays, meta))


def forget(run: Path) -> None:
    """Make a run what it was before runs had an id."""
    for file in [*(run / "checkpoint").iterdir(), run / POLICY]:
        rewrite(file, lambda _, meta: meta.pop("run"))
    config = json.loads((run / "config.json").read_text())
    del config["run_id"]
    (run / "config.json").write_text(json.dumps(config))


def test_a_run_from_before_there_was_an_id_is_resumed_and_evaluated(own: Path, trained: dict[str, Path]) -> None:
    forget(own)
    assert focops.evaluate(own, episodes=2).iteration == 4
    assert runs.resume(own, steps=64 * 6).summary["finished"]
    assert runs.resume(own, steps=64 * 8, changes={"policy_rate": 1e-4}).summary["finished"]
    assert focops.load(own).description["iteration"] == 8


def test_a_policy_from_before_there_was_an_id_is_known_by_its_task(own: Path, trained: dict[str, Path]) -> None:
    shutil.copy(trained["task"] / POLICY, own / POLICY)
    rewrite(own / POLICY, lambda _, meta: meta.pop("run"))
    with pytest.raises(UsageError, match="is of another run"):
        focops.evaluate(own)


def test_a_run_that_was_changed_is_still_the_same_run(own: Path) -> None:
    before = json.loads((own / "config.json").read_text())["run_id"]
    runs.resume(own, steps=64 * 6, changes={"policy_rate": 1e-4})
    assert json.loads((own / "config.json").read_text())["run_id"] == before
    assert runs.resume(own, steps=64 * 8).summary["steps"] == 64 * 8


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(own: Path, value: float) -> None:
    def spoil(arrays: dict, _: dict) -> None:
        for name in arrays:
            if name.endswith("network[0].bias") or name.endswith("critics.params[0].bias"):
                arrays[name][1] = value

    for file in (own / NEWEST, own / POLICY):
        rewrite(file, spoil)
    with pytest.raises(UsageError, match=rf"policy.safetensors: .*bias holds {value} at index \(1,\)"):
        focops.load(own)
    with pytest.raises(UsageError, match=rf"the checkpoint's .*bias holds {value} at index \(1,\)"):
        runs.resume(own)
    with pytest.raises(UsageError, match=rf"bias holds {value} at index \(1,\)"):
        runs.run(tiny(DRIFT, own.parent / "new", init_from=own))


def test_statistics_that_are_not_finite_are_refused(own: Path) -> None:
    rewrite(own / POLICY, lambda arrays, _: arrays["[1].mean"].fill(np.nan))
    with pytest.raises(UsageError, match=r"\[1\]\.mean holds nan at index \(0,\)"):
        focops.load(own)
