"""The critics' losses and steps."""

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
    target = jax.random.normal(jax.random.key(2), (20, 2))
    together = jax.jit(jax.grad(critics.cost_value_loss))(state.cost_value, obs, target, CONFIG)
    one = jax.jit(jax.grad(critics.value_loss))
    for i in range(2):
        alone = one(jax.tree.map(lambda p, i=i: p[i], state.cost_value), obs, target[:, i], CONFIG)
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, atol=1e-6), together, alone)


def test_the_penalty_is_on_every_parameter():
    state = new()
    flat = np.concatenate([np.ravel(p) for p in jax.tree.leaves(state.value)])
    config = base.Config(hidden=(32, 32), value_l2=0.5, limits=(1.0, 2.0))
    obs = jnp.zeros((4, 5))
    plain = critics.value_loss(state.value, obs, jnp.zeros(4), CONFIG)
    np.testing.assert_allclose(
        critics.value_loss(state.value, obs, jnp.zeros(4), config) - plain, 0.5 * (flat**2).sum(), rtol=1e-4
    )
