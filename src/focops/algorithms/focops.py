"""FOCOPS: First Order Constrained Optimization in Policy Space (Zhang, Vuong, Ross; NeurIPS 2020), Algorithm 1.

| here                        | paper        | where                                                    |
|-----------------------------|--------------|----------------------------------------------------------|
| temperature                 | λ            | Theorem 1; fixed, as in the practical algorithm          |
| nu                          | ν            | Eq. 12, one per constraint                               |
| trust_region                | δ            | indicator of Eq. 13 and the stopping rule                |
| limit, cost_return          | b, J_C       | Eq. 12                                                   |
| advantage, cost_advantage   | Â, Â_C       | GAE, each standardised over the batch                    |
| policy_loss                 | ∇̂L(θ)        | Eq. 13 is its gradient                                   |
| value, cost_value           | V_φ, V^C_ψ   | Appendix, pseudocode                                     |
| gae, cost_gae               | β            | "GAE parameter" of Table 3                               |

The multiplier moves first, by how far J_C is from its limit; the policy then goes towards the optimal update policy
π* ∝ π_k exp((A − ν·A_C)/λ); the step is as long as K epochs of minibatches, or shorter once the mean KL exceeds δ.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from focops.core import cost_return, multipliers, policy, sgd
from focops.core.advantages import gae, standardize
from focops.core.config import pytree_config, static
from focops.core.distributions import Distribution
from focops.core.networks import MLP, Network
from focops.core.spec import Spec
from focops.core.types import Params, Rollout


@pytree_config
class Config:
    temperature: float = 1.5
    """λ: how far π* may go towards the better actions; greedier when smaller. > 0."""
    trust_region: float = 0.02
    """δ: states whose KL(new‖old) exceeds it are left out; epochs end once the mean KL does. > 0."""
    nu_init: float = 0.0
    """ν_0: multiplier at the start, one for all constraints. ≥ 0."""
    nu_max: float = 2.0
    """ν_max: upper bound of the multipliers; `inf` for none. ≥ 0."""
    nu_rate: float = 0.01
    """α_ν: step size of the multipliers; not annealed. ≥ 0."""
    nu_lead: float = 0.0
    """Updates by which the policy's multiplier runs ahead of ν, against swings; 0 is the paper's algorithm. ≥ 0."""
    policy_rate: float = 3e-4
    """α_π: learning rate of the policy, annealed linearly to 0. > 0."""
    value_rate: float = 3e-4
    """α_V: learning rate of the reward critic, annealed linearly to 0. > 0."""
    cost_value_rate: float = 3e-4
    """α_V: learning rate of the cost critics, annealed linearly to 0. > 0."""
    discount: float = 0.99
    """γ: discount of the reward, in (0, 1)."""
    gae: float = 0.95
    """β: GAE parameter of the reward, in [0, 1]."""
    cost_gae: float = 0.95
    """β_C: GAE parameter of the costs, in [0, 1]."""
    value_l2: float = 3e-3
    """L2 coefficient on all parameters of the critics. ≥ 0."""
    max_grad_norm: float = 40.0
    """Clip of the policy gradient's norm (in the authors' program, not in the paper); `inf` for none. > 0."""
    init_log_std: float = -0.5
    """log σ at the start (continuous actions)."""
    epochs: int = static(10)
    """K: passes over each batch, unless the KL ends them. ≥ 1."""
    minibatch_size: int = static(64)
    """B: samples per gradient step; must divide the batch. ≥ 1."""
    hidden: tuple[int, ...] = static((64, 64))
    """Widths of the tanh layers of the policy and of each critic."""
    early_stop: bool = static(True)
    """End the epochs once the mean KL(new‖old) exceeds δ."""
    bootstrap_time_limit: bool = static(True)
    """Value the future beyond a time limit; if not, it counts as an end (V = 0)."""
    cost_estimator: Literal["ages", "episodes"] = static("ages")
    """J_C from all samples by age (fresh), or from episodes that ended in the batch (as published)."""
    network: Network | None = static(None)
    """Another network than the MLP (from Python only)."""
    limits: tuple[float, ...] = ()
    """b: filled from the constraints."""
    cost_discounts: tuple[float, ...] = ()
    """γ_C: filled from the constraints."""


class State(NamedTuple):
    """All that is learned, and what learning remembers."""

    policy: policy.PolicyParams
    value: Params
    cost_value: Params
    """m critics, stacked along each leaf's first axis."""
    policy_adam: Any
    value_adam: Any
    cost_value_adam: Any
    nu: Float[Array, "m"]
    cost_return: cost_return.State


class Info(NamedTuple):
    """What one update did."""

    cost_return: Float[Array, "m"]
    nu: Float[Array, "m"]
    kl: Float[Array, ""]
    epochs: Int[Array, ""]
    entropy: Float[Array, ""]
    value_loss: Float[Array, ""]
    cost_value_loss: Float[Array, "m"]


class Batch(NamedTuple):
    """Samples of one policy; N of them, or a minibatch."""

    obs: Float[Array, "N O"]
    action: Float[Array, "N A"] | Int[Array, "N"]
    old: Distribution
    old_log_prob: Float[Array, "N"]
    advantage: Float[Array, "N"]
    cost_advantage: Float[Array, "N m"]
    target: Float[Array, "N"]
    cost_target: Float[Array, "N m"]


def network(config: Config) -> Network:
    return config.network or MLP(config.hidden)


def init(key: Key[Array, ""], spec: Spec, config: Config) -> State:
    net, m = network(config), len(spec.constraints)
    policy_key, value_key, cost_key = jax.random.split(key, 3)
    theta = policy.init(policy_key, net, spec, config.init_log_std)
    value = net.init(value_key, spec.obs_size, 1)
    cost_value = jax.vmap(lambda k: net.init(k, spec.obs_size, 1))(jax.random.split(cost_key, m))
    return State(
        theta, value, cost_value,
        sgd.ADAM.init(theta), sgd.ADAM.init(value), sgd.ADAM.init(cost_value),
        nu=jnp.full(m, config.nu_init, jnp.float32),
        cost_return=cost_return.init(m, spec.obs_size, spec.time_limit),
    )  # fmt: skip


def update(key: Key[Array, ""], state: State, rollout: Rollout, config: Config) -> tuple[State, Info]:
    """One pass of Algorithm 1's loop, from a batch of trajectories to the next policy."""
    state, batch, j_c = estimate(state, rollout, config)
    limits = jnp.array(config.limits)
    nu = multipliers.step(state.nu, j_c, limits, config.nu_rate, config.nu_max)
    pressure = multipliers.lead(nu, j_c, limits, config.nu_rate, config.nu_max, config.nu_lead)
    state = state._replace(nu=nu)
    annealed = 1.0 - rollout.progress

    def minibatch_step(state: State, minibatch: Batch) -> State:
        value, value_adam = sgd.descend(
            state.value, state.value_adam,
            jax.grad(value_loss)(state.value, minibatch.obs, minibatch.target, config),
            annealed * config.value_rate,
        )  # fmt: skip
        cost_value, cost_value_adam = sgd.descend(
            state.cost_value, state.cost_value_adam,
            jax.grad(cost_value_loss)(state.cost_value, minibatch.obs, minibatch.cost_target, config),
            annealed * config.cost_value_rate,
        )  # fmt: skip
        gradient = sgd.clip_norm(jax.grad(policy_loss)(state.policy, minibatch, pressure, config), config.max_grad_norm)
        theta, policy_adam = sgd.descend(state.policy, state.policy_adam, gradient, annealed * config.policy_rate)
        return state._replace(
            policy=theta, policy_adam=policy_adam, value=value, value_adam=value_adam,
            cost_value=cost_value, cost_value_adam=cost_value_adam,
        )  # fmt: skip

    def mean_kl(state: State) -> Float[Array, ""]:
        return jnp.mean(policy.distribution(network(config), state.policy, batch.obs).kl(batch.old))

    max_kl = config.trust_region if config.early_stop else jnp.inf
    state, epochs, kl = sgd.epochs(
        key, state, batch, minibatch_step, mean_kl, max_kl, config.epochs, config.minibatch_size
    )
    info = Info(
        j_c, nu, kl, epochs,
        entropy=jnp.mean(batch.old.entropy()),
        value_loss=jnp.mean((_value(state.value, batch.obs, config) - batch.target) ** 2),
        cost_value_loss=jnp.mean((_cost_value(state.cost_value, batch.obs, config) - batch.cost_target.T) ** 2, -1),
    )  # fmt: skip
    return state, info


def policy_loss(theta: Params, batch: Batch, nu: Float[Array, "m"], config: Config) -> Float[Array, ""]:
    """Its gradient is Eq. 13: towards the optimal update policy, only where still inside the trust region."""
    new = policy.distribution(network(config), theta, batch.obs)
    kl = new.kl(batch.old)
    ratio = jnp.exp(new.log_prob(batch.action) - batch.old_log_prob)
    advantage = batch.advantage - batch.cost_advantage @ nu
    inside = kl <= config.trust_region
    return jnp.mean(inside * (kl - ratio * advantage / config.temperature))


def value_loss(params: Params, obs: Float[Array, "N O"], target: Float[Array, "N"], config: Config) -> Float[Array, ""]:
    """Mean squared error plus the L2 penalty."""
    error = _value(params, obs, config) - target
    return jnp.mean(error**2) + config.value_l2 * sum(jnp.sum(p**2) for p in jax.tree.leaves(params))


def cost_value_loss(
    params: Params, obs: Float[Array, "N O"], target: Float[Array, "N m"], config: Config
) -> Float[Array, ""]:
    """The m cost critics' losses, summed; each critic sees only the gradient of its own."""
    losses = jax.vmap(lambda p, y: value_loss(p, obs, y, config), (0, 1))(params, target)
    return jnp.sum(losses)


def estimate(state: State, rollout: Rollout, config: Config) -> tuple[State, Batch, Float[Array, "m"]]:
    """J_C, advantages and critics' targets of a batch of trajectories, flattened to N = T·E samples."""
    discounts = jnp.array(config.cost_discounts)
    over = rollout.terminated if config.bootstrap_time_limit else rollout.terminated | rollout.truncated
    ended = rollout.terminated | rollout.truncated

    value = _value(state.value, rollout.obs, config)
    advantage = gae(
        rollout.reward, value, _value(state.value, rollout.next_obs, config), ~over, ended, config.discount, config.gae
    )
    cost_value = _cost_value(state.cost_value, rollout.obs, config)
    next_cost_value = _cost_value(state.cost_value, rollout.next_obs, config)
    # an undiscounted sum is finite only because the time limit ends it
    over_i = over | (rollout.truncated & (discounts == 1.0)[:, None, None])
    cost_advantage = jax.vmap(gae, (-1, 0, 0, 0, None, 0, None))(
        rollout.cost, cost_value, next_cost_value, ~over_i, ended, discounts, config.cost_gae
    )

    estimator = cost_return.remember_starts(state.cost_return, rollout)
    start_value = _cost_value(state.cost_value, estimator.starts, config)
    estimator, j_c = cost_return.estimate(estimator, rollout, cost_value, next_cost_value, start_value, discounts)
    if config.cost_estimator == "episodes":
        published, finished = cost_return.of_finished_episodes(rollout, discounts, estimator.time_limit)
        j_c = jnp.where(finished > 0, published, j_c)

    flat = lambda x: x.reshape(-1, *x.shape[2:])
    obs, action = flat(rollout.obs), flat(rollout.action)
    old = policy.distribution(network(config), state.policy, obs)
    # one row per sample, so that a minibatch is a plain slice
    old = jax.tree.map(lambda x: jnp.broadcast_to(x, (obs.shape[0], x.shape[-1])), old)
    batch = Batch(
        obs, action, old,
        old_log_prob=old.log_prob(action),
        advantage=standardize(flat(advantage)),
        cost_advantage=jax.vmap(lambda a: standardize(flat(a)), out_axes=-1)(cost_advantage),
        target=flat(advantage + value),
        cost_target=jax.vmap(flat, out_axes=-1)(cost_advantage + cost_value),
    )  # fmt: skip
    return state._replace(cost_return=estimator), batch, j_c


def _value(params: Params, obs: Float[Array, "*batch O"], config: Config) -> Float[Array, "*batch"]:
    return network(config).apply(params, obs)[..., 0]


def _cost_value(params: Params, obs: Float[Array, "*batch O"], config: Config) -> Float[Array, "m *batch"]:
    return jax.vmap(lambda p: _value(p, obs, config))(params)
