"""Random small CMDPs for property tests."""

import numpy as np
from hypothesis import strategies as st

from focops.tabular import CMDP


@st.composite
def cmdps(draw, costs=(1, 2), states=(2, 4), actions=(2, 3), tightness=(0.7, 1.3)):
    """Every state can be reached from every other (all transitions possible); signed rewards and costs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    s, a, m = (draw(st.integers(*bounds)) for bounds in (states, actions, costs))
    discount = draw(st.sampled_from([0.5, 0.8, 0.9]))
    transition = rng.dirichlet(np.full(s, 0.5), (s, a)) * 0.95 + 0.05 / s
    reward, cost = rng.normal(size=(s, a)), rng.normal(size=(s, a, m))
    start = rng.dirichlet(np.ones(s))
    limits = draw(st.floats(*tightness)) * np.abs(rng.normal(size=m))
    return CMDP(transition, reward, cost, start, limits, discount)


@st.composite
def with_policy(draw, feasible: bool = False, **kwargs):
    """(CMDP, policy with full support); limits at or above the policy's cost if it is to be feasible."""
    problem = draw(cmdps(**kwargs))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    policy = rng.dirichlet(np.ones(problem.num_actions), problem.num_states) * 0.9 + 0.1 / problem.num_actions
    if feasible:
        room = draw(st.sampled_from([0.0, 0.05, 0.5]))
        problem = with_limits(problem, series(problem, policy)[1] + room)
    return problem, policy


def with_limits(problem: CMDP, limits) -> CMDP:
    return CMDP(problem.transition, problem.reward, problem.cost, problem.start, limits, problem.discount)


def series(problem: CMDP, policy, terms: int = 2000):
    """(J, J_C, d) by following the distribution of states step by step: independent of any linear solver."""
    transition = problem.transition.toarray().reshape(*problem.reward.shape, -1)
    here, ret, cost, visits = problem.start, 0.0, np.zeros(problem.num_costs), np.zeros(problem.num_states)
    for t in range(terms):
        pairs = here[:, None] * policy
        ret += problem.discount**t * np.sum(pairs * problem.reward)
        cost = cost + problem.cost_discounts**t * np.einsum("sa,sai->i", pairs, problem.cost)
        visits = visits + (1 - problem.discount) * problem.discount**t * here
        here = np.einsum("sa,sat->t", pairs, transition)
    return ret, cost, visits
