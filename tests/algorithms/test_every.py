"""What holds of every algorithm, and what each one's own rule is."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from focops.algorithms import ALGORITHMS, cppo_pid, ppo_lagrangian
from focops.config import PRESETS, default_config, validate
from focops.core import multipliers, normalize, policy, surrogates
from focops.core.base import network
from focops.runs.config_json import config_from_json, config_to_json
from focops.training import episodes
from focops.training.host import Trainer
from tests.algorithms.cases import START, STATS, rollout, spec


def small(name: str, **changes):
    """A config with little to compute, with whatever of `changes` the algorithm has."""
    config = ALGORITHMS[name].Config(hidden=(4,), limits=(1.0, 2.0), cost_discounts=(0.99, 0.9))
    changes = dict(minibatch_size=64, epochs=2, value_iterations=5, cg_iterations=4) | changes
    names = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **{k: v for k, v in changes.items() if k in names})


@pytest.mark.parametrize("name", ALGORITHMS)
def test_vmapped_updates_equal_a_loop(name):
    """Over seeds, batches and a hyper-parameter at once; twice, so that what is remembered takes part."""
    module, runs = ALGORITHMS[name], range(3)
    configs = [small(name, nu_init=0.3, discount=0.9 + 0.03 * i, limits=(1.0 + i, 20.0)) for i in runs]
    # stacked by NumPy: nothing to compile
    stack = lambda trees: jax.tree.map(
        lambda *x: np.stack([np.asarray(v, getattr(v, "dtype", "f4")) for v in x]), *trees
    )
    init = jax.jit(module.init, static_argnums=1)
    keys = jax.random.split(jax.random.key(0), 3)
    states = begin = [init(keys[i], spec(False), configs[i]) for i in runs]
    batches = [rollout(False, seed=i) for i in runs]
    one = jax.jit(module.update)
    many = jax.jit(jax.vmap(module.update))

    together = stack(states)
    for _ in range(2):
        together, info = many(keys, together, stack(batches), stack([STATS] * 3), stack([START] * 3), stack(configs))
        states, infos = zip(*[one(keys[i], states[i], batches[i], STATS, START, configs[i]) for i in runs], strict=True)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)
    jax.tree.map(close, (together.policy, info), (stack(states).policy, stack(infos)))
    before, after = jax.tree.leaves(stack(begin).policy), jax.tree.leaves(stack(states).policy)
    assert any((a != b).any() for a, b in zip(before, after, strict=True))
    # here, for the compiled program's sake: a margin is as good as lower limits
    lower, margin = (
        dataclasses.replace(configs[0], **change) for change in ({"limits": (0.75, 15.0)}, {"margin": 0.25})
    )
    found = [one(keys[0], begin[0], batches[0], STATS, START, config) for config in (lower, margin)]
    jax.tree.map(np.testing.assert_array_equal, *found)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("task", ["HalfCheetahSpeed", "AntCircle"])
@pytest.mark.parametrize("preset", PRESETS)
def test_its_defaults_are_valid_and_survive_json(name, task, preset):
    config = default_config(task, name, preset)
    validate(config)
    assert config_from_json(json.loads(json.dumps(config_to_json(config)))) == config


SHARED = dict(hidden=(64, 64), discount=0.99, gae=0.95, cost_gae=0.95, value_rate=3e-4, cost_value_rate=3e-4)
SHARED |= dict(value_l2=3e-3)
FIRST = SHARED | dict(init_log_std=-0.5, minibatch_size=64, epochs=10, policy_rate=3e-4)
SECOND = SHARED | dict(damping=0.01, backtracking=0.8, max_backtracks=10, cg_iterations=10, value_iterations=80)
SECOND |= dict(trust_region=0.01)
TABLE_3 = {
    "ppo": FIRST | dict(clip=0.2),
    "ppo_lagrangian": FIRST | dict(clip=0.2, nu_init=0.0, nu_max=1.0, nu_rate=0.01),
    "trpo_lagrangian": SECOND | dict(init_log_std=-1.0, nu_init=0.0, nu_max=2.0, nu_rate=0.01),
    "cpo": SECOND | dict(init_log_std=-0.5),
    "focops": FIRST | dict(temperature=1.5, trust_region=0.02, nu_init=0.0, nu_max=2.0, nu_rate=0.01),
}


@pytest.mark.parametrize("name", TABLE_3)
def test_defaults_are_those_of_table_3(name):
    config = default_config("HalfCheetahSpeed", name, "paper")
    assert config.batch_size == 2048
    assert {field: getattr(config.algo, field) for field in TABLE_3[name]} == TABLE_3[name]


@functools.cache
def trained(name: str, probe: str, limits: tuple[float, ...], iterations: int, **algo):
    """A run on a probe environment, and its records."""
    config = default_config(f"tests.probes:{probe}-v0", name)
    own = dict(hidden=(16,), value_l2=0.0, value_rate=1e-2, cost_value_rate=1e-2)
    own |= dict(minibatch_size=32, policy_rate=1e-3, value_iterations=20)
    names = {field.name for field in dataclasses.fields(config.algo)}
    own = {k: v for k, v in (own | algo).items() if k in names}
    config = dataclasses.replace(
        config, algo=dataclasses.replace(config.algo, **own), steps=256 * iterations, batch_size=256, num_envs=8,
        cost_limit=limits, cost_discount=(0.9,) * len(limits), margin=0.0,
    )  # fmt: skip
    trainer = Trainer(config)
    return trainer, [trainer.iterate() for _ in range(iterations)]


def probabilities(trainer: Trainer) -> np.ndarray:
    obs = normalize.apply(trainer.state.stats, jnp.ones((1, 1)))
    return np.asarray(jax.nn.softmax(policy.distribution(trainer.network, trainer.state.learner.policy, obs).logits)[0])


def mean_cost(records, last: int = 40) -> np.ndarray:
    """J_C of each constraint over the last updates."""
    return np.mean([[v for k, v in r.items() if k.startswith("cost_return_estimate")] for r in records[-last:]], 0)


@pytest.mark.parametrize("name", ["ppo", "trpo"])
def test_without_a_constraint_all_that_pays_is_taken(name):
    trainer, _ = trained(name, "Coin", (0.3,), 40)
    assert probabilities(trainer)[1] > 0.97
    assert trainer.state.learner.nu[0] == 0


COIN = {
    "ppo_lagrangian": dict(nu_rate=0.2, nu_max=2.0),
    "trpo_lagrangian": dict(nu_rate=0.2),
    "cpo": {},
    "pcpo": {},
    "cppo_pid": dict(k_p=1.0, k_i=0.1),
    "lyapunov": {},
}


@pytest.mark.parametrize("name", COIN)
def test_where_the_optimum_randomises_the_policy_does(name):
    """Reward and cost are the same coin: at the optimum both are the limit."""
    trainer, records = trained(
        name, "Coin", (0.3,), 120 if "k_p" in COIN[name] or "nu_rate" in COIN[name] else 70, **COIN[name]
    )
    np.testing.assert_allclose(mean_cost(records), 0.3, atol=0.05)
    np.testing.assert_allclose(probabilities(trainer)[1], 0.3, atol=0.12)


def test_pcpo_in_the_l2_metric_holds_the_limit_as_well():
    _, records = trained("pcpo", "Coin", (0.3,), 70, metric="l2")
    np.testing.assert_allclose(mean_cost(records), 0.3, atol=0.05)


@pytest.mark.parametrize("name", ["cpo", "lyapunov"])
def test_two_constraints_are_both_held(name):
    _, records = trained(name, "TwoCoins", (0.2, 0.4), 80)
    np.testing.assert_allclose(mean_cost(records), [0.2, 0.4], atol=0.06)


@pytest.mark.parametrize("name", ["cpo", "pcpo", "rcpo"])
def test_a_continuous_action_goes_as_far_as_its_cost_allows(name):
    trainer, _ = trained(
        name, "Push", (0.25,), 120 if name == "rcpo" else 80, **({"nu_rate": 0.1} if name == "rcpo" else {})
    )
    means = episodes.means(trainer.state.episodes)
    # reward is E[a] ≤ √E[max(a,0)²] ≤ √0.25
    assert 0.45 < means[1] < 0.53
    np.testing.assert_allclose(means[2], 0.25, rtol=0.12)


def test_cvar_limits_the_mean_of_the_worst_episodes():
    """A coin's cost is 1 with probability p: the worst half of episodes costs p/0.5 on average, so p = 0.25."""
    trainer, records = trained("cvar", "Coin", (0.5,), 120, nu_rate=0.1, level=0.5)
    at_risk = np.mean([r["cost_at_risk/cost"] for r in records[-40:]])
    np.testing.assert_allclose(at_risk, 0.5, atol=0.06)
    np.testing.assert_allclose(probabilities(trainer)[1], 0.25, atol=0.08)


def test_the_clipped_surrogate_is_the_written_out_one():
    """ε = 0.2. Better actions count up to 1.2, worse ones from 0.8: min(ratio·A, clip(ratio)·A)."""
    ratio = jnp.array([0.5, 1.0, 1.5, 0.5, 1.0, 1.5])
    advantage = jnp.array([2.0, 2.0, 2.0, -2.0, -2.0, -2.0])
    #        0.5·2, 1·2, 1.2·2, −0.8·2, −1·2, −1.5·2
    expected = [1.0, 2.0, 2.4, -1.6, -2.0, -3.0]
    np.testing.assert_allclose(surrogates.clipped(ratio, advantage, 0.2), np.mean(expected), rtol=1e-6)
    slope = jax.grad(lambda r: surrogates.clipped(r, advantage, 0.2))(ratio)
    np.testing.assert_allclose(6 * slope, [2.0, 2.0, 0.0, 0.0, -2.0, -2.0], atol=1e-6)


def lagrangian_gradient(module, nu, advantage, cost_advantage):
    """Gradient of the loss in the log-probability of the only action taken."""
    name = module.__name__.rsplit(".", 1)[-1]
    config = small(name)
    state = module.init(jax.random.key(0), spec(True), config)
    obs = jnp.ones((1, 5))
    old = policy.distribution(network(config), state.policy, obs)
    action = jnp.array([1])
    batch = surrogates.Batch(
        obs, action, old, old.log_prob(action), jnp.array([advantage]), jnp.array([cost_advantage]),
        jnp.zeros(1), jnp.zeros((1, 2)),
    )  # fmt: skip
    gradient = jax.grad(module.policy_loss)(state.policy, batch, jnp.array(nu), config)
    return float(gradient.network[-1].bias[1])


@pytest.mark.parametrize("module", [ppo_lagrangian, cppo_pid])
def test_cost_is_subtracted_from_the_reward(module):
    """A descending loss: negative slope raises the action's probability."""
    assert lagrangian_gradient(module, [0.0, 0.0], 1.0, [9.0, 9.0]) < 0
    assert lagrangian_gradient(module, [2.0, 0.0], 1.0, [1.0, 0.0]) > 0
    assert lagrangian_gradient(module, [0.0, 2.0], 1.0, [1.0, -1.0]) < 0
    worth_nothing = lagrangian_gradient(module, [0.5, 0.25], 1.0, [1.0, 2.0])
    np.testing.assert_allclose(worth_nothing, 0.0, atol=1e-6)


def test_the_pid_multiplier_is_the_hand_tables():
    """b = 10, K = (0.1, 0.01, 0.5), ν ≤ 2.

    | J_C |  Δ  | I = (I+Δ)₊ | ∂ = (J−J')₊ | 0.1Δ + 0.01I + 0.5∂ |    ν    |
    |   8 |  −2 |      0     |      0      |        −0.20        |    0    |
    |  12 |   2 |      2     |      4      |   0.2+0.02+2 = 2.22 |    2    |
    |  13 |   3 |      5     |      1      |   0.3+0.05+.5 = .85 |   0.85  |
    |  11 |   1 |      6     |      0      |   0.1+0.06    = .16 |   0.16  |
    |   7 |  −3 |      3     |      0      |  −0.3+0.03          |    0    |
    """
    memory = multipliers.PID(jnp.zeros(1), jnp.full(1, jnp.inf))
    found, integrals = [], []
    for cost in (8.0, 12.0, 13.0, 11.0, 7.0):
        memory, nu = multipliers.pid(memory, jnp.array([cost]), jnp.array([10.0]), (0.1, 0.01, 0.5), 2.0)
        found.append(float(nu[0]))
        integrals.append(float(memory.integral[0]))
    np.testing.assert_allclose(found, [0.0, 2.0, 0.85, 0.16, 0.0], atol=1e-6)
    assert integrals == [0.0, 2.0, 5.0, 6.0, 3.0]
