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
    together = jax.jit(jax.grad(critics.losses))(state.params, obs, target, CONFIG)
    one = jax.jit(jax.grad(critics.value_loss))
    for i in range(3):
        alone = one(jax.tree.map(lambda p, i=i: p[i], state.params), obs, target[:, i], CONFIG)
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
    flat = np.concatenate([np.ravel(p) for p in jax.tree.leaves(state.value)])
    config = base.Config(hidden=(32, 32), value_l2=0.5, limits=(1.0, 2.0))
    obs = jnp.zeros((4, 5))
    plain = critics.value_loss(state.value, obs, jnp.zeros(4), CONFIG)
    np.testing.assert_allclose(
        critics.value_loss(state.value, obs, jnp.zeros(4), config) - plain, 0.5 * (flat**2).sum(), rtol=1e-4
    )
