"""The linear program against brute force, against itself decomposed, and on problems nobody can solve."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from focops.errors import UsageError
from focops.tabular import CMDP, Infeasible, evaluate, garnet, gridworld, queue, solve_lp
from tests.tabular.problems import cmdps, with_limits, with_policy


@settings(max_examples=15, deadline=None)
@given(with_policy(feasible=True, costs=(1, 1), states=(2, 3), actions=(2, 2)))
def test_the_optimum_is_the_best_mixture_of_deterministic_policies(case):
    problem, _ = case
    points = []
    for actions in itertools.product(range(problem.num_actions), repeat=problem.num_states):
        found = evaluate(problem, np.eye(problem.num_actions)[list(actions)])
        points.append((found.ret, found.cost_return[0]))
    limit, best = problem.limits[0], -np.inf
    for (r, c), (r2, c2) in itertools.product(points, repeat=2):
        if c <= limit:  # as much of the second as the limit allows
            share = 1.0 if c2 <= limit else (limit - c) / (c2 - c)
            best = max(best, (1 - share) * r + share * r2)
    solution = solve_lp(problem)
    np.testing.assert_allclose(solution.ret, best, rtol=1e-7, atol=1e-7)
    assert np.all(solution.cost_return <= problem.limits + 1e-7)


@settings(max_examples=15, deadline=None)
@given(with_policy(feasible=True, costs=(1, 3)))
def test_decomposed_and_whole_the_program_has_one_optimum(case):
    problem, _ = case
    whole, parts = solve_lp(problem, "direct"), solve_lp(problem, "decomposed")
    np.testing.assert_allclose(parts.ret, whole.ret, rtol=1e-6, atol=1e-6)
    for solution in (whole, parts):
        assert np.all(solution.cost_return <= problem.limits + 1e-6)
        np.testing.assert_allclose(solution.bound, solution.ret, rtol=1e-6, atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(with_policy(feasible=True, costs=(1, 2)))
def test_the_multipliers_are_what_a_little_more_limit_is_worth(case):
    problem, _ = case
    problem = with_limits(problem, problem.limits + 0.01)
    solution = solve_lp(problem)
    h = 1e-5
    for i in range(problem.num_costs):
        ends = [
            solve_lp(with_limits(problem, problem.limits + sign * h * np.eye(problem.num_costs)[i])).ret
            for sign in (1, -1)
        ]
        right, left = (ends[0] - solution.ret) / h, (solution.ret - ends[1]) / h
        # the return is concave in the limit, and has kinks: the multiplier is a supergradient
        assert right - 1e-3 <= solution.nu[i] <= left + 1e-3


@settings(max_examples=15, deadline=None)
@given(cmdps(costs=(2, 3)))
def test_both_methods_agree_on_what_is_feasible(problem):
    outcomes = []
    for method in ("direct", "decomposed"):
        try:
            outcomes.append(solve_lp(problem, method).ret)
        except Infeasible:
            outcomes.append(None)
    if None in outcomes:
        assert outcomes == [None, None]
    else:
        np.testing.assert_allclose(outcomes[0], outcomes[1], rtol=1e-6, atol=1e-6)


def test_an_end_that_nobody_reaches_still_gets_a_policy():
    problem = gridworld(["SG", "##", ".."], slip=0.0)
    solution = solve_lp(problem)
    np.testing.assert_allclose(solution.policy.sum(1), 1)
    np.testing.assert_allclose(solution.ret, 1.0)


def test_one_impossible_limit_is_named_with_the_least_that_is_possible():
    for method in ("direct", "decomposed"):
        with pytest.raises(Infeasible, match=r"no policy keeps effort ≤ 1; the least possible is 4\b") as error:
            solve_lp(queue(limits=(100.0, 1.0)), method)
        assert error.value.conflict == (1,)


def three_coins() -> CMDP:
    """Two actions; costs: taking the first, taking the second, nothing. The first two cannot both be rare."""
    cost = np.array([[[1.0, 0.0, 0.1], [0.0, 1.0, 0.1]]])
    return CMDP(np.ones((1, 2, 1)), [[1.0, 2.0]], cost, [1.0], [4.0, 4.0, 2.0], 0.9, names=("left", "right", "idle"))


def test_constraints_that_exclude_each_other_are_named_and_no_others():
    for method in ("direct", "decomposed"):
        with pytest.raises(Infeasible, match=r"left ≤ 4 and right ≤ 4 together.*exceeded by 2 in sum") as error:
            solve_lp(three_coins(), method)
        assert error.value.conflict == (0, 1)


def test_a_limit_that_leaves_just_one_policy_is_feasible():
    for method in ("direct", "decomposed"):
        solution = solve_lp(with_limits(three_coins(), [4.0, 6.0, 1.0]), method)
        np.testing.assert_allclose(solution.policy, [[0.4, 0.6]], atol=1e-6)
        assert solution.binding.all()


def test_several_discounts_are_refused_with_the_reason():
    problem = CMDP([[[1.0]]], [[1.0]], [[[1.0]]], [1.0], [5.0], 0.9, [0.5])
    with pytest.raises(UsageError, match=r"one discount .* γ = 0.9 and γ_C = 0.5"):
        solve_lp(problem)


def test_without_constraints_it_is_an_ordinary_mdp():
    problem = garnet(6, 3, 0)
    for method in ("direct", "decomposed"):
        solution = solve_lp(problem, method)
        assert solution.evaluation.advantage.max() < 1e-8
