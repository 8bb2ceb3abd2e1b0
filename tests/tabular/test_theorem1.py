"""Theorem 1 and its corollaries, as properties of random CMDPs, against a generic convex solver and differences."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import softmax

from focops.errors import UsageError
from focops.tabular import CMDP, evaluate, focops_update, garnet, gridworld
from focops.tabular.theorem1 import surrogate
from tests.tabular.problems import with_limits, with_policy

TRUST_REGIONS = st.sampled_from([1e-3, 0.02, 0.2, 1.0])
COMMON = dict(max_examples=25, deadline=None)


def expectation(weight, policy, of):
    return np.einsum("s,sa,sa...->...", weight, policy, of)


def mean_kl(weight, new, old):
    return np.sum(weight[:, None] * new * (np.log(np.maximum(new, 1e-300)) - np.log(old)))


def by_slsqp(problem: CMDP, old: np.ndarray, trust_region: float, recover: bool = False):
    """The trust-region problem handed to SciPy as it stands: variables π(a|s), no duality. Returns (value, π)."""
    found = evaluate(problem, old)
    d, shape, m = found.visitation, old.shape, problem.num_costs
    room = (1 - problem.discount) * (problem.limits - found.cost_return)
    policy_of = lambda x: x[: old.size].reshape(shape)
    cost = lambda x: expectation(d, policy_of(x), found.cost_advantage)
    excess = lambda x: x[old.size :] if recover else np.zeros(m)
    constraints = [
        {"type": "eq", "fun": lambda x: policy_of(x).sum(1) - 1},
        {"type": "ineq", "fun": lambda x: room + excess(x) - cost(x)},
        {"type": "ineq", "fun": lambda x: trust_region - mean_kl(d, policy_of(x), old)},
    ]
    goal = lambda x: x[old.size :].sum() if recover else -expectation(d, policy_of(x), found.advantage)
    size = old.size + (m if recover else 0)
    start = np.concatenate([old.ravel(), np.maximum(-room, 0)])[:size]
    bounds = [(1e-9, 1.0)] * old.size + [(0.0, None)] * (size - old.size)
    result = minimize(
        goal, start, method="SLSQP", bounds=bounds, constraints=constraints, options={"maxiter": 500, "ftol": 1e-12}
    )
    return -result.fun, policy_of(result.x), result


@settings(**COMMON)
@given(with_policy(feasible=True), TRUST_REGIONS)
def test_the_update_is_optimal_for_the_trust_region_problem(case, trust_region):
    problem, old = case
    update = focops_update(problem, old, trust_region)
    value, _, result = by_slsqp(problem, old, trust_region)
    assert update.status == "optimal"
    assume(result.success)
    np.testing.assert_allclose(update.primal, value, rtol=2e-4, atol=2e-6)


def test_a_search_that_meets_nearly_deterministic_policies_comes_back():
    """The Hessian vanishes there: a Newton step of 1e12, halved 40 times, was still too long."""
    transition = np.random.default_rng(2).dirichlet(np.full(2, 0.5), (2, 2)) * 0.95 + 0.025
    reward = np.array([[0.54528871, -0.6071857], [0.12682785, -0.89227404]])
    cost = [[[0.84146497, 0.18803509], [0.33057101, 0.41050391]], [[-1.0107575, 0.783181], [2.05670282, -1.6384425]]]
    start, limits = np.array([0.52368172, 0.47631828]), np.array([0.78886771, 0.12067093])
    problem = CMDP(transition, reward, np.array(cost), start, limits, 0.5)
    policy = np.array([[0.85833257, 0.14166743], [0.91242003, 0.08757997]])
    assert np.abs(focops_update(problem, policy, 0.2).residuals).max() < 1e-5


def test_multipliers_of_nearly_dependent_costs_are_found():
    """Their local quadratic problem has a condition number of 1e12, and SciPy's answer to it led uphill."""
    rng = np.random.default_rng(1314)
    states, actions = rng.integers(2, 5), rng.integers(2, 4)
    discount, trust_region = float(rng.choice([0.5, 0.8, 0.9])), float(rng.choice([0.01, 0.2, 1.0]))
    transition = rng.dirichlet(np.full(states, 0.5), (states, actions)) * 0.95 + 0.05 / states
    reward, cost = rng.normal(size=(states, actions)), rng.normal(size=(states, actions, 3))
    start, limits = rng.dirichlet(np.ones(states)), rng.uniform(0.7, 1.3) * np.abs(rng.normal(size=3))
    policy = rng.dirichlet(np.ones(actions), states) * 0.9 + 0.1 / actions
    update = focops_update(CMDP(transition, reward, cost, start, limits, discount), policy, trust_region)
    assert np.abs(update.residuals).max() < 1e-5


@settings(max_examples=80, deadline=None)
@given(with_policy(costs=(1, 3)), TRUST_REGIONS)
def test_primal_equals_dual_and_the_kkt_conditions_hold(case, trust_region):
    problem, old = case
    update = focops_update(problem, old, trust_region)
    scale = 1 + np.abs(update.nu).max(initial=0) + abs(update.dual)
    assert np.abs(update.residuals).max() < 1e-5 * scale
    np.testing.assert_allclose(update.primal, update.dual, atol=1e-5 * scale)
    assert update.temperature > 0
    assert np.all(update.nu >= 0)


@settings(**COMMON)
@given(with_policy(costs=(1, 3)), TRUST_REGIONS)
def test_the_step_stays_inside_the_trust_region(case, trust_region):
    problem, old = case
    update = focops_update(problem, old, trust_region)
    kl = mean_kl(evaluate(problem, old).visitation, update.policy, old)
    assert kl <= trust_region * (1 + 1e-8) + 1e-12
    np.testing.assert_allclose(update.policy.sum(1), 1)


@settings(**COMMON)
@given(with_policy(feasible=True, costs=(1, 3)), TRUST_REGIONS)
def test_the_update_has_the_printed_form_and_keeps_the_surrogate_limits(case, trust_region):
    problem, old = case
    update, found = focops_update(problem, old, trust_region), evaluate(problem, old)
    exponent = (found.advantage - found.cost_advantage @ update.nu) / update.temperature
    if np.abs(exponent).max() < 500:  # beyond, the trust region does not bind and exp overflows
        tilted = old * np.exp(exponent)
        np.testing.assert_allclose(update.policy, tilted / tilted.sum(1, keepdims=True), atol=1e-9)
        np.testing.assert_allclose(update.log_partition, np.log(tilted.sum(1)), atol=1e-8)
    surrogate_cost = found.cost_return + expectation(found.visitation, update.policy, found.cost_advantage) / (
        1 - problem.discount
    )
    assert np.all(surrogate_cost <= problem.limits + 1e-6 * (1 + np.abs(problem.limits)))


@settings(max_examples=60, deadline=None)
@given(with_policy(feasible=True, costs=(1, 2)), TRUST_REGIONS)
def test_the_worst_case_bound_on_the_true_cost_holds(case, trust_region):
    problem, old = case
    update, found, gamma = focops_update(problem, old, trust_region), evaluate(problem, old), problem.discount
    after = evaluate(problem, update.policy).cost_return
    epsilon = np.abs(np.einsum("sa,sai->si", update.policy, found.cost_advantage)).max(0)
    bound = problem.limits + np.sqrt(2 * trust_region) * gamma * epsilon / (1 - gamma) ** 2
    assert np.all(after <= bound + 1e-7)


@settings(**COMMON)
@given(with_policy(costs=(1, 2), tightness=(-3.0, 0.5)), st.sampled_from([1e-3, 0.02, 0.2]))
def test_out_of_reach_of_the_limits_the_excess_is_the_least_possible(case, trust_region):
    problem, old = case
    problem = with_limits(problem, evaluate(problem, old).cost_return - 2.0)
    update = focops_update(problem, old, trust_region)
    value, _, result = by_slsqp(problem, old, trust_region, recover=update.status == "recovery")
    assume(result.success)
    np.testing.assert_allclose(update.primal, value, rtol=1e-4, atol=2e-6)


@settings(**COMMON)
@given(with_policy(costs=(1, 2)), st.floats(0.2, 3.0), st.integers(0, 2**32 - 1))
def test_corollary_1_is_the_gradient_of_the_distance_to_the_optimal_update(case, temperature, seed):
    problem, old = case
    rng = np.random.default_rng(seed)
    nu, theta = rng.random(problem.num_costs), np.log(old) + 0.3 * rng.normal(size=old.shape)
    found = evaluate(problem, old)
    log_best, _ = surrogate(problem, old, 1.0).policy(temperature, nu)
    price = found.advantage - found.cost_advantage @ nu

    def loss(theta):
        new = softmax(theta, 1)
        return np.sum(found.visitation[:, None] * new * (np.log(new) - log_best))

    new = softmax(theta, 1)
    # ∇_θ π(b|s) of a softmax table: π(b|s)(1[a=b] − π(a|s))
    jacobian = new[:, :, None] * (np.eye(old.shape[1]) - new[:, None, :])
    kl_gradient = np.einsum("sb,sba->sa", np.log(new / old), jacobian)
    printed = kl_gradient - np.einsum("sb,sba->sa", old * price / old, jacobian) / temperature
    step, differences = 1e-6, np.zeros_like(theta)
    for index in np.ndindex(*theta.shape):
        e = np.zeros_like(theta)
        e[index] = step
        differences[index] = (loss(theta + e) - loss(theta - e)) / (2 * step)
    np.testing.assert_allclose(found.visitation[:, None] * printed, differences, atol=1e-7)


def corollary_2(problem, old, temperature, nu):
    """(differences of the dual in ν, the right gradient, the printed one)"""
    at, found, step = surrogate(problem, old, 0.02), evaluate(problem, old), 1e-6
    sides = [at.dual(temperature, nu + sign * step * row) for row in np.eye(nu.size) for sign in (1, -1)]
    differences = (np.array(sides[::2]) - np.array(sides[1::2])) / (2 * step)
    best = np.exp(at.policy(temperature, nu)[0])
    room = (1 - problem.discount) * (problem.limits - found.cost_return)
    right = room - expectation(found.visitation, best, found.cost_advantage)
    printed = room - expectation(found.visitation, best, found.advantage)
    return differences, right, printed


@settings(**COMMON)
@given(with_policy(costs=(1, 3)), st.floats(0.2, 3.0), st.floats(0.0, 2.0))
def test_corollary_2_holds_with_the_cost_advantage(case, temperature, nu):
    problem, old = case
    differences, right, _ = corollary_2(problem, old, temperature, np.full(problem.num_costs, nu))
    np.testing.assert_allclose(right, differences, atol=1e-7)


def test_corollary_2_as_printed_is_not_the_gradient():
    problem = garnet(4, 3, 1, seed=1)
    differences, right, printed = corollary_2(problem, problem.uniform(), 1.0, np.array([0.5]))
    np.testing.assert_allclose(right, differences, atol=1e-8)
    assert abs(printed[0] - differences[0]) > 1e-2


def test_a_policy_that_cannot_be_improved_is_left_as_it_is():
    problem = CMDP(np.ones((1, 2, 1)), [[1.0, 1.0]], [[[0.0], [1.0]]], [1.0], [100.0], 0.9)
    old = np.array([[0.3, 0.7]])
    update = focops_update(problem, old, 0.1)
    np.testing.assert_allclose(update.policy, old, atol=1e-6)
    np.testing.assert_allclose([update.primal, update.nu[0], update.kl], 0, atol=1e-6)


def test_actions_the_policy_never_takes_stay_so():
    problem = garnet(5, 3, 1, tightness=1.5)
    old = np.tile([0.5, 0.5, 0.0], (5, 1))
    update = focops_update(problem, old, 0.1)
    assert np.all(update.policy[:, 2] == 0)
    assert np.abs(update.residuals).max() < 1e-6


def test_a_cost_that_nobody_can_lower_is_recovered_from_in_vain():
    problem = CMDP(np.ones((1, 2, 1)), [[1.0, 2.0]], [[[1.0], [1.0]]], [1.0], [5.0], 0.9)
    update = focops_update(problem, [[0.5, 0.5]], 0.1)
    assert update.status == "recovery"
    np.testing.assert_allclose(update.primal, -0.1 * (10 - 5))


def test_an_impossible_trust_region_is_refused():
    with pytest.raises(UsageError, match="the trust region is 0"):
        focops_update(gridworld(["SG"]), gridworld(["SG"]).uniform(), 0.0)
