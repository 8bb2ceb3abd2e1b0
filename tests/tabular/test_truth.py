"""The deep learner, trained by the ordinary loop, against the linear program."""

import gymnasium
import numpy as np
import pytest

from benchmarks.truth import distance, settings, train
from focops.tabular import evaluate, solve_lp
from focops.tabular.environment import CMDPEnv, ends
from focops.tabular.problems import PROBLEMS


@pytest.mark.parametrize("name", PROBLEMS)
def test_trained_focops_reaches_the_optimum_and_keeps_the_limits_within_2_percent(name):
    problem = PROBLEMS[name]
    best = solve_lp(problem)
    untrained = distance(problem, problem.uniform(), best)
    assert untrained.shortfall > 0.04 or np.any(untrained.violation > 0.04)  # it has something to learn
    shortfall, violation = distance(problem, train(settings(name)), best)
    assert shortfall < 0.02
    assert np.all(violation < 0.02)


def test_the_problems_are_what_they_are_said_to_be():
    two, one = solve_lp(PROBLEMS["TwoLimits-v0"]), solve_lp(PROBLEMS["Crossroads-v0"])
    assert two.binding.all()
    assert np.all(two.nu > 0.1)
    # at the crossroads every deterministic policy breaks the limit or falls short
    assert 0.2 < one.policy[0, 0] < 0.8
    for action in (0, 1):
        shortfall, violation = distance(PROBLEMS["Crossroads-v0"], np.eye(2)[[action] * 3], one)
        assert shortfall > 0.05 or violation[0] > 0.1


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_environment_steps_by_its_problem(name):
    problem = PROBLEMS[name]
    env = CMDPEnv(problem)
    rng = np.random.default_rng(0)
    transition = problem.transition.toarray().reshape(*problem.reward.shape, -1)
    counts, state = np.zeros_like(transition), int(np.argmax(env.reset(seed=0)[0]))
    for _ in range(6000):
        action = int(rng.integers(problem.num_actions))
        obs, reward, terminated, _, info = env.step(action)
        successor = int(np.argmax(obs))
        assert reward == problem.reward[state, action]
        np.testing.assert_array_equal(np.atleast_1d(info["cost"]), problem.cost[state, action])
        assert terminated == ends(problem)[successor]
        counts[state, action, successor] += 1
        state = int(np.argmax(env.reset()[0])) if terminated else successor
    visits = counts.sum(-1, keepdims=True)
    tolerance = 4.5 * np.sqrt(transition * (1 - transition) / np.maximum(visits, 1))
    assert np.all((np.abs(counts / np.maximum(visits, 1) - transition) <= tolerance + 1e-9) | (visits == 0))


@pytest.mark.parametrize("name", PROBLEMS)
def test_cutting_episodes_at_the_time_limit_changes_values_by_less_than_a_fifth_of_a_percent(name):
    problem = PROBLEMS[name]
    limit = gymnasium.spec(name).max_episode_steps
    here, ret, cost = problem.start, 0.0, np.zeros(problem.num_costs)
    policy = solve_lp(problem).policy
    transition = problem.transition.toarray().reshape(*problem.reward.shape, -1)
    for t in range(limit):
        pairs = here[:, None] * policy
        ret += problem.discount**t * np.sum(pairs * problem.reward)
        cost += problem.discount**t * np.einsum("sa,sai->i", pairs, problem.cost)
        here = np.einsum("sa,sat->t", pairs, transition)
    exact = evaluate(problem, policy)
    np.testing.assert_allclose([ret, *cost], [exact.ret, *exact.cost_return], rtol=2e-3)
