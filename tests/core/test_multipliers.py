"""Lagrange multipliers: steps, bounds and the lead."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from focops.algorithms import focops
from focops.core import multipliers


@pytest.mark.parametrize(
    ("nu", "cost", "expected"),
    [
        (0.5, 110.0, 0.6),  # 0.5 − 0.01·(100 − 110)
        (0.5, 90.0, 0.4),
        (0.05, 10.0, 0.0),  # 0.05 − 0.9 is clipped at 0
        (1.99, 300.0, 2.0),  # 1.99 + 2 is clipped at nu_max
    ],
)
def test_a_multiplier_moves_by_the_violation_and_stays_in_its_interval(nu, cost, expected):
    result = multipliers.step(jnp.array([nu]), jnp.array([cost]), jnp.array([100.0]), 0.01, 2.0)
    np.testing.assert_allclose(result, [expected], rtol=1e-5)


def test_multipliers_of_several_constraints_do_not_mix():
    nu = multipliers.step(jnp.zeros(3), jnp.array([2.0, 1.0, 0.0]), jnp.ones(3), 0.5, jnp.inf)
    np.testing.assert_allclose(nu, [0.5, 0.0, 0.0])


@pytest.mark.parametrize("cost", [104.0, 97.0, 500.0, -500.0])
def test_the_lead_is_where_the_multiplier_would_be_after_so_many_more_steps(cost):
    ahead = nu = jnp.array([0.5])
    for _ in range(3):
        ahead = multipliers.step(ahead, jnp.array([cost]), jnp.array([100.0]), 0.01, 2.0)
    config = dataclasses.replace(focops.Config(), nu_rate=0.01, nu_max=2.0, nu_lead=3.0)
    found = multipliers.lead(nu, jnp.array([cost]), jnp.array([100.0]), jnp.ones(1), jnp.array([0.01]), config)
    np.testing.assert_allclose(found, ahead, rtol=1e-6)


@pytest.mark.parametrize("worth", [3.0, 30.0, 500.0])
def test_a_lead_in_units_damps_slow_and_fast_loops_alike(worth):
    """Cost follows ν by −gain·ν per update, gain in proportion to the worth of a step. In half a period of the undamped
    loop, π/√(α·gain) updates, a violation must have turned into the same share of itself, however fast the loop is. The
    share is that of x″ + 2ζx′ + x = 0, for many updates in a period."""
    config = dataclasses.replace(focops.Config(), nu_rate=0.01, nu_max=jnp.inf, nu_lead=10.0, lead_units=True)
    gain, limit, rate = worth / 500, jnp.array([100.0]), jnp.array([config.nu_rate])
    nu, cost = jnp.array([50.0]), jnp.array([110.0])
    balance = float(nu[0])  # where cost neither rises nor falls; far from the bound at 0
    for _ in range(round(np.pi / np.sqrt(config.nu_rate * gain))):
        nu = multipliers.step(nu, cost, limit, rate, config.nu_max)
        cost = cost - gain * (multipliers.lead(nu, cost, limit, jnp.array([worth]), rate, config) - balance)
    damping = 10 / np.sqrt(500) / 2
    root = np.sqrt(1 - damping**2)
    expected = np.exp(-damping * np.pi) * (np.cos(root * np.pi) - damping / root * np.sin(root * np.pi))
    assert float(cost[0] - 100) / 10 == pytest.approx(expected, abs=0.1)


def test_a_lead_in_units_is_each_constraints_own_and_bounded():
    config = dataclasses.replace(focops.Config(), nu_rate=0.01, nu_lead=10.0, lead_units=True)
    found = multipliers.updates_ahead(jnp.array([400.0, 25.0, 0.0]), jnp.full(3, 0.01), config)
    np.testing.assert_allclose(found, [5.0, 20.0, 100.0], rtol=1e-5)  # 10/√(0.01·400), 10/√(0.01·25), the bound


def test_an_infinite_bound_leaves_the_multiplier_free():
    nu = multipliers.step(jnp.array([1e6]), jnp.array([1e6]), jnp.zeros(1), 1.0, jnp.inf)
    np.testing.assert_allclose(nu, [2e6])


def test_a_settling_multiplier_slows_down_with_the_policy():
    config = lambda settle: dataclasses.replace(focops.Config(), settle=settle)
    full = jnp.full(4, 0.01)
    rate = lambda settle, violation: multipliers.settled(full, 0.9, jnp.array(violation), jnp.ones(4), config(settle))
    np.testing.assert_allclose(rate(False, [0.0, 2.0, -4.0, 9.0]), 0.01)
    # of 4 standard errors: noise, half certain, certain, more than certain
    np.testing.assert_allclose(rate(True, [0.0, 2.0, -4.0, 9.0]), [0.001, 0.005, 0.01, 0.01], rtol=1e-6)


def test_a_multiplier_moves_slower_where_the_cost_is_known_badly():
    limit, error = jnp.array([100.0, 100.0, -100.0, 0.0, 0.0]), jnp.array([9.0, 40.0, 40.0, 40.0, 0.0])
    cost = jnp.array([5.0, 5.0, 5.0, 200.0, 0.0])
    rate = lambda share: multipliers.step_size(cost, limit, error, dataclasses.replace(focops.Config(), nu_noise=share))
    # errors of 9%, 40%, 40% of the limit, 20% of the cost, none
    np.testing.assert_allclose(rate(0.1), [0.01, 0.0025, 0.0025, 0.005, 0.01], rtol=1e-5)
    np.testing.assert_array_equal(rate(jnp.inf), jnp.float32(0.01))


def test_a_cost_that_falls_slowly_and_is_known_badly_does_not_wind_the_multiplier_up():
    """A cost that falls by half a unit per update as soon as ν is at its balance, and no faster with more. As seen, it
    has a standard error of 30 at a limit of 25."""
    balance, fall, limit, error = 0.3, 0.5, jnp.array([25.0]), jnp.array([30.0])
    peaks = {}
    for share in (jnp.inf, 0.1):
        config = dataclasses.replace(focops.Config(), nu_rate=0.002, nu_max=jnp.inf, nu_noise=share)
        noise, cost, nu, peaks[share] = np.random.default_rng(0), 60.0, jnp.zeros(1), 0.0
        for _ in range(400):
            seen = jnp.array([cost + float(error[0]) * noise.normal()])
            nu = multipliers.step(nu, seen, limit, multipliers.step_size(seen, limit, error, config), config.nu_max)
            cost += fall * np.clip(balance - float(nu[0]), -1, 1)
            peaks[share] = max(peaks[share], float(nu[0]))
    assert peaks[0.1] < peaks[jnp.inf] / 2


CONFIG = focops.Config()
SOLVED = jax.jit(multipliers.solved)


def advantages(seed: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Â [N] and Â_C [N, m], correlated in a random way and standardised."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(300, m + 1)) @ rng.normal(size=(m + 1, m + 1))
    mixed = (mixed - mixed.mean(0)) / mixed.std(0)
    return mixed[:, 0], mixed[:, 1:]


@pytest.mark.parametrize(("seed", "m"), [(seed, m) for seed in range(4) for m in (1, 2, 3)])
def test_the_multipliers_that_are_solved_for_give_the_best_direction_that_lowers_the_costs(seed, m):
    """Of all directions d of length 1, the one with the largest E[d·Â] under E[d·Â_C] ≤ −lower."""
    advantage, cost_advantage = advantages(seed, m)
    lower = np.random.default_rng(seed).uniform(-0.5, 0.4, m)
    basis = np.linalg.qr(np.column_stack([advantage, cost_advantage]))[0] * np.sqrt(len(advantage))
    mean = lambda x, with_: (basis @ x) @ with_ / len(advantage)
    within = [
        {"type": "ineq", "fun": lambda x: 1 - x @ x},
        {"type": "ineq", "fun": lambda x: -lower - mean(x, cost_advantage)},
    ]
    start = basis.T @ advantage / len(advantage)
    best = minimize(lambda x: -mean(x, advantage), start, constraints=within, method="SLSQP", tol=1e-10)
    assert best.success
    nu = np.asarray(SOLVED(jnp.asarray(advantage), jnp.asarray(cost_advantage), jnp.asarray(lower), jnp.inf))
    found = advantage - cost_advantage @ nu
    found /= found.std()
    assert (nu >= 0).all()
    np.testing.assert_allclose(found @ advantage / len(found), -best.fun, atol=1e-3)
    assert (found @ cost_advantage / len(found) <= -lower + 1e-3).all()


@pytest.mark.parametrize(("lower", "nu_max"), [(0.0, 5.0), (0.6, 5.0), (-0.3, 5.0), (-1.0, 5.0), (0.9, 0.7)])
def test_with_one_constraint_they_have_a_closed_form(lower, nu_max):
    advantage, cost_advantage = advantages(2, 1)
    c = np.mean(advantage * cost_advantage[:, 0])
    assert 0.1 < c < 0.9
    at_any_price = c + np.sqrt(1 - c**2) * lower / np.sqrt(max(1 - lower**2, 1e-12))
    found = SOLVED(jnp.asarray(advantage), jnp.asarray(cost_advantage), jnp.array([lower]), nu_max)
    np.testing.assert_allclose(found, [np.clip(at_any_price, 0, nu_max)], atol=1e-3)


def test_where_cost_is_reward_or_never_occurs_they_are_finite_and_move_with_the_violation():
    advantage = jnp.asarray(advantages(0, 1)[0])
    same = partial(SOLVED, advantage, advantage[:, None], nu_max=5.0)
    assert float(same(jnp.array([-0.3]))[0]) < 1 < float(same(jnp.array([0.3]))[0])
    np.testing.assert_array_equal(SOLVED(advantage, jnp.zeros((300, 1)), jnp.array([-1.0]), 5.0), 0.0)


@pytest.mark.parametrize("worth", [20.0, 100.0, 1000.0])
def test_a_violation_is_taken_back_without_a_swing_whatever_a_step_is_worth(worth):
    """An update lowers J_C by 0.15·w times what is wanted, less what the policy does of itself."""
    limit, drift, cost, lasting, seen = 100.0, 0.02 * worth, 100.0 + 0.3 * worth, jnp.zeros(1), []
    for _ in range(400):
        violation = jnp.array([cost - limit])
        lower, lasting = multipliers.wanted(lasting, violation, jnp.zeros(1), jnp.array([worth]), 0.0, CONFIG)
        cost += drift - 0.15 * worth * float(lower[0])
        seen.append((cost - limit) / worth)
    assert min(seen) > -0.05
    assert abs(seen[20]) < 0.15
    assert abs(seen[-1]) < 0.01  # the lasting part makes up for what the policy does of itself


def test_what_lasts_is_not_below_zero_and_more_is_asked_of_shorter_steps():
    wanted = lambda violation, progress, settle: multipliers.wanted(
        *(jnp.zeros(1), jnp.array([violation]), jnp.zeros(1), jnp.ones(1)),
        progress, dataclasses.replace(CONFIG, settle=settle),
    )  # fmt: skip
    assert float(wanted(-0.1, 0.0, False)[1][0]) == 0.0
    lower, lasting = (float(x[0]) for x in wanted(0.02, 0.0, True))
    assert lower > lasting > 0
    later = [float(x[0]) for x in wanted(0.02, 0.8, True)]
    np.testing.assert_allclose(later, [5 * (lower - lasting) + lasting, lasting], rtol=1e-5)
    np.testing.assert_allclose(wanted(0.02, 0.8, False), [[lower], [lasting]], rtol=1e-6)


@pytest.mark.parametrize("worth", [0.5, 20.0, 1000.0])
def test_noise_in_the_cost_return_asks_for_little_however_little_a_step_is_worth(worth):
    """One and two standard errors, alone and below what a sum of them would be."""
    asked = lambda error, times: float(
        multipliers.wanted(
            jnp.zeros(1), jnp.array([times * error]), jnp.array([error]), jnp.array([worth]), 0.0, CONFIG
        )[0][0]
    )
    exact = float(multipliers.wanted(jnp.zeros(1), jnp.ones(1), jnp.zeros(1), jnp.array([worth]), 0.0, CONFIG)[0][0])
    for error in (0.1, 1.0, 10.0):
        np.testing.assert_allclose(asked(error, 2.0), 2 * asked(error, 1.0), rtol=1e-4)
        assert 0 < asked(error, 1.0) < 0.11
    assert exact >= asked(1.0, 1.0)


def test_far_below_the_limit_an_update_need_not_look_at_the_cost_and_near_it_must():
    """w is 300 and the standard error 4: at 60 below, ν is 0 although cost follows reward."""
    advantage, cost_advantage = advantages(2, 1)
    limited = {}
    for below in (0.0, 4.0, 8.0, 12.0, 60.0):
        lower, lasting = multipliers.wanted(
            jnp.zeros(1), jnp.array([-below]), jnp.array([4.0]), jnp.array([300.0]), 0.0, CONFIG
        )
        assert float(lasting[0]) == 0.0
        limited[below] = (
            float(lower[0]),
            float(SOLVED(jnp.asarray(advantage), jnp.asarray(cost_advantage), lower, 5.0)[0]),
        )
    np.testing.assert_allclose([limited[b][0] for b in (0.0, 4.0, 8.0)], [0.0, -0.04, -0.08], atol=1e-6)
    np.testing.assert_allclose(limited[12.0][0], -0.12 - 30 * 4 / 300, rtol=1e-5)
    assert limited[0.0][1] > limited[8.0][1] > limited[12.0][1] > limited[60.0][1] == 0.0
