"""The critics' losses and steps."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from focops.core import base, critics
from tests.algorithms.cases import spec

CONFIG = base.Config(hidden=(32, 32), value_l2=0.0, value_rate=3e-3, cost_value_rate=3e-3, limits=(1.0, 2.0))


def new():
    return critics.init(jax.random.key(0), jax.random.key(1), spec(False), CONFIG)


def test_critics_learn_their_own_targets():
    obs = jax.random.normal(jax.random.key(1), (128, 5))
    target, cost_target = jax.random.normal(jax.random.key(2), (128,)), jax.random.normal(jax.random.key(3), (128, 2))
    fit = jax.jit(critics.fit, static_argnums=5)
    fitted = fit(new(), obs, target, cost_target, 1.0, 1500, CONFIG)
    value_error, cost_errors = critics.errors(fitted, obs, target, cost_target, CONFIG)
    assert value_error < 0.5 * np.var(target)
    assert (np.asarray(cost_errors) < 0.5 * np.var(cost_target, 0)).all()


def test_a_critics_gradient_does_not_see_the_other_critics():
    state = new()
    obs = jax.random.normal(jax.random.key(1), (20, 5))
    target = jax.random.normal(jax.random.key(2), (20, 3))
    together = jax.jit(jax.grad(critics.losses))(state.params, jnp.ones(3), obs, target, CONFIG)
    one = jax.jit(jax.grad(critics.value_loss))
    for i in range(3):
        alone = one(jax.tree.map(lambda p, i=i: p[i], state.params), 1.0, obs, target[:, i], CONFIG)
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, atol=1e-6), together, alone)


def test_the_reward_critic_and_the_cost_critics_have_rates_of_their_own():
    state = new()
    obs, target = jax.random.normal(jax.random.key(1), (20, 5)), jax.random.normal(jax.random.key(2), (20, 3))
    config = dataclasses.replace(CONFIG, value_rate=1e-3, cost_value_rate=4e-3)
    after = jax.jit(critics.step)(state, obs, target[:, 0], target[:, 1:], 0.5, config)
    for before, now in zip(jax.tree.leaves(state.params), jax.tree.leaves(after.params), strict=True):
        moved = np.abs(now - before).reshape(3, -1).max(1)  # Adam's first step is the rate itself
        np.testing.assert_allclose(moved, [0.5e-3, 2e-3, 2e-3], rtol=1e-2)


def test_the_penalty_is_on_every_parameter():
    state = new()
    flat = np.concatenate([np.ravel(p[0]) for p in jax.tree.leaves(state.params)])
    config = base.Config(hidden=(32, 32), value_l2=0.5, limits=(1.0, 2.0))
    obs = jnp.zeros((4, 5))
    first = jax.tree.map(lambda p: p[0], state.params)
    loss = lambda config: critics.value_loss(first, 1.0, obs, jnp.zeros(4), config)
    np.testing.assert_allclose(loss(config) - loss(CONFIG), 0.5 * (flat**2).sum(), rtol=1e-4)


def batch_of(scale):
    obs, targets = jax.random.normal(jax.random.key(1), (64, 5)), jax.random.normal(jax.random.key(2), (64, 3))
    return obs, scale * (3.0 + targets)


def test_as_published_a_critic_is_its_network():
    state, (obs, targets) = new(), batch_of(100.0)
    after = critics.in_units_of(state, targets, CONFIG)
    np.testing.assert_array_equal(after.units, 1.0)
    networks = jax.vmap(lambda p: base.network(CONFIG).apply(p, obs)[:, 0])(state.params)
    for known in (state, after):
        np.testing.assert_allclose(critics.values(known, obs, CONFIG), networks, atol=1e-7)
    np.testing.assert_allclose(critics.values(after, obs, CONFIG, first=1), networks[1:], atol=1e-7)


def test_units_are_the_targets_root_mean_square_and_follow_it_slowly():
    config = dataclasses.replace(CONFIG, value_units=True)
    first, later = batch_of(100.0)[1], batch_of(300.0)[1]
    size = lambda x: np.sqrt(np.mean(np.square(x), 0))
    state = critics.in_units_of(new(), first, config)
    np.testing.assert_allclose(state.units, size(first), rtol=1e-5)
    again = critics.in_units_of(state, later, config)
    np.testing.assert_allclose(again.units, 0.9 * size(first) + 0.1 * size(later), rtol=1e-5)


def test_a_critic_without_targets_keeps_to_its_network_until_there_are_some():
    config = dataclasses.replace(CONFIG, value_units=True)
    obs, targets = batch_of(1.0)
    state = critics.in_units_of(new(), targets.at[:, 2].set(0.0), config)
    np.testing.assert_array_equal(state.scale[2], 1.0)
    assert np.isfinite(critics.values(state, obs, config)).all()
    np.testing.assert_allclose(
        critics.in_units_of(state, targets, config).units[2], np.sqrt(np.mean(targets[:, 2] ** 2))
    )


def test_in_units_of_their_targets_critics_learn_alike_whatever_money_is_counted_in():
    config = dataclasses.replace(CONFIG, value_units=True)
    fit = jax.jit(critics.fit, static_argnums=5)

    def fitted(scale, config):
        obs, targets = batch_of(scale)
        state = fit(critics.in_units_of(new(), targets, config), obs, targets[:, 0], targets[:, 1:], 1.0, 100, config)
        reward, costs = critics.errors(state, obs, targets[:, 0], targets[:, 1:], config)
        return np.array([reward, *costs]) / scale**2

    np.testing.assert_allclose(fitted(1000.0, config), fitted(1.0, config), rtol=1e-3)
    assert (fitted(1000.0, CONFIG) > 4 * fitted(1000.0, config)).all()  # a network of small numbers has far to go
