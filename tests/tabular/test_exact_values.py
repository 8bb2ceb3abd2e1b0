"""Exact evaluation against following the process step by step, and problems that are refused."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from focops.errors import UsageError
from focops.tabular import CMDP, evaluate, exact_values, garnet, gridworld, load, queue, save
from tests.tabular.problems import series, with_policy


@settings(max_examples=15, deadline=None)
@given(with_policy())
def test_returns_costs_and_visitation_are_those_of_the_process_itself(case):
    problem, policy = case
    found = evaluate(problem, policy)
    ret, cost, visits = series(problem, policy, 400)
    np.testing.assert_allclose(found.ret, ret, atol=1e-9)
    np.testing.assert_allclose(found.cost_return, cost, atol=1e-9)
    np.testing.assert_allclose(found.visitation, visits, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(with_policy())
def test_advantages_average_to_nothing_under_their_policy_and_obey_bellman(case):
    problem, policy = case
    found = evaluate(problem, policy)
    np.testing.assert_allclose(np.sum(policy * found.advantage, 1), 0, atol=1e-10)
    np.testing.assert_allclose(np.einsum("sa,sai->si", policy, found.cost_advantage), 0, atol=1e-10)
    transition = problem.transition.toarray().reshape(*problem.reward.shape, -1)
    np.testing.assert_allclose(found.q, problem.reward + problem.discount * transition @ found.value, atol=1e-10)


def test_each_cost_is_discounted_by_its_own_discount():
    problem = CMDP([[[1.0]]], [[1.0]], [[[1.0, 1.0]]], [1.0], [5.0, 5.0], 0.9, [0.5, 0.75])
    found = evaluate(problem, [[1.0]])
    np.testing.assert_allclose([found.ret, *found.cost_return], [10.0, 2.0, 4.0])


def test_large_problems_are_evaluated_as_exactly_as_small_ones(monkeypatch):
    problem = garnet(300, 3, 2, branching=5, discount=0.99)
    dense = evaluate(problem, problem.uniform())
    monkeypatch.setattr(exact_values, "_DENSE", 10)
    sparse = evaluate(problem, problem.uniform())
    for a, b in zip(dense, sparse, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    "problem",
    [garnet(5, 3, 2), gridworld(["S.#", ".HG"]), queue(), garnet(60, 3, 1, branching=4)],
    ids=["random", "grid", "queue", "sparse"],
)
def test_a_problem_comes_back_from_its_file(problem, tmp_path):
    save(problem, tmp_path / "p.json")
    again = load(tmp_path / "p.json")
    assert (again.names, again.action_names, again.grid) == (problem.names, problem.action_names, problem.grid)
    np.testing.assert_array_equal(again.limits, problem.limits)
    a, b = evaluate(problem, problem.uniform()), evaluate(again, again.uniform())
    np.testing.assert_allclose(a.ret, b.ret, rtol=1e-14)
    np.testing.assert_allclose(a.cost_return, b.cost_return, rtol=1e-14)


def test_a_grid_file_needs_only_its_map(tmp_path):
    (tmp_path / "g.json").write_text(json.dumps({"grid": ["SG"], "slip": 0.0, "discount": 0.5}))
    problem = load(tmp_path / "g.json")
    found = evaluate(problem, np.eye(4)[[1, 1]])  # right, into the goal at once
    np.testing.assert_allclose([found.ret, found.cost_return[0]], [1.0, 0.0])


def test_a_hazard_costs_when_entered_and_slips_go_sideways():
    problem = gridworld(["SG", "H."], slip=0.2, discount=0.5)
    right = evaluate(problem, np.eye(4)[[1] * 4])
    # from S: 0.8 the goal, 0.1 the hazard, 0.1 stays (up is the edge)
    np.testing.assert_allclose(right.q[0, 1], 0.8 + 0.5 * (0.1 * right.value[2] + 0.1 * right.value[0]))
    np.testing.assert_allclose(
        right.cost_q[0, 1, 0], 0.1 + 0.5 * (0.1 * right.cost_value[2, 0] + 0.1 * right.cost_value[0, 0])
    )


def test_a_full_queue_admits_nobody_and_an_empty_one_serves_nobody():
    problem = queue(2, arrivals=(1.0,), services=(1.0,), limits=(1.0, 1.0))
    transition = problem.transition.toarray().reshape(3, 1, 3)
    np.testing.assert_array_equal(transition[:, 0], [[0, 1, 0], [0, 1, 0], [0, 1, 0]])
    np.testing.assert_array_equal(problem.reward[:, 0], [1, 1, 0])
    np.testing.assert_array_equal(problem.cost[:, 0, 0], [0, 1, 2])


VALID = dict(transition=[[[1.0]]], reward=[[1.0]], cost=[[[1.0]]], start=[1.0], limits=[1.0], discount=0.9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transition": [[[0.9]]]}, "state 0, action 0 sums to 0.9"),
        ({"transition": sp.csr_array([[np.nan]])}, "not finite"),
        ({"transition": [[[1.0, 0.0]]]}, r"transition is \(1, 1, 2\); it must be \(1, 1, 1\)"),
        ({"reward": [[np.inf]]}, "reward holds a number that is not finite"),
        ({"reward": [["a lot"]]}, "reward is not an array of numbers"),
        ({"reward": [1.0]}, "reward has shape"),
        ({"start": [0.5]}, "start 0 is"),
        ({"limits": [1.0, 2.0]}, "limits has 2 entries, there are 1 costs"),
        ({"discount": 1.0}, r"a discount is 1.0; it must be in \(0, 1\)"),
        ({"cost_discounts": [0.0]}, r"a discount is 0.0; it must be in \(0, 1\)"),
    ],
)
def test_what_is_no_cmdp_is_refused_by_name(change, message):
    with pytest.raises(UsageError, match=message):
        CMDP(**(VALID | change))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "not an object"),
        ('{"reward": [[1]]}', "'transition' is missing"),
        (json.dumps(VALID | {"limit": 3}), "unknown field 'limit'"),
        (json.dumps(VALID | {"transition": {"row": [0]}}), "transition cannot be read"),
        ('{"grid": ["S?"]}', "there are: S start, G goal"),
        ('{"grid": ["S."]}', "needs a start and a goal"),
    ],
)
def test_a_bad_file_says_what_is_wrong_with_it(text, message, tmp_path):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(UsageError, match=message):
        load(tmp_path / "bad.json")
