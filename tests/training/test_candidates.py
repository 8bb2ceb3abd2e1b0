"""The policies of a run's end that are kept to choose from."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from focops.core.normalize import RunningStats
from focops.training import candidates


def numbered(i: Any) -> tuple[Any, RunningStats]:
    """A policy and statistics whose numbers are that of their iteration."""
    return {"w": jnp.float32(i)}, RunningStats(jnp.full(2, i, jnp.float32), jnp.zeros(2), jnp.float32(i))


def run(iterations: int, count: int, dear: Sequence[int] = ()) -> candidates.Candidates:
    """What a run of so many iterations keeps, if the policies after those in `dear` cost more than it aims at."""
    within = ~np.isin(np.arange(iterations), dear)
    step = lambda i, kept: candidates.keep(kept, *numbered(i), i, jnp.asarray(within)[i], jnp.float32(i) / iterations)
    return jax.lax.fori_loop(0, iterations, step, candidates.init(count, *numbered(0)))


@pytest.mark.parametrize(("iterations", "count"), [(101, 6), (489, 6), (203, 3), (997, 10)])
def test_the_newest_policy_of_each_part_of_the_end_is_kept(iterations: int, count: int) -> None:
    kept = run(iterations, count)
    ends = 1 - candidates.PART + candidates.PART * np.arange(1, count + 1) / count
    # the last one before the end of its part
    expected = [max(i for i in range(iterations) if i / iterations < end - 1e-6) for end in ends]
    assert kept.iteration.tolist() == expected
    assert kept.policy["w"].tolist() == expected
    assert kept.stats.mean.tolist() == [[i, i] for i in expected]


def test_one_that_is_within_its_aim_stays_unless_a_newer_one_is() -> None:
    # parts of 10 iterations, 50 to 59 and so on
    dear = [*range(55, 60), *range(60, 70), 78, 80, 81, 99]
    assert run(100, 5, dear).iteration.tolist() == [54, 69, 79, 89, 98]


def ended(iterations: int, kept: candidates.Candidates | None) -> Any:
    params, stats = numbered(iterations)
    return SimpleNamespace(iteration=iterations, learner=SimpleNamespace(policy=params), stats=stats, candidates=kept)


def test_a_run_of_few_iterations_has_fewer() -> None:
    kept = run(5, 6)
    assert sorted(kept.iteration.tolist()) == [0, 0, 0, 0, 3, 4]
    assert [number for _, _, number in candidates.newest_first(ended(5, kept))] == [5, 4, 3]


def test_the_last_policy_comes_first_and_then_the_newest() -> None:
    found = candidates.newest_first(ended(101, run(101, 4)))
    assert [number for _, _, number in found] == [101, 100, 88, 75, 63]
    assert [float(params["w"]) for params, _, _ in found] == [101, 100, 88, 75, 63]


def test_without_candidates_there_is_the_last_policy_alone() -> None:
    assert [number for _, _, number in candidates.newest_first(ended(7, None))] == [7]
