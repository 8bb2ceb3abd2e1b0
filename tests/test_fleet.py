"""Many runs as one program: each is what it would be alone, goes on exactly, and fails alone.

PointCircle is moved, not simulated, so its programs compile in seconds; three runs of one size share one of them.
"""

import dataclasses
import json
import logging
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import focops
from focops import run as runs
from focops.algorithms import ALGORITHMS
from focops.config import TrainConfig, default_config
from focops.core.spec import Constraint, Spec
from focops.core.types import Rollout
from focops.errors import RunError, UsageError
from focops.fleet import Fleet, program_of
from focops.fleet import book as on_device
from focops.fleet.devices import CUDA_OPTIONS
from focops.rollout import RECENT, EpisodeBook
from focops.runs import checkpoint
from tests.resume.tiny import OURS, Disk, metrics, results, tiny

pytestmark = pytest.mark.usefixtures("quick_compiling")

NOWHERE = Path("unused")


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


def arrays_of(fleet: Fleet) -> list[dict[str, np.ndarray]]:
    fleet.snapshot()
    return [member.arrays() for member in fleet.members]


def advanced(configs: list[TrainConfig], iterations: int, **options: Any) -> Fleet:
    fleet = Fleet(configs, **options)
    for _ in range(iterations):
        fleet.advance()
    return fleet


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """To the bit."""
    assert checkpoint.serialize(found, {}) == checkpoint.serialize(expected, {})


def assert_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """But for rounding, which is a hundredth of this after 6 iterations; another temperature is 5000 times it."""
    assert set(found) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


# ---- runs together ---------------------------------------------------------------------------------------------------


def test_runs_together_are_what_each_is_alone():
    together = Fleet(VARIED)
    said = [together.advance() for _ in range(6)]
    for i, (each, found) in enumerate(zip(VARIED, arrays_of(together), strict=True)):
        alone = Fleet([each])
        records = [alone.advance()[0] for _ in range(6)]
        assert_close(found, arrays_of(alone)[0])
        assert [list(record) for record in records] == [list(iteration[i]) for iteration in said]
        assert said[-1][i]["cost_limit/outside"] == (each.cost_limit or (5.0,))[0]


@pytest.mark.parametrize(
    "values",
    [
        [{"seed": 4}, {"seed": 3 + 2**40}],
        [{"temperature": 0.5}, {"policy_rate": 1e-3}],
        [{"cost_limit": (0.0,)}, {"cost_discount": (0.5,)}],
        [{"value_rate": 2e-3}, {"discount": 0.5}],
    ],
)
def test_each_runs_own_values_count(values):
    """Beside one run with the same seed and without them."""
    varied = [config(nu_init=0.5), *[config(**{"nu_init": 0.5} | each) for each in values]]
    base, *others = arrays_of(advanced(varied, 2))
    for value, other in zip(values, others, strict=True):
        differ = {name for name in base if not np.array_equal(base[name], other[name])}
        assert any(name.startswith("learner") for name in differ), value


def test_the_same_run_twice_in_a_fleet_is_the_same():
    one, _, other = arrays_of(advanced([VARIED[1], BASE, VARIED[1]], 3))
    assert_same(one, other)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_trains_runs_with_numbers_of_their_own(algorithm):
    """In the second run every number is another."""
    algo = default_config(OURS, algorithm).algo
    sizes = {"hidden": (8,), "minibatch_size": 32, "epochs": 1, "cg_iterations": 2, "value_iterations": 2}
    algo = dataclasses.replace(algo, **{name: value for name, value in sizes.items() if hasattr(algo, name)})
    floats = [f.name for f in dataclasses.fields(algo) if isinstance(getattr(algo, f.name), float)]
    numbers = {name: 0.9 * getattr(algo, name) for name in floats}
    base = dataclasses.replace(BASE, algorithm=algorithm, algo=algo)
    other = dataclasses.replace(base, algo=dataclasses.replace(algo, **numbers), cost_limit=(1.0,), seed=4)
    fleet = Fleet([base, other])
    for _ in range(2):
        records = fleet.advance()
    for record in records:
        assert all(value is None or np.isfinite(value) for value in record.values())
        assert record["kl"] > 0
    first, second = ([r["entropy"], r["kl"], r["value_loss"], r["cost_limit/outside"]] for r in records)
    assert not np.any(np.isclose(first, second, rtol=1e-6))


def test_nothing_is_compiled_after_the_first_iteration(caplog):
    fleet = advanced([dataclasses.replace(each, checkpoint_every=1, exact=True) for each in VARIED], 1)
    fleet.cut_episodes()
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for _ in range(3):
            fleet.advance(ahead=True)
        fleet.advance()
        fleet.cut_episodes()
        fleet.snapshot()
    assert [r.getMessage() for r in caplog.records if r.getMessage().startswith("Compiling")] == []


# ---- episodes --------------------------------------------------------------------------------------------------------


def batches(number: int, steps: int, envs: int, limit: int, seed: int):
    """Random rewards, costs and ends of all kinds; an episode that goes on does so in the next batch."""
    rng, age = np.random.default_rng(seed), np.zeros(envs, np.int32)
    for _ in range(number):
        ages, ends = [], []
        for _ in range(steps):
            terminated, cut = rng.random((2, envs)) < 0.15
            ages.append(age)
            ends.append((terminated, cut | (age + 1 >= limit), cut & ~terminated))
            age = np.where(ends[-1][0] | ends[-1][1], 0, age + 1).astype(np.int32)
        terminated, truncated, cut = (np.array(each) for each in zip(*ends, strict=True))
        reward, cost = rng.normal(size=(steps, envs)), rng.random((steps, envs, 2))
        numbers = dict(
            reward=reward.astype(np.float32), cost=cost.astype(np.float32), terminated=terminated, truncated=truncated,
            cut=cut, age=np.array(ages),
        )  # fmt: skip
        yield Rollout(**(dict.fromkeys(Rollout._fields) | numbers))  # type: ignore[arg-type]


@pytest.mark.parametrize(("steps", "limit"), [(200, 7), (3, 7), (9, None)])
def test_the_book_on_the_device_is_the_one_on_the_host(steps, limit):
    """200 steps of 4 environments end more episodes than a book keeps; 3 seldom any."""
    spec = Spec(1, 1, False, (Constraint("a", 1.0, 0.9), Constraint("b", 1.0, 1.0)), time_limit=limit)
    theirs = EpisodeBook(spec, 4)
    mine = on_device.blank(4, constraints=2)
    enter = jax.jit(lambda mine, rollout: on_device.enter(mine, rollout, jnp.array([0.9, 1.0])))
    for rollout in batches(8, steps, 4, limit or 10**6, seed=steps):
        before = theirs.finished
        theirs.add(rollout)
        mine = enter(mine, rollout)
        assert mine.finished == theirs.finished
        np.testing.assert_allclose(mine.running, theirs._running, rtol=1e-4, atol=1e-4)
        rows = np.arange(theirs.finished - len(theirs.recent), theirs.finished) % RECENT
        np.testing.assert_allclose(mine.recent[rows], theirs.state()["recent"], rtol=1e-4, atol=1e-4)
        if theirs.recent:
            np.testing.assert_allclose(on_device.means(mine), theirs.means(), rtol=1e-4, atol=1e-4)
    assert (theirs.finished - before > RECENT) == (steps == 200)


def test_records_are_of_the_runs_own_episodes():
    fleet = Fleet(VARIED)
    books = [EpisodeBook(spec, 4) for spec in fleet.specs]
    costs = [f"{kind}_cost_mean/outside" for kind in ("discounted", "undiscounted")]
    names = ["episode_length_mean", "return_mean", *costs]
    for _ in range(8):
        records = fleet.advance()
        for member, book, record in zip(fleet.members, books, records, strict=True):
            book.add(member.batch()[0])
            assert record["episodes_finished"] == book.finished
            found = [record[name] for name in names]
            assert found == (pytest.approx(list(book.means()), rel=1e-4) if book.recent else [None] * 4)
    assert [book.finished for book in books] == [4, 4, 4]  # of 128 steps: cut at 17, 33, 49, whole at 65, 82, 98, 114


def test_a_simulation_gone_wrong_is_counted_and_its_run_goes_on():
    fleet = Fleet(VARIED)
    fleet.snapshot()
    trees = [member.tree() for member in fleet.members]
    qpos = trees[1].sims.qpos.copy()
    qpos[2, 2] = np.nan
    trees[1] = trees[1]._replace(sims=trees[1].sims._replace(qpos=qpos))
    fleet.put(trees)
    for _ in range(2):
        records = fleet.advance()
    assert [record["diverged"] for record in records] == [0, 1, 0]


@pytest.mark.parametrize(("room", "overflows"), [(0, True), (8, False)])
def test_contacts_without_room_are_said_once(caplog, room, overflows):
    """A hopper folded up beneath the floor touches it with both ends of all its limbs, and itself."""
    fleet = Fleet([in_warp("HopperSpeed-v0", self_contacts=room)], impl="warp")
    for _ in range(2):
        fleet.snapshot()
        (tree,) = [member.tree() for member in fleet.members]
        folded = np.array([0.0, -3.0, 0.0, -2.5, -2.5, 0.0], np.float32)  # x, z, angles of torso, thigh, leg, foot
        fleet.put([tree._replace(sims=tree.sims._replace(qpos=np.tile(folded, (2, 1))))])
        fleet.advance()
    assert [r.getMessage() for r in caplog.records] == overflows * [
        "HopperSpeed-v0: 2 simulations had more contacts than there is room for at iteration 1; those beyond it were "
        "ignored. --self-contacts is 0; raise it with --self-contacts N if this goes on"
    ]


def test_fresh_episodes_start_with_every_batch():
    """Two whole episodes a batch, as the paper preset has them."""
    paper = dict(fresh_episodes=True, num_envs=2, batch_size=2 * 70, minibatch_size=35, cost_estimator="episodes")
    fleet = Fleet([config(steps=420, seed=seed, bootstrap_time_limit=False, **paper) for seed in (0, 1)])
    for iteration in range(1, 4):
        records = fleet.advance()
        rollout = fleet.members[1].batch()[0]
        expected = [*range(65), *range(5)]
        np.testing.assert_array_equal(rollout.age, np.array([expected, expected]).T)
        assert [record["episodes_finished"] for record in records] == [2 * iteration] * 2
        assert [record["episode_length_mean"] for record in records] == [65] * 2


def test_episodes_that_are_cut_are_not_counted():
    fleet = advanced(VARIED, 2)
    before = arrays_of(fleet)
    fleet.cut_episodes()
    for was, now in zip(before, arrays_of(fleet), strict=True):
        assert np.any(was["episodes/running"])
        assert not np.any(now["episodes/running"])
        assert (now["env/age"].tolist(), now["env/horizon"].tolist()) == ([0] * 4, [17, 33, 49, 65])  # staggered again
        np.testing.assert_array_equal(now["env/episode"], was["env/episode"] + 1)
        assert now["episodes/finished"] == was["episodes/finished"]


# ---- going on --------------------------------------------------------------------------------------------------------


def test_a_restored_fleet_goes_on_to_the_same_bits():
    whole = arrays_of(advanced(VARIED, 6))
    saved = [checkpoint.serialize(each, {}) for each in arrays_of(advanced(VARIED, 3))]
    other = Fleet(VARIED)
    other.restore([checkpoint.deserialize(each, "it")[0] for each in saved])
    assert other.iteration == 3
    for _ in range(3):
        other.advance()
    for found, expected in zip(arrays_of(other), whole, strict=True):
        assert_same(found, expected)


def test_working_ahead_changes_no_number():
    one, other = Fleet(VARIED), Fleet(VARIED)
    expected = [one.advance() for _ in range(4)]
    assert [other.advance(ahead=i < 3) for i in range(4)] == expected
    assert not other.ahead
    for found, wanted in zip(arrays_of(other), arrays_of(one), strict=True):
        assert_same(found, wanted)


def test_a_snapshot_stays_while_the_device_goes_on():
    fleet = advanced(VARIED, 2)
    before = [checkpoint.serialize(each, {}) for each in arrays_of(fleet)]
    fleet.go_ahead()
    assert fleet.ahead
    jax.block_until_ready(fleet.runs)
    assert [checkpoint.serialize(member.arrays(), {}) for member in fleet.members] == before
    assert fleet.advance()[0]["iteration"] == 3


def test_what_does_not_fit_is_not_restored():
    fleet = Fleet(VARIED)
    saved = arrays_of(fleet)
    with pytest.raises(UsageError, match=r"stand at different iterations: \[0, 7\]"):
        fleet.restore([saved[0], saved[1], saved[2] | {"iteration": np.array(7)}])
    with pytest.raises(UsageError, match=r"does not fit this run: env/qpos should be \(4, 3\), found \(5, 3\)"):
        fleet.restore([saved[0] | {"env/qpos": np.zeros((5, 3), np.float32)}, *saved[1:]])


def test_a_fleet_simulated_in_warp_goes_on_to_the_same_bits():
    """The implementation that a GPU runs."""
    fleet = advanced([in_warp("HalfCheetahSpeed-v0", seed=seed) for seed in (0, 1)], 1, impl="warp")
    saved = arrays_of(fleet)
    assert all(np.isfinite(list(filter(None, record.values()))).all() for record in fleet.advance())
    expected = arrays_of(fleet)
    fleet.advance()
    fleet.restore(saved)
    fleet.advance()
    for found, wanted in zip(arrays_of(fleet), expected, strict=True):
        assert_same(found, wanted)


def test_networks_and_normaliser_of_another_run_are_taken_and_nothing_else():
    source, blank = arrays_of(advanced(VARIED, 2))[1], arrays_of(Fleet(VARIED))
    fleet = Fleet(VARIED)
    fleet.start_from(source, "there")
    for found, before in zip(arrays_of(fleet), blank, strict=True):
        taken = {name for name in found if not np.array_equal(found[name], before[name])}
        kinds = ("].policy.", "].critics.", "[1].")
        assert {kind for kind in kinds if any(kind in name for name in taken)} == set(kinds)
        assert not [name for name in taken if "adam" in name or "].nu" in name or not name.startswith("learner")]
        for name in taken:
            np.testing.assert_array_equal(found[name], source[name], err_msg=name)


# ---- on the disk -----------------------------------------------------------------------------------------------------


def varied(base: Path, **changes: Any) -> list[TrainConfig]:
    """The three runs, with directories in `base`."""
    return [dataclasses.replace(each, out=base / str(i), **changes) for i, each in enumerate(VARIED)]


def stopped_after(iterations: int):
    answers = iter([False] * iterations + [True] * 2)
    return lambda: next(answers)


def all_results(base: Path) -> list[dict[str, Any]]:
    return [results(base / str(i)) for i in range(3)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs as they are if nothing happens to them."""
    base = tmp_path_factory.mktemp("finished")
    outcomes = runs.run_all(varied(base))
    assert all(outcome.summary["finished"] for outcome in outcomes)
    return base


def test_what_stops_early_starts_no_further_iteration(tmp_path, monkeypatch):
    started, iterate = [], Fleet._iterate_once
    monkeypatch.setattr(
        Fleet, "_iterate_once", lambda fleet, number: (started.append(number), iterate(fleet, number))[1]
    )
    (run, *_) = runs.run_all(varied(tmp_path), should_stop=stopped_after(1))
    assert len(started) == len(metrics(run.path)), started


@pytest.mark.parametrize("iterations", [1, 3, 4])
def test_runs_stopped_and_resumed_end_in_the_same_bytes(tmp_path, finished, iterations):
    outcomes = runs.run_all(varied(tmp_path), should_stop=stopped_after(iterations))
    # an iteration that is under way when asked to stop is made use of
    assert {outcome.summary["steps"] for outcome in outcomes} <= {64 * iterations, 64 * (iterations + 1)}
    assert all(not outcome.summary["finished"] for outcome in outcomes)
    runs.resume_all([tmp_path / str(i) for i in range(3)])
    assert all_results(tmp_path) == all_results(finished)


def test_the_fleets_directories_hold_what_a_run_on_the_cpu_does(tmp_path, finished):
    runs.run(tiny(OURS, tmp_path / "cpu"))
    for i in range(3):
        names = lambda run: {str(path.relative_to(run)).partition("tfevents")[0] for path in run.rglob("*")}
        assert names(finished / str(i)) == names(tmp_path / "cpu")
    ours, theirs = metrics(finished / "0"), metrics(tmp_path / "cpu")
    assert [list(record) for record in ours] == [list(record) for record in theirs]
    summaries = [json.loads((run / "summary.json").read_text()) for run in (finished / "0", tmp_path / "cpu")]
    assert list(summaries[0]) == list(summaries[1])


def test_killed_between_two_runs_checkpoints_all_go_on_from_the_one_they_have_in_common(tmp_path, finished):
    base = Path(shutil.copytree(finished, tmp_path / "runs"))
    (base / "1" / "checkpoint" / "00000006.safetensors").unlink()
    runs.resume_all([base / str(i) for i in range(3)])
    assert all_results(base) == all_results(finished)


def test_a_kill_at_any_instant_of_a_save_changes_nothing(tmp_path, finished, monkeypatch):
    monkeypatch.setattr("focops.runs.loop.WRITERS", 1)  # so that the disk is looked at by one thread
    disk = Disk(tmp_path / "runs", tmp_path / "copies")
    disk.run.mkdir()
    with disk.watched():
        runs.run_all(varied(disk.run))
    begun = [x for x in disk.instants if all((x[1] / str(i) / "config.json").exists() for i in range(3))]
    assert len(begun) > 100
    for what, copy in random.Random(3).sample(begun, 5):
        runs.resume_all([copy / str(i) for i in range(3)])
        assert all_results(copy) == all_results(finished), what


def test_a_damaged_checkpoint_of_one_run_is_said_and_all_go_on_from_the_one_before(tmp_path, finished):
    base = Path(shutil.copytree(finished, tmp_path / "runs"))
    newest = base / "2" / "checkpoint" / "00000006.safetensors"
    newest.write_bytes(newest.read_bytes()[:-7])
    with pytest.warns(checkpoint.CheckpointWarning, match=r"2/checkpoint/00000006.*damaged.*earlier"):
        runs.resume_all([base / str(i) for i in range(3)])
    assert all_results(base) == all_results(finished)


def test_a_checkpoint_of_another_run_is_said_and_all_go_on_from_the_one_before(tmp_path, finished):
    base = Path(shutil.copytree(finished, tmp_path / "runs"))
    newest = Path("checkpoint", "00000006.safetensors")
    shutil.copy(base / "0" / newest, base / "2" / newest)
    with pytest.warns(checkpoint.CheckpointWarning, match=r"2/checkpoint/00000006.* is of another run .*earlier"):
        runs.resume_all([base / str(i) for i in range(3)])
    assert all_results(base) == all_results(finished)


def test_exact_runs_keep_the_checkpoints_at_cuts_alone_and_resume_exactly(tmp_path):
    runs.run_all(varied(tmp_path / "whole", exact=True))
    for stop, kept in ((1, 0), (3, 2)):
        base = tmp_path / str(stop)
        for outcome in runs.run_all(varied(base, exact=True), should_stop=stopped_after(stop)):
            assert outcome.summary["checkpoint_steps"] == 64 * kept
            assert outcome.summary["steps"] in (64 * stop, 64 * (stop + 1))
        runs.resume_all([base / str(i) for i in range(3)])
        assert all_results(base) == all_results(tmp_path / "whole")


def test_finished_runs_go_on_to_a_greater_total(tmp_path, finished):
    base = Path(shutil.copytree(finished, tmp_path / "runs"))
    outcomes = runs.resume_all([base / str(i) for i in range(3)], steps=512)
    for i, outcome in enumerate(outcomes):
        assert (outcome.summary["steps"], outcome.summary["finished"]) == (512, True)
        assert [record["iteration"] for record in metrics(base / str(i))] == list(range(1, 9))
        assert metrics(base / str(i))[:6] == metrics(finished / str(i))


def test_runs_start_from_another_and_need_it_no_more_once_begun(tmp_path, finished):
    source = Path(shutil.copytree(finished / "1", tmp_path / "source"))
    runs.run_all(varied(tmp_path / "whole", init_from=source))
    runs.run_all(varied(tmp_path / "runs", init_from=source), should_stop=lambda: True)
    shutil.rmtree(source)
    runs.resume_all([tmp_path / "runs" / str(i) for i in range(3)])
    assert all_results(tmp_path / "runs") == all_results(tmp_path / "whole")
    assert all_results(tmp_path / "whole") != all_results(finished)


def test_a_policy_trained_by_a_fleet_is_loaded_and_evaluated_on_the_cpu(finished):
    saved = checkpoint.load_newest(finished / "2" / "checkpoint")[0]
    obs = np.array([1.0, -2.0, 0.6, 0.8])
    normal = np.clip((obs - saved["learner[1].mean"]) / np.sqrt(saved["learner[1].variance"]), -5, 5)
    weights = [saved[f"learner[0].policy.network[{i}].{name}"] for i in (0, 1) for name in ("weight", "bias")]
    mean = np.tanh(normal @ weights[0] + weights[1]) @ weights[2] + weights[3]
    np.testing.assert_allclose(focops.load(finished / "2").predict(obs, deterministic=True), mean, rtol=1e-4, atol=1e-6)
    assert focops.evaluate(finished / "2", episodes=4).episodes == 4


def test_one_run_is_trained_from_python_with_the_same_arguments(tmp_path):
    small = dict(batch_size=64, num_envs=4, minibatch_size=32, epochs=2, hidden=(8,), steps=384, checkpoint_every=2)
    run = focops.train(OURS, backend="mjx", seed=3, out=tmp_path / "python", **small)
    runs.run(config(tmp_path / "run"))
    assert results(run.path) == results(tmp_path / "run")


# ---- failing ---------------------------------------------------------------------------------------------------------


def failing(base: Path, **changes: Any) -> list[TrainConfig]:
    """The three runs, the second of which cannot go well."""
    configs = varied(base, **changes)
    configs[1] = dataclasses.replace(configs[1], algo=dataclasses.replace(configs[1].algo, policy_rate=1e38))
    return configs


def test_a_run_that_fails_is_named_and_the_others_are_as_without_it(tmp_path, finished):
    first, failed, third = runs.run_all(failing(tmp_path))
    assert isinstance(failed, RunError)
    assert "the learner produced nan in policy.network[0].weight, index (0, 0)" in str(failed)
    evidence = tmp_path / "1" / "failure.safetensors"
    assert f"Iteration 1 was given up; state, batch and config are in {evidence}" in str(failed)
    assert evidence.exists()
    assert f"focops resume {tmp_path / '1'}" in str(failed)
    for i in (0, 2):
        assert results(tmp_path / str(i)) == results(finished / str(i))
    assert first.summary["finished"]
    assert third.summary["finished"]
    assert not (tmp_path / "1" / "summary.json").exists()


def test_a_failed_run_leaves_its_batch_and_goes_on_alone_with_a_smaller_step(tmp_path):
    runs.run_all(failing(tmp_path))
    arrays, meta = checkpoint.load(tmp_path / "1" / "failure.safetensors")
    weight = "[0].policy.network[0].weight"
    assert np.isfinite(arrays["learner" + weight]).all()
    assert np.isnan(arrays["rejected" + weight]).any()
    assert arrays["rollout/obs"].shape == (16, 4, 4)
    assert meta["config"]["algo"]["policy_rate"] == 1e38
    (run,) = runs.resume_all([tmp_path / "1"], changes={"policy_rate": 1e-4})
    assert run.summary["finished"]
    assert [record["iteration"] for record in metrics(tmp_path / "1")] == list(range(1, 7))


def test_a_run_whose_directory_goes_away_is_named_and_the_others_finish(tmp_path, finished):
    class Display:
        def start(self, *_): ...

        def update(self, records):
            if records[0]["iteration"] == 3:
                (tmp_path / "1").rename(tmp_path / "moved")

        def stop(self): ...

    first, failed, third = runs.run_all(varied(tmp_path), display=Display())
    assert f"{tmp_path / '1'} is no longer the directory that this run began in" in str(failed)
    assert first.summary["finished"]
    assert third.summary["finished"]
    for i in (0, 2):
        assert results(tmp_path / str(i)) == results(finished / str(i))
    assert not (tmp_path / "1").exists()
    assert checkpoint.numbers(tmp_path / "moved" / "checkpoint") == {2}


def test_runs_of_which_one_lost_its_checkpoints_do_not_start_over(tmp_path, finished):
    base = Path(shutil.copytree(finished, tmp_path / "runs"))
    shutil.rmtree(base / "1" / "checkpoint")
    before = metrics(base / "0"), metrics(base / "1")
    with pytest.raises(UsageError, match=f"{base / '1'} has 6 records in metrics.jsonl and a policy, but"):
        runs.resume_all([base / str(i) for i in range(3)])
    assert (metrics(base / "0"), metrics(base / "1")) == before


def test_a_run_that_failed_stays_as_it_was_before():
    fleet = Fleet(VARIED)
    expected = arrays_of(advanced(VARIED, 2))
    fleet.snapshot()
    trees = [member.tree() for member in fleet.members]
    (state, stats), log_std = trees[1].learner, np.array([0.0, np.nan], np.float32)
    broken = state._replace(policy=state.policy._replace(log_std=log_std)), stats
    fleet.put([trees[0], trees[1]._replace(learner=broken), trees[2]])
    first, second = fleet.advance(ahead=True), fleet.advance()
    for outcomes in (first, second):
        assert [isinstance(outcome, RunError) for outcome in outcomes] == [False, True, False]
    assert "the learner produced nan in action, step 0, environment 0" in str(first[1])
    found = arrays_of(fleet)
    for i in (0, 2):
        assert_same(found[i], expected[i])
    assert found[1]["iteration"] == 0
    np.testing.assert_array_equal(found[1]["env/obs"], trees[1].sims.obs)
    np.testing.assert_array_equal(found[1]["learner[0].policy.log_std"], log_std)


def test_a_run_that_failed_stays_given_up_though_it_would_go_well_now(tmp_path):
    """As where an annealed rate has become short enough."""
    fleet = Fleet(failing(tmp_path))
    first = fleet.advance()
    fleet._config = Fleet(VARIED)._config
    second = fleet.advance()
    for outcomes in (first, second):
        assert [isinstance(outcome, RunError) for outcome in outcomes] == [False, True, False]
    assert str(second[1]) == str(first[1])
    assert fleet.members[1].iteration == 0


def test_if_all_fail_the_program_ends(tmp_path):
    configs = [dataclasses.replace(each, algo=failing(tmp_path)[1].algo) for each in varied(tmp_path)]
    outcomes = runs.run_all(configs)
    assert all(isinstance(outcome, RunError) for outcome in outcomes)
    assert all((tmp_path / str(i) / "failure.safetensors").exists() for i in range(3))


# ---- what shares a program -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "alike"),
    [
        ({"seed": 9}, True),
        ({"temperature": 9.0}, True),
        ({"cost_limit": (9.0,)}, True),
        ({"cost_discount": (0.9,)}, True),
        ({"out": Path("elsewhere")}, True),
        ({"threads": 2}, True),
        ({"hidden": (9,)}, False),
        ({"epochs": 9}, False),
        ({"early_stop": False}, False),
        ({"num_envs": 8}, False),
        ({"batch_size": 128}, False),
        ({"steps": 9000}, False),
        ({"fresh_episodes": True}, False),
        ({"exact": True}, False),
        ({"checkpoint_every": 9}, False),
        ({"self_contacts": 9}, False),
        ({"init_from": Path("there")}, False),
    ],
)
def test_runs_that_differ_in_seed_and_traced_numbers_share_a_program(change, alike):
    other = config(**change)
    assert (program_of(other) == program_of(BASE)) == alike
    if not alike:
        with pytest.raises(UsageError, match="may differ in seed and in traced numbers only"):
            Fleet([BASE, other])


def test_runs_of_other_tasks_or_algorithms_share_no_program():
    assert program_of(default_config("AntSpeed")) != program_of(default_config("AntCircle"))
    assert program_of(default_config("AntSpeed", "ppo")) != program_of(default_config("AntSpeed", "ppo_lagrangian"))


# ---- several devices -------------------------------------------------------------------------------------------------

SHARDED = """
import jax
from focops.errors import RunError
from focops.fleet import Fleet
from tests.test_fleet import VARIED, arrays_of, assert_close, assert_same, config

five = [*VARIED, config(seed=6), config(seed=7, policy_rate=1e38)]
one = Fleet(five, devices=jax.devices()[:1])
for _ in range(3):
    expected_records = one.advance()
expected = arrays_of(one)

for number in (5, 4):
    fleet = Fleet(five[:number])
    places = {s.device.id: s.data.shape[0] for s in fleet.runs.key.addressable_shards}
    assert places == {i: -(-number // 4) for i in range(4)}, places
    fleet.advance()
    middle = arrays_of(fleet)
    for _ in range(2):
        records = fleet.advance()
    found = arrays_of(fleet)
    for i in range(number):
        assert_close(found[i], expected[i])
        if i == 4:
            assert isinstance(records[i], RunError), records[i]
            assert str(records[i]) == str(expected_records[i])
        else:
            assert list(records[i]) == list(expected_records[i])
    assert {s.device.id for s in fleet.runs.learner[0].policy.log_std.addressable_shards} == {0, 1, 2, 3}
    if number == 4:
        other = Fleet(five[:4])
        other.restore(middle)
        other.advance(ahead=True)
        other.advance()
        for a, b in zip(arrays_of(other), found, strict=True):
            assert_same(a, b)
print("done")
"""


def test_several_devices_share_the_runs():
    """Four of them, with one run each, and with five runs, so that three places are filled with made-up ones."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], env=os.environ | flags | {"JAX_PLATFORMS": "cpu"}, capture_output=True,
        text=True, check=False, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


def test_xla_knows_the_options_for_cuda():
    """It checks their names and values for whatever device; that they help is for a GPU to show."""
    add = lambda options: jax.jit(lambda x: x + 1, compiler_options=options)(1.0)
    assert add(CUDA_OPTIONS) == 2
    with pytest.raises(Exception, match="NOSUCH"):
        add(CUDA_OPTIONS | {"xla_gpu_enable_command_buffer": "FUSION,NOSUCH"})
