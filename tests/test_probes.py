"""The whole loop on environments whose values and best behaviour are known."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from focops.config import default_config
from focops.core import critics, normalize, policy
from focops.training import episodes
from focops.training.host import Trainer


def trained(name: str, limits: tuple[float, ...], iterations: int, discount: float = 0.9, **algo) -> Trainer:
    config = default_config(f"tests.probes:{name}-v0")
    own = dict(
        minibatch_size=32,
        hidden=(16,),
        value_l2=0.0,
        policy_rate=1e-3,
        value_rate=1e-2,
        cost_value_rate=1e-2,
    )
    config = dataclasses.replace(
        config, algo=dataclasses.replace(config.algo, **(own | algo)), steps=256 * iterations, batch_size=256,
        num_envs=8, cost_limit=limits, cost_discount=(discount,) * len(limits), margin=0.0,
    )  # fmt: skip
    trainer = Trainer(config)
    trainer.costs = []
    for _ in range(iterations):
        record = trainer.iterate()
        trainer.costs.append([v for k, v in record.items() if k.startswith("cost_return_estimate")])
    return trainer


def values(trainer: Trainer, states: int) -> tuple[np.ndarray, np.ndarray]:
    obs = normalize.apply(trainer.state.stats, jnp.eye(states))
    value, cost = critics.values(trainer.state.learner.critics, obs, trainer.algo_config)
    return np.asarray(value), np.asarray(cost)


def probabilities(trainer: Trainer) -> np.ndarray:
    obs = normalize.apply(trainer.state.stats, jnp.ones((1, 1)))
    return np.asarray(jax.nn.softmax(policy.distribution(trainer.network, trainer.state.learner.policy, obs).logits)[0])


def test_the_critics_of_a_one_step_episode_say_what_it_pays_and_costs():
    value, cost = values(trained("OneStep", (10.0,), 20), 1)
    np.testing.assert_allclose([value[0], cost[0]], [1.0, 0.5], atol=0.05)


def test_the_critics_discount_what_comes_a_step_later():
    trainer = trained("TwoSteps", (10.0,), 40, discount=0.8)
    value, cost = values(trainer, 2)
    np.testing.assert_allclose(value, [0.99, 1.0], atol=0.06)
    np.testing.assert_allclose(cost, [1.6, 2.0], atol=0.1)
    # J_C is a discounted sum: 0.8·2
    np.testing.assert_allclose(np.mean(trainer.costs[-5:]), 1.6, atol=0.02)


@pytest.mark.parametrize("limit", [0.3, 0.7])
def test_where_the_optimum_randomises_the_policy_does(limit):
    trainer = trained("Coin", (limit,), 120, nu_rate=0.2)
    np.testing.assert_allclose(probabilities(trainer)[1], limit, atol=0.06)


def test_a_limit_that_does_not_bind_leaves_the_best_unconstrained_policy():
    trainer = trained("Coin", (2.0,), 60)
    assert probabilities(trainer)[1] > 0.95
    assert trainer.state.learner.nu[0] == 0.0


def test_two_constraints_are_both_held():
    trainer = trained("TwoCoins", (0.2, 0.4), 160, nu_rate=0.5, nu_init=1.0)
    np.testing.assert_allclose(probabilities(trainer), [0.4, 0.2, 0.4], atol=0.07)


def test_of_two_discrete_actions_at_once_each_keeps_its_own_limit():
    trainer = trained("TwoSwitches", (0.3, 0.6), 200, nu_rate=0.5, nu_init=1.0)
    logits = policy.distribution(
        trainer.network, trainer.state.learner.policy, normalize.apply(trainer.state.stats, jnp.ones((1, 1)))
    ).logits[0]
    np.testing.assert_allclose(jax.nn.softmax(logits[:2])[1], 0.3, atol=0.07)
    np.testing.assert_allclose(jax.nn.softmax(logits[2:]), [0.4, 0.0, 0.6], atol=0.07)


def test_a_continuous_action_goes_as_far_as_its_cost_allows():
    trainer = trained("Push", (0.25,), 250, nu_rate=0.2, nu_max=10.0)
    means = episodes.means(trainer.state.episodes)
    # reward is E[a] ≤ √E[max(a,0)²] ≤ √0.25
    assert 0.4 < means[1] < 0.52
    np.testing.assert_allclose(means[2], 0.25, rtol=0.1)


def test_endless_episodes_train_under_a_discounted_limit():
    trainer = trained("Forever", (3.0,), 150, nu_rate=0.01)
    # (1 − 0.9)·3 of the time
    np.testing.assert_allclose(probabilities(trainer)[1], 0.3, atol=0.08)
    assert trainer.state.episodes.finished == 0
