"""FOCOPS's loss and update against independent computations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize
from scipy.stats import norm

from focops.algorithms import focops
from focops.core import multipliers, policy
from focops.core.distributions import Categorical, DiagonalGaussian
from focops.core.estimate import Batch, estimate
from focops.core.networks import MLP
from tests.algorithms.cases import START, STATS, rollout, spec

CONFIG = focops.Config(hidden=(8, 8), limits=(1.0, 2.0), cost_discounts=(0.99, 0.9), minibatch_size=32, epochs=30)
INIT = jax.jit(focops.init, static_argnums=1)
UPDATE = jax.jit(focops.update)
ESTIMATE = jax.jit(estimate)


def samples(discrete: bool, n: int = 40, seed: int = 0):
    """Random samples of an old policy, and a policy a step away from it, so that some states are outside δ."""
    rng = np.random.default_rng(seed)
    s = spec(discrete)
    state = INIT(jax.random.key(seed), s, CONFIG)
    flat, unravel = ravel_pytree(state.policy)
    theta = unravel(flat + jnp.asarray(rng.normal(size=flat.shape) * 0.05, jnp.float32))
    obs = jnp.asarray(rng.normal(size=(n, 5)), jnp.float32)
    old = policy.distribution(MLP((8, 8)), state.policy, obs)
    old = jax.tree.map(lambda x: jnp.broadcast_to(x, (n, 3)), old)
    action = old.sample(policy.noise(jax.random.key(1), s, (n,)))
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)
    batch = Batch(obs, action, old, old.log_prob(action), normal(n), normal(n, 2), normal(n), normal(n, 2))
    return theta, batch


def rows(batch, i):
    return jax.tree.map(lambda x: x[i : i + 1], batch)


@pytest.mark.parametrize("discrete", [False, True])
def test_the_gradient_is_equation_13_summed_sample_by_sample(discrete):
    theta, batch = samples(discrete)
    nu = jnp.array([0.7, 0.2])
    kls = np.asarray(policy.distribution(MLP((8, 8)), theta, batch.obs).kl(batch.old))
    config = dataclasses.replace(CONFIG, trust_region=float(np.median(kls)))
    flat, unravel = ravel_pytree(theta)
    of = lambda f, one: policy.distribution(MLP((8, 8)), unravel(f), one.obs)
    grad_kl = jax.jit(jax.grad(lambda f, one: of(f, one).kl(one.old)[0]))
    # ∇π_θ(a|s) / π_k(a|s), from the probability itself
    grad_p = jax.jit(jax.grad(lambda f, one: jnp.exp(of(f, one).log_prob(one.action))[0]))
    total = np.zeros(flat.shape)
    for i in np.flatnonzero(kls <= config.trust_region):
        one = rows(batch, i)
        weight = float(one.advantage[0]) - 0.7 * float(one.cost_advantage[0, 0]) - 0.2 * float(one.cost_advantage[0, 1])
        ratio_gradient = grad_p(flat, one) / jnp.exp(one.old_log_prob[0])
        total += np.asarray(grad_kl(flat, one) - ratio_gradient * weight / config.temperature)
    assert 5 < np.sum(kls <= config.trust_region) < 35
    result = ravel_pytree(jax.jit(jax.grad(focops.policy_loss))(theta, batch, nu, config.temperature, config))[0]
    np.testing.assert_allclose(result, total / 40, atol=2e-6)


def test_each_state_is_accepted_on_its_own_kl():
    """A (B,1)×(B,) mix-up gives a (B,B) loss, whose mean is not the mean of the per-state losses."""
    theta, batch = samples(False)
    kls = np.asarray(policy.distribution(MLP((8, 8)), theta, batch.obs).kl(batch.old))
    config = dataclasses.replace(CONFIG, trust_region=float(np.median(kls)))
    nu = jnp.array([0.7, 0.2])
    wide = dataclasses.replace(config, trust_region=jnp.inf)
    loss = jax.jit(focops.policy_loss)
    alone = [float(loss(theta, rows(batch, i), nu, wide.temperature, wide)) for i in range(40)]
    expected = np.where(kls <= config.trust_region, alone, 0.0).mean()
    mixed = np.mean((kls <= config.trust_region)[:, None] * np.array(alone)[None, :])
    assert abs(expected - mixed) > 1e-3
    np.testing.assert_allclose(focops.policy_loss(theta, batch, nu, config.temperature, config), expected, atol=1e-6)


def test_enough_steps_on_the_loss_reach_the_projection_of_the_optimal_policy():
    """Five states, four actions, all known; here π* = π_k exp((A − ν·A_C)/λ)/Z is in the family, so it is reached."""
    rng = np.random.default_rng(0)
    states, actions, nu, temperature = 5, 4, np.array([0.8]), 1.5
    old_logits = rng.normal(size=(states, actions))
    pi = np.exp(old_logits) / np.exp(old_logits).sum(1, keepdims=True)
    advantage, cost_advantage = rng.normal(size=(2, states, actions))
    unnormalised = pi * np.exp((advantage - nu * cost_advantage) / temperature)
    pi_star = unnormalised / unnormalised.sum(1, keepdims=True)

    # every (s, a) pair as often as π_k takes it: the batch then *is* the expectation of Corollary 1
    copies = 2000
    counts = np.round(pi * copies).astype(int)
    pairs = [(s, a) for s in range(states) for a in range(actions) for _ in range(counts[s, a])]
    index = np.array(pairs)
    table = MLP(())  # a linear layer on one-hot states is a table of logits
    config = focops.Config(trust_region=jnp.inf, network=table)
    one_hot = jnp.eye(states)[index[:, 0]]
    old = Categorical(jnp.asarray(old_logits[index[:, 0]], jnp.float32))
    action = jnp.asarray(index[:, 1])
    value = lambda x: jnp.asarray(x[index[:, 0], index[:, 1]], jnp.float32)
    n = len(index)
    batch = Batch(
        one_hot, action, old, old.log_prob(action), value(advantage), value(cost_advantage)[:, None],
        jnp.zeros(n), jnp.zeros((n, 1)),
    )  # fmt: skip
    theta = policy.CategoricalParams(table.init(jax.random.key(0), states, actions))
    step = jax.jit(
        lambda t: jax.tree.map(
            lambda p, g: p - 3.0 * g, t, jax.grad(focops.policy_loss)(t, batch, jnp.array(nu), temperature, config)
        )
    )
    for _ in range(400):
        theta = step(theta)
    reached = jax.nn.softmax(policy.distribution(table, theta, jnp.eye(states)).logits)
    np.testing.assert_allclose(reached, pi_star, atol=0.01)
    assert np.abs(pi - pi_star).max() > 0.1


def do_update(config, discrete=False, seed=0, progress=START):
    state = INIT(jax.random.key(seed), spec(discrete), config)
    batch = rollout(discrete)
    new, info = UPDATE(jax.random.key(1), state, batch, STATS, progress, config)
    return state, new, info, batch


@pytest.mark.parametrize("discrete", [False, True])
def test_the_mean_kl_stays_near_the_trust_region(discrete):
    config = dataclasses.replace(CONFIG, trust_region=0.01, temperature=0.05, policy_rate=5e-3)
    state, new, info, batch = do_update(config, discrete)
    obs = batch.obs.reshape(-1, 5)
    net = MLP((8, 8))
    kl = policy.distribution(net, new.policy, obs).kl(policy.distribution(net, state.policy, obs))
    np.testing.assert_allclose(info.kl, jnp.mean(kl), rtol=1e-3)
    # states beyond δ get no gradient; what pushes the mean past it is the rest of one epoch
    assert float(jnp.mean(kl)) < 3 * 0.01
    free = do_update(dataclasses.replace(config, trust_region=jnp.inf), discrete)[2]
    assert float(free.kl) > 5 * 0.01


def test_an_epoch_that_leaves_the_trust_region_is_the_last():
    config = dataclasses.replace(CONFIG, trust_region=1e-5, policy_rate=1e-2)
    assert do_update(config)[2].epochs == 1
    assert do_update(dataclasses.replace(config, trust_region=jnp.inf))[2].epochs == 30


def test_a_policy_that_stops_within_an_epoch_goes_no_further_than_a_step_beyond_the_trust_region():
    """Checked after an epoch of 16 minibatches the KL is far beyond; the critics then end with the policy, too."""
    config = dataclasses.replace(CONFIG, trust_region=1e-3, policy_rate=1e-2, minibatch_size=8)
    after_epoch = do_update(config)[2]
    after_minibatch = do_update(dataclasses.replace(config, stop_in_epoch=True))[2]
    one_step = do_update(dataclasses.replace(config, epochs=1, minibatch_size=128))[2]
    assert after_epoch.epochs == 1
    assert after_minibatch.epochs == config.epochs
    assert after_minibatch.value_loss < after_epoch.value_loss
    assert after_epoch.kl > 4 * (config.trust_region + one_step.kl)
    assert after_minibatch.kl < 2 * (config.trust_region + one_step.kl)


def test_without_a_multiplier_and_with_a_large_temperature_the_step_vanishes():
    config = dataclasses.replace(CONFIG, nu_rate=0.0)
    state = INIT(jax.random.key(0), spec(False), config)
    _, batch, _ = ESTIMATE(state.critics, state.policy, rollout(False), STATS, START, config)
    gradient = jax.jit(jax.grad(focops.policy_loss))(state.policy, batch, jnp.zeros(2), 1e9, config)
    assert max(float(jnp.abs(g).max()) for g in jax.tree.leaves(gradient)) < 1e-6


def test_learning_rates_fall_to_zero_and_the_multipliers_does_not():
    _, _, info, _ = do_update(dataclasses.replace(CONFIG, limits=(0.0, 0.0)))
    state, end, last, _ = do_update(dataclasses.replace(CONFIG, limits=(0.0, 0.0)), progress=jnp.float32(1.0))
    moved = jax.tree.map(
        lambda a, b: float(jnp.abs(a - b).max()), (end.policy, end.critics.params), (state.policy, state.critics.params)
    )
    assert max(jax.tree.leaves(moved)) == 0.0
    np.testing.assert_allclose(last.nu, info.nu)
    assert (np.asarray(last.nu) > 0).all()


def test_the_multiplier_moves_before_the_policy_by_the_estimated_cost_return():
    _, _, info, _ = do_update(CONFIG)
    expected = np.clip(0.0 - CONFIG.nu_rate * (np.array([1.0, 2.0]) - np.asarray(info.cost_return)), 0, 2)
    np.testing.assert_allclose(info.nu, expected, rtol=1e-5)


def test_the_policy_feels_the_multiplier_and_its_lead():
    config = dataclasses.replace(CONFIG, limits=(0.0, 0.0), nu_init=0.1, nu_max=jnp.inf, nu_lead=3.0)
    state, new, info, batch = do_update(config)
    step = config.nu_rate * np.asarray(info.cost_return)
    np.testing.assert_allclose(info.nu, 0.1 + step, rtol=1e-5)
    held = state._replace(nu=jnp.asarray(0.1 + 4.0 * step))  # and kept there, the policy would step as far
    same, _ = UPDATE(jax.random.key(1), held, batch, STATS, START, dataclasses.replace(config, nu_rate=0.0))
    np.testing.assert_allclose(ravel_pytree(new.policy)[0], ravel_pytree(same.policy)[0], rtol=1e-4, atol=1e-6)


def test_with_solve_dual_the_policy_feels_the_multiplier_that_was_solved_for():
    """As if it had been given, whatever the rate and the lead are."""
    config = dataclasses.replace(CONFIG, limits=(0.5, 0.5), nu_max=jnp.inf, nu_lead=3.0, solve_dual=True)
    state, new, info, batch = do_update(config)
    _, samples, cost = ESTIMATE(state.critics, state.policy, batch, STATS, START, config)
    violation = cost.cost_return - cost.aim
    lower, lasting = multipliers.wanted(state.memory, violation, cost.error, cost.worth, START, config)
    expected = multipliers.solved(samples.advantage, samples.cost_advantage, lower, jnp.inf)
    np.testing.assert_allclose(info.nu, expected, rtol=1e-4)
    np.testing.assert_allclose(new.memory, lasting, rtol=1e-4)
    assert (np.asarray(info.nu) > 0).any()
    held = state._replace(nu=info.nu)
    same, _ = UPDATE(jax.random.key(1), held, batch, STATS, START, dataclasses.replace(CONFIG, nu_rate=0.0, nu_max=1e9))
    np.testing.assert_allclose(ravel_pytree(new.policy)[0], ravel_pytree(same.policy)[0], rtol=1e-4, atol=1e-6)


def test_a_time_limit_is_valued_or_is_an_end_as_asked():
    state = INIT(jax.random.key(0), spec(False), CONFIG)
    bias = 100.0
    *first, last = state.critics.params
    critics = state.critics._replace(params=[*first, last._replace(bias=last.bias.at[0].add(bias))])
    at_limit = np.asarray(rollout(False).truncated).reshape(-1)
    target = lambda config: np.asarray(ESTIMATE(critics, state.policy, rollout(False), STATS, START, config)[1].target)[
        at_limit
    ]
    valued = target(CONFIG)
    ended = target(dataclasses.replace(CONFIG, bootstrap_time_limit=False))
    np.testing.assert_allclose(valued - ended, CONFIG.discount * bias, rtol=0.05)


def test_the_advantage_of_an_undiscounted_cost_looks_as_far_ahead_as_the_rewards():
    """Its sum depends on the time to go, which nobody observes; that of the reward is treated in the same way."""
    state = INIT(jax.random.key(0), spec(False), CONFIG)
    estimated = lambda *discounts: np.asarray(
        ESTIMATE(
            state.critics, state.policy, rollout(False), STATS, START,
            dataclasses.replace(CONFIG, cost_discounts=discounts),
        )[1].cost_advantage
    )  # fmt: skip
    np.testing.assert_array_equal(estimated(1.0, 1.0), estimated(CONFIG.discount, CONFIG.discount))
    assert np.abs(estimated(1.0, 1.0) - estimated(0.9, 0.9)).max() > 0.1


def test_scale_free_counts_the_temperature_in_standard_deviations_of_what_is_left_of_the_advantage():
    # steps enough for the KL to hold them back: Adam's first ones do not know the temperature
    config = dataclasses.replace(CONFIG, nu_init=1.5, nu_rate=0.0, policy_rate=3e-3, trust_region=10.0)
    state = INIT(jax.random.key(0), spec(False), config)
    _, batch, _ = ESTIMATE(state.critics, state.policy, rollout(False), STATS, START, config)
    left = np.asarray(batch.advantage) - np.asarray(batch.cost_advantage) @ np.array([1.5, 1.5])
    _, free, _, _ = do_update(dataclasses.replace(config, scale_free=1.0))
    _, same, _, _ = do_update(dataclasses.replace(config, temperature=float(config.temperature * left.std())))
    _, plain, _, _ = do_update(config)
    difference = lambda a, b: float(jnp.abs(ravel_pytree(a.policy)[0] - ravel_pytree(b.policy)[0]).max())
    assert difference(plain, same) > 0.01
    assert difference(free, same) < 0.02 * difference(plain, same)


def quadratic_batch(slope: float, curvature: float, std: float) -> Batch:
    """One action, sampled as evenly as its normal distribution allows; Â = slope·z + curvature·(z² − 1)/2."""
    z = norm.ppf((np.arange(20_000) + 0.5) / 20_000)[:, None]
    old = DiagonalGaussian(jnp.zeros((len(z), 1)), jnp.full((len(z), 1), np.log(std)))
    advantage = slope * z[:, 0] + curvature * (z[:, 0] ** 2 - 1) / 2
    none = jnp.zeros((len(z), 1))
    batch = Batch(none, jnp.asarray(std * z), old, none[:, 0], jnp.asarray(advantage), none, none[:, 0], none)
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), batch)


def spread_of(batch: Batch, std: float, temperature: float, progress: float = 0.0, **config) -> float:
    theta = policy.GaussianParams((), jnp.full(1, np.log(std), jnp.float32))
    own = focops.Config(limits=(1.0,), cost_discounts=(0.99,), **config)
    found = focops.spread(theta, theta, batch, jnp.zeros(1), temperature, jnp.float32(progress), own)
    assert isinstance(found, policy.GaussianParams)
    return float(found.log_std[0])


@pytest.mark.parametrize("curvature", [-0.5, 0.3])
def test_the_projected_spread_is_that_of_the_gaussian_nearest_to_the_optimal_policy(curvature):
    std, temperature, slope = 0.4, 20.0, 0.3
    at = np.linspace(-10, 10, 20_001)
    log_target = norm.logpdf(at) + (slope * at + curvature * at**2 / 2) / temperature  # log π* in units of σ_k

    def divergence(x: np.ndarray) -> float:
        own = norm.pdf(at, x[0], np.exp(x[1]))
        return float(np.sum(own * (norm.logpdf(at, x[0], np.exp(x[1])) - log_target)) * (at[1] - at[0]))

    nearest = minimize(divergence, np.zeros(2), tol=1e-12).x[1]
    found = spread_of(quadratic_batch(slope, curvature, std), std, temperature, project_std=True) - np.log(std)
    assert abs(nearest) > 0.005
    np.testing.assert_allclose(found, nearest, rtol=0.05)  # to first order in 1/λ


def test_the_spread_is_narrowed_to_its_share_over_a_run_and_hardly_in_the_first_half():
    batch, log_stds = quadratic_batch(0.0, 0.0, 1.0), [0.0]
    for k in range(8):
        log_stds.append(spread_of(batch, float(np.exp(log_stds[-1])), 1.5, k / 8, std_end=0.1, updates=8.0))
    np.testing.assert_allclose(np.exp(log_stds[-1]), 0.1, rtol=1e-4)
    assert np.exp(log_stds[4]) > 0.85


def test_without_them_the_spread_is_adams():
    assert spread_of(quadratic_batch(1.0, -1.0, 0.4), 0.4, 1.5, 0.5, updates=8.0) == np.float32(np.log(0.4))
    theta = policy.CategoricalParams(())
    assert focops.spread(theta, theta, quadratic_batch(1.0, 1.0, 1.0), jnp.zeros(1), 1.5, START, CONFIG) is theta
