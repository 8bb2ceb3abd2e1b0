"""What the second-order algorithms share: gradients of the surrogates, products with H⁻¹, the accepted step."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, Key

from focops.core import base, critics, policy, surrogates, trust_region
from focops.core.base import network
from focops.core.critics import Critics
from focops.core.estimate import Batch, CostEstimate
from focops.core.fields import Count, InnerFraction, NotNegative, Positive, pytree_config, static
from focops.core.spec import Spec


@pytree_config
class Config(base.Config):
    """Defaults: Table 3 of the FOCOPS paper, the same for TRPO-L and CPO but for the initial log σ."""

    trust_region: Positive = 0.01
    """δ: bound of the mean KL(new‖old), summed over action dimensions. > 0."""
    damping: NotNegative = 0.01
    """Added to the diagonal of the KL's Hessian. ≥ 0."""
    backtracking: InnerFraction = 0.8
    """Factor by which a rejected step is shortened. In (0, 1)."""
    max_backtracks: Count = static(10)
    """Lengths tried before the policy is left as it is. ≥ 1."""
    cg_iterations: Count = static(10)
    """Conjugate gradient iterations per solution with the KL's Hessian. ≥ 1."""
    value_iterations: Count = static(80)
    """Adam steps of the critics per update, each on the whole batch. ≥ 1."""


class State(NamedTuple):
    """All that an update carries to the next: parameters, multipliers and the optimisers' state."""

    policy: policy.PolicyParams
    critics: Critics
    nu: Float[Array, "m"]
    """Multipliers; zeros where the algorithm has none."""


class Info(NamedTuple):
    """What one update did."""

    cost_return: Float[Array, "m"]
    cost_aim: Float[Array, "m"]
    nu: Float[Array, "m"]
    kl: Float[Array, ""]
    epochs: Int[Array, ""]
    """Policy steps: 1, or 0 when every length was rejected."""
    step: Float[Array, ""]
    """Share of the full step that was accepted."""
    entropy: Float[Array, ""]
    value_loss: Float[Array, ""]
    cost_value_loss: Float[Array, "m"]


class Local(NamedTuple):
    """A policy's neighbourhood, in flat displacements x from its parameters."""

    zero: Float[Array, "P"]
    reward: Callable[[Float[Array, "P"]], Float[Array, ""]]
    """x ↦ E[ratio·Â]; its value at 0 is Â's mean, 0."""
    costs: Callable[[Float[Array, "P"]], Float[Array, "m"]]
    """x ↦ E[ratio·Â_C]."""
    kl: Callable[[Float[Array, "P"]], Float[Array, ""]]
    """x ↦ mean KL(new‖old)."""
    product: Callable[[Float[Array, "P"]], Float[Array, "P"]]
    """v ↦ (H + damping·I) v."""
    move: Callable[[Float[Array, "P"]], policy.PolicyParams]


def init(key: Key[Array, ""], spec: Spec, config: Config, nu: Float[Array, ""] | float = 0.0) -> State:
    policy_key, value_key, cost_key = jax.random.split(key, 3)
    theta = policy.init(policy_key, network(config), spec, config.init_log_std, config.std_units)
    return State(
        theta, critics.init(value_key, cost_key, spec, config), jnp.full(len(spec.constraints), nu, jnp.float32)
    )


def local(theta: policy.PolicyParams, batch: Batch, config: Config) -> Local:
    origin, unravel = ravel_pytree(theta)
    move = lambda x: unravel(origin + x)
    distribution = lambda flat: policy.distribution(network(config), unravel(flat), batch.obs)
    return Local(
        jnp.zeros_like(origin),
        reward=lambda x: jnp.mean(surrogates.ratio(move(x), batch, config) * batch.advantage),
        costs=lambda x: surrogates.ratio(move(x), batch, config) @ batch.cost_advantage / batch.advantage.size,
        kl=lambda x: jnp.mean(distribution(origin + x).kl(batch.old)),
        product=trust_region.fisher_product(distribution, origin, config.damping),
        move=move,
    )


def objectives(near: Local, worth: Float[Array, "m"]) -> Callable[[Float[Array, "P"]], Float[Array, "k"]]:
    """x ↦ the reward's surrogate, then the costs' in units of J_C: k = 1 + m."""
    return lambda x: jnp.concatenate([near.reward(x)[None], worth * near.costs(x)])


def natural(near: Local, gradients: Float[Array, "k P"], config: Config) -> Float[Array, "k P"]:
    """H⁻¹ times each gradient."""
    return jax.vmap(lambda g: trust_region.conjugate_gradient(near.product, g, config.cg_iterations))(gradients)


def finish(
    state: State,
    near: Local,
    step: Float[Array, "P"],
    agree: Callable[[Float[Array, "P"]], Bool[Array, ""]],
    batch: Batch,
    progress: Float[Array, ""],
    cost: CostEstimate,
    config: Config,
) -> tuple[State, Info]:
    """Take the longest part of `step` that is within the trust region and that `agree` accepts by the surrogates; then
    fit the critics."""

    def check(x):
        kl = near.kl(x)
        return agree(x) & (kl <= config.trust_region), kl

    x, share, kl = trust_region.backtrack(check, step, config.backtracking, config.max_backtracks)
    annealed = 1.0 - progress
    learned = critics.fit(
        state.critics, batch.obs, batch.target, batch.cost_target, annealed, config.value_iterations, config
    )
    losses = critics.errors(learned, batch.obs, batch.target, batch.cost_target, config)
    taken = (share > 0).astype(jnp.int32)
    entropy = jnp.mean(batch.old.entropy())
    info = Info(cost.cost_return, cost.aim, state.nu, kl, taken, share, entropy, *losses)
    return state._replace(policy=near.move(x), critics=learned), info


def natural_gradient_update(
    state: State,
    batch: Batch,
    progress: Float[Array, ""],
    cost: CostEstimate,
    config: Config,
) -> tuple[State, Info]:
    """TRPO: x = √(2δ / gᵀH⁻¹g) H⁻¹g, shortened until the surrogate rises and the mean KL is within δ."""
    near = local(state.policy, batch, config)
    old, gradient = jax.value_and_grad(near.reward)(near.zero)
    direction = trust_region.conjugate_gradient(near.product, gradient, config.cg_iterations)
    length = jnp.sqrt(2 * config.trust_region / jnp.maximum(gradient @ direction, 1e-30))
    rises = lambda x: near.reward(x) > old
    return finish(state, near, length * direction, rises, batch, progress, cost, config)
