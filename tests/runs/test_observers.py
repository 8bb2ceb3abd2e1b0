"""Sinks and callbacks of the user's own, given to `focops.train` and `focops.resume` without touching the package."""

import csv
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

import focops
from focops import api as runs
from focops.errors import RunError
from tests.resume.tiny import OPTIONS, OURS, metrics, results, tiny


class Table:
    """A CSV file of two columns, cut back on resuming."""

    def __init__(self, directory: Path, iteration: int) -> None:
        path = directory / "table.csv"
        rows = path.read_text().splitlines(True)[:iteration] if iteration else []
        self._file = open(path, "w", newline="")  # noqa: SIM115 (open as long as the run)
        self._file.writelines(rows)

    def write(self, record: dict[str, Any]) -> None:
        csv.writer(self._file, lineterminator="\n").writerow([record["iteration"], record["kl"]])

    def sync(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class Failing:
    """Raises in one of its methods, at the third iteration where it is `write`."""

    calls: ClassVar[list[str]] = []

    def __init__(self, where: str) -> None:
        self._where = where
        self.calls.clear()

    def __call__(self, directory: Path, iteration: int) -> "Failing":
        self._call("open")
        return self

    def write(self, record: dict[str, Any]) -> None:
        if record["iteration"] == 3 or self._where != "write":
            self._call("write")

    def sync(self) -> None:
        self._call("sync")

    def close(self) -> None:
        self._call("close")

    def _call(self, method: str) -> None:
        self.calls.append(method)
        if method == self._where:
            raise ValueError("no more room")


def train(out: Path, **options: Any) -> focops.Run:
    return focops.train(OURS, out=out, **OPTIONS | options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("whole") / "run", sinks=[Table]).path


def after(iterations: int):
    return lambda record: record["iteration"] >= iterations


def test_a_sink_gets_every_iteration(whole: Path) -> None:
    rows = list(csv.reader((whole / "table.csv").read_text().splitlines()))
    assert [(int(i), float(kl)) for i, kl in rows] == [(r["iteration"], r["kl"]) for r in metrics(whole)]


def test_a_sink_changes_nothing_of_the_run(tmp_path: Path, whole: Path) -> None:
    assert results(train(tmp_path / "run").path) == results(whole)


@pytest.mark.parametrize("backend", ["cpu", "mjx"])
def test_a_callback_that_says_true_stops_the_run_with_a_checkpoint_and_it_resumes_to_the_same_bytes(
    tmp_path: Path, backend: str
) -> None:
    expected = train(tmp_path / "whole", sinks=[Table], backend=backend).path
    heard = []
    callbacks = [heard.append, after(3)]
    run = train(tmp_path / "run", sinks=[Table], callbacks=callbacks, backend=backend)
    done = run.summary["steps"] // 64
    assert done == 3 if backend == "cpu" else done in (3, 4)  # a device is one iteration ahead
    assert (run.summary["finished"], run.summary["checkpoint_steps"]) == (False, done * 64)
    assert [record["iteration"] for record in heard] == list(range(1, done + 1))
    assert heard == [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    focops.resume(run.path, sinks=[Table], callbacks=callbacks[:1])
    assert [record["iteration"] for record in heard] == list(range(1, 7))
    assert results(run.path) == results(expected)
    assert (run.path / "table.csv").read_text() == (expected / "table.csv").read_text()


def test_records_that_are_done_again_are_cut_from_a_sink_that_honours_the_iteration(
    tmp_path: Path, whole: Path
) -> None:
    run = train(tmp_path / "run", sinks=[Table], callbacks=[after(5)]).path
    (run / "checkpoint" / "00000005.safetensors").unlink()  # as if it had been killed: back to iteration 4
    assert len((run / "table.csv").read_text().splitlines()) == 5
    focops.resume(run, sinks=[Table])
    assert (run / "table.csv").read_text() == (whole / "table.csv").read_text()


@pytest.mark.parametrize(("where", "iteration"), [("write", 3), ("sync", 2), ("close", 6)])
def test_a_sink_that_fails_stops_the_run_with_a_checkpoint_and_is_named(
    tmp_path: Path, whole: Path, where: str, iteration: int
) -> None:
    message = rf"the sink Failing failed: ValueError: no more room.*with a checkpoint of iteration {iteration}\."
    with pytest.raises(RunError, match=message) as raised:
        train(tmp_path / "run", sinks=[Failing(where), Table])
    assert isinstance(raised.value.__cause__, ValueError)
    assert Failing.calls[-1] == "close"
    assert Failing.calls.count(where) <= 2  # not called again, but to be closed
    assert [r["iteration"] for r in metrics(tmp_path / "run")] == list(range(1, iteration + 1))
    assert results(focops.resume(tmp_path / "run", sinks=[Table]).path) == results(whole)
    assert (tmp_path / "run" / "table.csv").read_text() == (whole / "table.csv").read_text()


def test_a_sink_that_does_not_open_is_named_before_training(tmp_path: Path, whole: Path) -> None:
    with pytest.raises(RunError, match="the sink Failing could not be opened: ValueError: no more room"):
        train(tmp_path / "run", sinks=[Table, Failing("open")])
    assert metrics(tmp_path / "run") == []
    assert results(focops.resume(tmp_path / "run").path) == results(whole)


def test_a_callback_that_fails_stops_the_run_with_a_checkpoint_and_is_named(tmp_path: Path, whole: Path) -> None:
    def judge(record: dict[str, Any]) -> None:
        if record["iteration"] == 3:
            raise KeyError("reward")

    with pytest.raises(RunError, match=r"the callback judge failed: KeyError: 'reward'.*with a checkpoint of iter.* 3"):
        train(tmp_path / "run", callbacks=[judge])
    assert results(focops.resume(tmp_path / "run").path) == results(whole)


def test_an_exact_run_that_is_stopped_keeps_its_scheduled_checkpoint(tmp_path: Path) -> None:
    run = train(tmp_path / "run", callbacks=[after(3)], exact=True)
    assert (run.summary["steps"], run.summary["checkpoint_steps"]) == (3 * 64, 2 * 64)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sinks": [3]}, "sinks holds 3.*give a class"),
        ({"callbacks": ["f"]}, "callbacks holds 'f'.*give a function"),
        ({"sinks": Table}, r"sinks is .*Table.*it must be a list, sinks=\[…\]"),
        ({"callbacks": print}, r"callbacks is <built-in function print>; it must be a list"),
    ],
)
def test_what_cannot_be_called_is_refused_before_there_is_a_directory(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(focops.UsageError, match=message):
        train(tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_runs_of_one_program_have_sinks_of_their_own_and_a_callback_stops_all(tmp_path: Path) -> None:
    configs = [tiny(OURS, tmp_path / str(seed), backend="mjx", seed=seed) for seed in (3, 4)]
    outcomes = runs.run_all(configs, sinks=[Table], callbacks=[after(2)])
    for outcome in outcomes:
        assert isinstance(outcome, focops.Run)
        rows = (outcome.path / "table.csv").read_text().splitlines()
        assert 2 <= len(rows) == len(metrics(outcome.path)) <= 3
