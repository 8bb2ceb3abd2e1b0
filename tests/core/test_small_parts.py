"""Multipliers, running statistics, networks and minibatches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focops.core import multipliers, normalize, policy, sgd
from focops.core.networks import MLP
from focops.core.spec import Spec


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
    found = multipliers.lead(nu, jnp.array([cost]), jnp.array([100.0]), 0.01, 2.0, 3.0)
    np.testing.assert_allclose(found, ahead, rtol=1e-6)


def test_an_infinite_bound_leaves_the_multiplier_free():
    nu = multipliers.step(jnp.array([1e6]), jnp.array([1e6]), jnp.zeros(1), 1.0, jnp.inf)
    np.testing.assert_allclose(nu, [2e6])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(0, 2**31))
def test_running_statistics_are_those_of_all_rows_whatever_the_pieces(pieces, seed):
    rows = np.random.default_rng(seed).normal(5.0, [0.1, 3.0], (sum(pieces), 2)).astype(np.float32)
    stats = normalize.init(2)
    for piece in np.split(rows, np.cumsum(pieces)[:-1]):
        stats = normalize.observe(stats, jnp.asarray(piece))
    np.testing.assert_allclose(stats.mean, rows.mean(0), rtol=1e-4)
    np.testing.assert_allclose(stats.variance, rows.var(0), rtol=2e-3, atol=1e-4)
    assert stats.count == len(rows)


def test_a_million_observations_keep_their_deviation_in_float32():
    rng = np.random.default_rng(0)
    stats = normalize.init(1)
    rows = rng.normal(100.0, 2.0, (20_000, 50, 1)).astype(np.float32)
    stats, _ = jax.lax.scan(lambda s, x: (normalize.observe(s, x), None), stats, jnp.asarray(rows))
    np.testing.assert_allclose(np.sqrt(stats.variance), rows.std(), rtol=1e-3)


def test_normalised_observations_are_floored_and_clipped():
    stats = normalize.RunningStats(jnp.array([1.0, 1.0]), jnp.array([4.0, 0.0]), jnp.array(10.0))
    obs = jnp.array([[3.0, 1.001], [100.0, 2.0]])
    # (3 − 1)/2 = 1; 0.001/0.01 = 0.1; the rest beyond ±5
    np.testing.assert_allclose(normalize.apply(stats, obs), [[1.0, 0.1], [5.0, 5.0]], rtol=1e-3)


def test_an_mlp_is_tanh_layers_and_a_linear_one():
    net = MLP((4, 3))
    params = net.init(jax.random.key(0), 2, 5)
    x = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    h = x
    for layer in params[:-1]:
        h = np.tanh(h @ np.asarray(layer.weight) + np.asarray(layer.bias))
    expected = h @ np.asarray(params[-1].weight) + np.asarray(params[-1].bias)
    np.testing.assert_allclose(net.apply(params, jnp.asarray(x)), expected, atol=1e-6)


def test_an_mlp_starts_uniform_with_a_small_last_layer():
    params = MLP((64, 64)).init(jax.random.key(0), 16, 3)
    first, last = np.asarray(params[0].weight), np.asarray(params[-1].weight)
    assert 0.24 < np.abs(first).max() <= 0.25
    assert np.abs(first.std() - 0.25 / np.sqrt(3)) < 0.01
    assert 0.01 < np.abs(last).max() <= 0.1 / 8
    np.testing.assert_array_equal(params[-1].bias, np.zeros(3))


def count_step(state, minibatch):
    seen, steps = state
    return seen.at[minibatch].add(1), steps + 1


def test_every_sample_is_seen_once_per_epoch_in_a_new_order():
    start = (jnp.zeros(12, jnp.int32), jnp.int32(0))
    orders = []

    def step(state, minibatch):
        jax.debug.callback(lambda m: orders.append(np.asarray(m)), minibatch, ordered=True)
        return count_step(state, minibatch)

    (seen, steps), used, _ = sgd.epochs(
        jax.random.key(0), start, jnp.arange(12), step, lambda _: jnp.float32(0), jnp.inf, 3, 4
    )
    jax.effects_barrier()
    np.testing.assert_array_equal(seen, np.full(12, 3))
    assert (int(steps), int(used)) == (9, 3)
    assert not np.array_equal(np.concatenate(orders[:3]), np.concatenate(orders[3:6]))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 2048])
def test_a_shuffle_is_a_permutation(size):
    order = np.asarray(sgd.shuffle(jax.random.key(0), size))
    np.testing.assert_array_equal(np.sort(order), np.arange(size))


def test_a_shuffle_sends_every_sample_everywhere_equally_often():
    orders = np.asarray(jax.vmap(lambda k: sgd.shuffle(k, 8))(jax.random.split(jax.random.key(0), 20_000)))
    counts = np.array([np.bincount(orders[:, place], minlength=8) for place in range(8)])
    # 2500 ± 47 each
    np.testing.assert_allclose(counts, 2500, atol=5 * 47)


def test_epochs_end_after_the_first_whole_one_that_exceeds_the_bound():
    divergence = lambda state: state[1] / 10.0
    (_, steps), used, last = sgd.epochs(
        jax.random.key(0), (jnp.zeros(12, jnp.int32), jnp.int32(0)), jnp.arange(12), count_step, divergence, 0.5, 10, 4
    )
    # 3 steps an epoch: 0.3, then 0.6 > 0.5
    assert (int(steps), int(used)) == (6, 2)
    np.testing.assert_allclose(last, 0.6, rtol=1e-6)


def test_descend_is_adam_as_published():
    rng = np.random.default_rng(0)
    params = {"a": jnp.zeros((2, 3)), "b": jnp.zeros(4)}
    adam, x = sgd.ADAM.init(params), np.zeros(10)
    m, v = np.zeros(10), np.zeros(10)
    for t in range(1, 6):
        g = rng.normal(size=10).astype(np.float32)
        gradient = {"a": jnp.asarray(g[:6].reshape(2, 3)), "b": jnp.asarray(g[6:])}
        params, adam = sgd.descend(params, adam, gradient, 0.01)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x -= 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(np.concatenate([params["a"].ravel(), params["b"]]), x, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("bound", "expected"), [(1.0, [0.6, 0.8]), (10.0, [3.0, 4.0]), (jnp.inf, [3.0, 4.0])])
def test_a_gradient_is_scaled_down_to_the_bound_only(bound, expected):
    clipped = sgd.clip_norm({"a": jnp.array([3.0]), "b": jnp.array([4.0])}, bound)
    np.testing.assert_allclose([clipped["a"][0], clipped["b"][0]], expected, rtol=1e-6)


def first_std(low, high, **settings):
    spec = Spec(3, 4, False, (), None, action_low=low, action_high=high)
    return np.exp(policy.init(jax.random.key(0), MLP((4,)), spec, -0.5, **settings).log_std)


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        (0.0, [1, 1, 1, 1]),
        (1.0, [0.4, 3, 1, 1]),  # of half the range; one that cannot move, one whose bounds bound nothing
        (0.5, [0.4**0.5, 3**0.5, 1, 1]),
    ],
)
def test_noise_starts_in_units_of_what_each_action_can_do(units, expected):
    found = first_std((-0.4, 1.0, 2.0, -3e38), (0.4, 7.0, 2.0, 3e38), std_units=units)
    np.testing.assert_allclose(found, np.exp(-0.5) * np.array(expected), rtol=1e-6)


def test_without_bounds_noise_starts_as_published():
    np.testing.assert_allclose(first_std(None, None, std_units=1.0), np.exp(-0.5), rtol=1e-6)
    np.testing.assert_array_equal(first_std((-2.0,) * 4, (2.0,) * 4), first_std(None, None))
