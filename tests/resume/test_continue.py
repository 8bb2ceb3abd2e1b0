"""Longer than planned, and from where another run ended."""

import dataclasses
import shutil
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

import focops
from focops import api as runs
from focops import cli
from focops.errors import UsageError
from focops.runs import checkpoint
from tests.resume.tiny import OPTIONS, OURS, metrics, results, tiny


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.run(tiny(OURS, tmp_path_factory.mktemp("finished") / "run", iterations=4)).path


def newest(run: Path) -> dict[str, np.ndarray]:
    found = checkpoint.load_newest(run / "checkpoint")
    assert found is not None
    return found[0]


def test_a_finished_run_goes_on_to_a_greater_total(tmp_path: Path, finished: Path) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    assert cli.main(["resume", str(run), "--steps", "512", "--quiet"]) == 0
    found = metrics(run)
    assert [r["iteration"] for r in found] == list(range(1, 9))
    assert found[:4] == metrics(finished)
    assert (found[-1]["samples"], found[-1]["steps"]) == (512, 512)


def test_an_extended_run_killed_and_resumed_ends_in_the_same_bytes(tmp_path: Path, finished: Path) -> None:
    whole, pieces = (Path(shutil.copytree(finished, tmp_path / name)) for name in ("whole", "pieces"))
    expected = results(runs.resume(whole, steps=512).path)
    stops = iter([False, True])
    runs.resume(pieces, steps=512, should_stop=lambda: next(stops))
    assert results(runs.resume(pieces).path) == expected


def test_learning_rates_of_an_extended_run_follow_the_new_total(tmp_path: Path, finished: Path) -> None:
    """At iteration 4 of 8 the rate is half of its start, not 0: with all else equal the update is another one."""
    short, long = (Path(shutil.copytree(finished, tmp_path / name)) for name in ("short", "long"))
    one_more = {path: runs.resume(path, steps=64 * n).path for path, n in ((short, 5), (long, 50))}
    trail = [metrics(path)[4] for path in one_more]
    # annealed to 1/5 and to 46/50 of the rate: the same batch, a longer step
    assert trail[0]["entropy"] == trail[1]["entropy"]
    assert trail[0]["kl"] < trail[1]["kl"]


def test_a_run_from_another_has_its_networks_and_normaliser_and_nothing_else(tmp_path: Path, finished: Path) -> None:
    config = tiny(OURS, tmp_path / "new", init_from=finished)
    runs.run(config, should_stop=lambda: True)
    runs.run(tiny(OURS, tmp_path / "blank"), should_stop=lambda: True)
    old, new, blank = newest(finished), newest(tmp_path / "new"), newest(tmp_path / "blank")
    taken = {name for name in new if not np.array_equal(new[name], blank[name])}
    assert taken
    for name in taken:
        np.testing.assert_array_equal(new[name], old[name], err_msg=name)
    kinds = ("policy.", "critics.params[", "[1].")
    assert {kind for name in taken for kind in kinds if kind in name} == set(kinds)
    assert not [name for name in taken if "adam" in name or "nu" in name or "cost_return" in name]
    assert metrics(tmp_path / "new") == []


def test_a_run_from_another_needs_it_no_more_once_begun(tmp_path: Path, finished: Path) -> None:
    source = Path(shutil.copytree(finished, tmp_path / "source"))
    expected = results(runs.run(tiny(OURS, tmp_path / "whole", init_from=source)).path)
    runs.run(tiny(OURS, tmp_path / "run", init_from=source), should_stop=lambda: True)
    shutil.rmtree(source)
    assert results(runs.resume(tmp_path / "run").path) == expected


def test_from_is_a_flag_and_an_option_of_train(tmp_path: Path, finished: Path) -> None:
    small = dict(batch_size=64, num_envs=4, minibatch_size=32, hidden=(8,), steps=64, final_episodes=0)
    run = focops.train(OURS, init_from=finished, out=tmp_path / "python", **small)
    words = f"train {OURS} --from {finished} --steps 64 --batch-size 64 --num-envs 4 --algo.minibatch-size 32"
    assert cli.main(f"{words} --algo.hidden 8 --final-episodes 0 --out {tmp_path / 'flag'} --quiet".split()) == 0
    assert results(tmp_path / "flag") == results(run.path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "HopperSpeed-v0"}, r"does not fit HopperSpeed-v0: .*weight is \[4, 8\] there and \[11, 8\] here"),
        ({"task": "tests.probes:Coin-v0", "cost_limit": (1.0,)}, r"does not fit|another kind of network or action"),
    ],
)
def test_a_run_that_does_not_fit_is_refused_and_nothing_is_made(
    tmp_path: Path, finished: Path, change: dict, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        runs.run(dataclasses.replace(tiny(OURS, tmp_path / "run", init_from=finished), **change))
    assert not (tmp_path / "run").exists()


def test_nowhere_is_refused_as_a_source(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        runs.run(tiny(OURS, tmp_path / "run", init_from=tmp_path / "nowhere"))


class Linear(NamedTuple):
    """A network of the user's own."""

    scale: float = 0.1

    def init(self, key, in_size: int, out_size: int):
        return {"w": self.scale * jax.random.normal(key, (in_size, out_size))}

    def apply(self, params, x):
        return x @ params["w"]


def test_a_run_with_a_network_of_ones_own_is_resumed_loaded_and_evaluated_with_it(tmp_path: Path) -> None:
    whole = runs.run(tiny(OURS, tmp_path / "whole", algo={"network": Linear()})).path
    after_3 = lambda record: record["iteration"] == 3
    run = focops.train(OURS, out=tmp_path / "run", network=Linear(), callbacks=[after_3], **OPTIONS).path
    assert len(metrics(run)) == 3
    with pytest.raises(UsageError, match=r"give it again: focops.resume\(path, network=…\)"):
        focops.resume(run)
    assert results(focops.resume(run, network=Linear()).path) == results(whole)
    with pytest.raises(UsageError, match=r"pass it: focops.load\(path, network=…\)"):
        focops.load(run)
    weights = newest(run)["learner[0].policy.network['w']"]
    assert weights.shape == (4, 2)
    assert focops.load(run, network=Linear()).predict(np.zeros(4)).shape == (2,)
    assert focops.evaluate(run, network=Linear(), episodes=2).episodes == 2
