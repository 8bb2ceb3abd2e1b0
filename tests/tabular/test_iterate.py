"""Theorem 1 iterated, against the linear program."""

import numpy as np
import pytest
from hypothesis import given, settings

from focops.errors import UsageError
from focops.tabular import evaluate, focops_iterate, garnet, practical_iterate, practical_update, queue, solve_lp
from focops.tabular.problems import PROBLEMS
from tests.tabular.problems import with_limits, with_policy


@settings(max_examples=10, deadline=None)
@given(with_policy(feasible=True, costs=(1, 3)))
def test_from_a_feasible_policy_the_iteration_reaches_the_optimum(case):
    problem, policy = case
    result = focops_iterate(problem, policy, trust_region=0.1)
    best = solve_lp(problem)
    assert result.converged
    np.testing.assert_allclose(result.ret[-1], best.ret, rtol=1e-4, atol=1e-4)
    assert np.all(result.cost_return[-1] <= problem.limits + 1e-5 * (1 + np.abs(problem.limits)))


@settings(max_examples=10, deadline=None)
@given(with_policy(feasible=True, costs=(1, 2)))
def test_from_an_infeasible_policy_it_becomes_feasible_and_optimal(case):
    problem, feasible = case
    best_unlimited = solve_lp(with_limits(problem, problem.limits + 1e6)).policy
    policy = 0.95 * best_unlimited + 0.05 * feasible
    result = focops_iterate(problem, policy, trust_region=0.1)
    assert result.converged
    assert np.all(result.cost_return[-1] <= problem.limits + 1e-5 * (1 + np.abs(problem.limits)))
    np.testing.assert_allclose(result.ret[-1], solve_lp(problem).ret, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("problem", [queue(), garnet(50, 4, 3, tightness=0.85), PROBLEMS["TwoLimits-v0"]])
def test_several_constraints_that_bind_together_are_all_met(problem):
    best = solve_lp(problem)
    assert best.binding.sum() >= 2
    result = focops_iterate(problem)
    np.testing.assert_allclose(result.ret[-1], best.ret, rtol=1e-5)
    np.testing.assert_allclose(result.cost_return[-1][best.binding], problem.limits[best.binding], rtol=1e-5)


def test_the_multipliers_end_at_those_of_the_linear_program():
    problem = garnet(30, 4, 2, tightness=0.85, seed=4)
    np.testing.assert_allclose(focops_iterate(problem).nu[-1], solve_lp(problem).nu, rtol=1e-3)


def test_the_practical_step_moves_the_multiplier_first_and_then_the_policy():
    problem = garnet(4, 3, 2, tightness=0.8)
    old = problem.uniform()
    found = evaluate(problem, old)
    policy, nu = practical_update(problem, old, np.array([0.1, 0.9]), temperature=2.0, nu_rate=0.5, nu_max=1.0)
    np.testing.assert_allclose(nu, np.clip([0.1, 0.9] - 0.5 * (problem.limits - found.cost_return), 0, 1.0))
    tilted = old * np.exp((found.advantage - found.cost_advantage @ nu) / 2.0)
    np.testing.assert_allclose(policy, tilted / tilted.sum(1, keepdims=True), atol=1e-11)


def test_the_practical_iteration_circles_the_optimum_and_its_average_is_near_it():
    problem = PROBLEMS["Crossroads-v0"]
    best = solve_lp(problem)
    result = practical_iterate(problem, temperature=0.2, nu_rate=1.0, updates=2000)
    late = slice(1000, None)
    np.testing.assert_allclose(result.cost_return[late].mean(0), problem.limits, rtol=0.02)
    np.testing.assert_allclose(result.nu[late].mean(0), best.nu, rtol=0.05)
    # λ fixed and ν stepped: the paper's practical rule alone does not settle here
    assert result.cost_return[late].std() > 0.02


def test_a_temperature_must_be_positive():
    problem = garnet(3, 2)
    with pytest.raises(UsageError, match="the temperature is 0"):
        practical_update(problem, problem.uniform(), np.zeros(1), temperature=0.0, nu_rate=0.1)
