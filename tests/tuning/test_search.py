"""What is proposed, given up and judged best: feasible first, then return."""

import sys
from pathlib import Path

import numpy as np
import pytest

from focops.errors import UsageError
from focops.tuning import search as searching
from focops.tuning.search import STORAGE, TENTHS, Outcome, Search, Trial
from focops.tuning.space import Choices, Interval, Space

SPACE: Space = {"x": Interval(0.0, 10.0), "y": Interval(0.01, 1.0, log=True), "z": Choices((64, 128))}


def outcome(reward: float, cost: float, limit: float = 10.0) -> Outcome:
    return Outcome(reward, {"cost": cost}, {"cost": limit})


def search_on(folder: Path, trials: int, *, seed: int = 0, reopened: bool = False) -> list[dict]:
    """Search for the largest x with x ≤ 4."""
    search = Search(folder, SPACE, seed, None)
    for _ in range(trials):
        search = Search(folder, SPACE, seed, None) if reopened else search
        trial = search.ask()
        search.complete(trial.number, outcome(trial.values["x"], trial.values["x"], 4.0))
    return [trial.values for trial in search.trials]


def test_feasible_trials_come_first_then_return_and_the_others_by_how_far_they_are_over() -> None:
    found = {0: outcome(5, 9), 1: outcome(9, 10.1), 2: outcome(7, 10), 3: outcome(99, 30), 4: None}
    trials = [Trial(number, "done" if each else "pruned", {}, each) for number, each in found.items()]
    assert [trial.number for trial in searching.best(trials)] == [2, 0, 1, 3]


def test_the_excess_is_a_share_of_the_limit_and_the_worst_counts() -> None:
    found = Outcome(1.0, {"a": 12.0, "b": 1.0, "c": 0.3}, {"a": 10.0, "b": 4.0, "c": 0.0})
    assert found.excess == pytest.approx({"a": 0.2, "b": -0.75, "c": 0.3})
    assert found.worst == pytest.approx(0.3)
    assert Outcome(1.0, {}, {}).worst == 0.0


def test_seeds_are_averaged() -> None:
    assert searching.mean([outcome(1, 8), outcome(3, 13)]) == outcome(2, 10.5)


def test_a_run_that_can_still_come_down_is_compared_by_its_return() -> None:
    assert searching.score(outcome(50, 14), 5) == 50  # 40% over, half of the way through


def test_a_run_far_over_its_limit_is_below_every_return_whatever_its_own() -> None:
    assert searching.score(outcome(1e6, 14), 7) < searching.score(outcome(-1e6, 10), 7)
    assert searching.score(outcome(1e6, 30), 7) < searching.score(outcome(0, 14), 7)


def test_the_same_seed_proposes_the_same_also_if_it_is_interrupted_after_every_trial(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    first = search_on(folders[0], 14)
    assert search_on(folders[1], 14, reopened=True) == first
    assert search_on(folders[2], 14, seed=1) != first
    assert len({str(each) for each in first}) == 14


def test_the_search_learns_to_stay_near_the_limit_and_within_it(tmp_path: Path) -> None:
    learned: list[float] = []
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        learned += [values["x"] for values in search_on(folder, 30, seed=seed)][-10:]
    by_chance = (4.0**2 + 6.0**2) / 2 / 10  # of the distance from the optimum, 4, if x is uniform in [0, 10]
    assert np.mean(np.abs(np.array(learned) - 4.0)) < 0.7 * by_chance
    assert np.mean(np.array(learned) <= 4) > 0.5  # by chance 0.4


def test_the_start_is_the_first_trial(tmp_path: Path) -> None:
    start = {"x": 7.0, "y": 0.5, "z": 128}
    search = Search(tmp_path, SPACE, 0, start)
    assert search.trials == []
    assert search.ask().values == start
    assert search.ask().values != start


@pytest.fixture
def compared(tmp_path: Path) -> Search:
    """Five trials are done, which had returns of 80 to 120 and were 20% over at every tenth."""
    search = Search(tmp_path, SPACE, 0, None)
    for reward in (80, 90, 100, 110, 120):
        number = search.ask().number
        assert not any(search.is_hopeless(number, tenth, outcome(reward, 12)) for tenth in TENTHS)
        search.complete(number, outcome(reward, 10))
    return search


@pytest.mark.parametrize(
    ("tenth", "now", "hopeless"),
    [
        (4, outcome(99, 0), True),
        (4, outcome(101, 0), False),
        (4, outcome(101, 15), False),  # it can still come down
        (4, outcome(101, 17), True),
        (8, outcome(101, 13), True),
        (8, outcome(99, 12), True),
        (8, outcome(101, 12), False),
        (9, outcome(0, 11), False),  # the others are too far over for that late
    ],
)
def test_a_run_is_given_up_if_it_is_behind_the_median_in_return_or_too_far_over_its_limit(
    compared: Search, tenth: int, now: Outcome, hopeless: bool
) -> None:
    number = compared.ask().number
    assert compared.is_hopeless(number, tenth, now) == hopeless
    assert compared.trials[number].state == ("pruned" if hopeless else "running")


def test_no_run_is_given_up_before_some_have_ended(tmp_path: Path) -> None:
    search = Search(tmp_path, SPACE, 0, None)
    for reward in (1, 2, 3, 4):
        number = search.ask().number
        search.is_hopeless(number, 4, outcome(reward, 0))
        search.complete(number, outcome(reward, 0))
    assert not search.is_hopeless(search.ask().number, 4, outcome(-100, 0))


def test_a_trial_is_known_again_with_what_was_found(tmp_path: Path) -> None:
    search = Search(tmp_path, SPACE, 0, None)
    for _ in range(3):
        search.ask()
    search.complete(1, outcome(3, 12))
    search.fail(2)
    again = Search(tmp_path, SPACE, 0, None).trials
    assert [trial.state for trial in again] == ["running", "done", "failed"]
    assert again == search.trials
    assert again[1].outcome == outcome(3, 12)


def test_a_search_killed_in_the_middle_of_a_write_goes_on(tmp_path: Path) -> None:
    search = Search(tmp_path, SPACE, 0, None)
    search.complete(search.ask().number, outcome(1, 2))
    before = (tmp_path / STORAGE).read_bytes()
    search.ask()
    after = (tmp_path / STORAGE).read_bytes()
    for end in range(len(before), len(after) + 1, 97):
        (tmp_path / STORAGE).write_bytes(after[:end])
        (tmp_path / f"{STORAGE}.lock").touch()
        again = Search(tmp_path, SPACE, 0, None)
        assert again.trials[0].outcome == outcome(1, 2)
        assert all(len(trial.values) == len(SPACE) for trial in again.trials if trial.state == "running")
        again.complete(again.ask().number, outcome(2, 3))
        assert searching.best(again.trials)[0].outcome == outcome(2, 3)


def test_a_damaged_storage_is_named(tmp_path: Path) -> None:
    Search(tmp_path, SPACE, 0, None).ask()
    lines = (tmp_path / STORAGE).read_text().splitlines(keepends=True)
    (tmp_path / STORAGE).write_text("".join([lines[0], "no JSON\n", *lines[1:]]))
    with pytest.raises(UsageError, match=rf"{STORAGE} is damaged"):
        Search(tmp_path, SPACE, 0, None)


def test_without_optuna_it_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r"pip install 'focops\[tune\]'"):
        Search(tmp_path, SPACE, 0, None)
