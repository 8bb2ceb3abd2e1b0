"""Learners against the truth: train on a small problem, then compare the policy's exact values with the optimum's."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from focops.tabular.cmdp import CMDP
from focops.tabular.evaluation import evaluate
from focops.tabular.lp import Solution, solve_lp
from focops.tabular.problems import PROBLEMS

STEPS, BATCH = 150_000, 2048

# ν and the policy are two integrators in a loop: a long lead damps it, a slow policy averages the noise of J_C.
# Critics of a few states are exact enough for short-sighted GAE, which has little variance.
SETTINGS: dict[str, Any] = dict(
    temperature=3.0, policy_rate=5e-4, value_rate=5e-3, cost_value_rate=5e-3, gae=0.3, cost_gae=0.3, value_l2=0.0,
    nu_init=0.5, nu_max=50.0, nu_rate=0.3, nu_lead=20.0, hidden=(32,), minibatch_size=512,
)  # fmt: skip


class Distance(NamedTuple):
    """How a policy compares with the linear program's; all relative, so 0.02 is 2%."""

    shortfall: float
    """(J* − J(π)) / |J*|; negative where the policy earns more, by exceeding a limit."""
    violation: Float[np.ndarray, "m"]
    """(J_C(π) − b) / |b|; negative within the limit."""


def distance(cmdp: CMDP, policy: Any, best: Solution | None = None) -> Distance:
    """By exact evaluation; nothing is sampled."""
    best = best or solve_lp(cmdp)
    found = evaluate(cmdp, policy)
    return Distance((best.ret - found.ret) / abs(best.ret), (found.cost_return - cmdp.limits) / np.abs(cmdp.limits))


def settings(name: str, algorithm: str = "focops", steps: int = STEPS, seed: int = 0) -> Any:
    """The ordinary configuration of an algorithm for one of `PROBLEMS`, with those of `SETTINGS` that it has."""
    from focops.config import default_config

    config, problem = default_config(f"focops.tabular.problems:{name}", algorithm), PROBLEMS[name]
    fields = {field.name for field in dataclasses.fields(config.algo)}
    wanted = SETTINGS | {"discount": problem.discount}
    return dataclasses.replace(
        config,
        algo=dataclasses.replace(config.algo, **{k: v for k, v in wanted.items() if k in fields}),
        steps=steps, seed=seed, batch_size=BATCH,
        cost_limit=tuple(problem.limits.tolist()), cost_discount=tuple(problem.cost_discounts.tolist()),
    )  # fmt: skip


def train(config: Any) -> Float[np.ndarray, "S A"]:
    """Train by the ordinary loop; the last policy."""
    from focops.trainer import Trainer

    trainer = Trainer(config)
    for _ in range(config.iterations):
        trainer.iterate()
    trainer.env.close()
    return learned_policy(trainer)


def learned_policy(trainer: Any) -> Float[np.ndarray, "S A"]:
    """π_θ(a|s) for every one-hot state, through the normaliser."""
    import jax
    import jax.numpy as jnp

    from focops.core import normalize, policy

    obs = normalize.apply(trainer.stats, jnp.eye(trainer.spec.obs_size))
    logits = policy.distribution(trainer.network, trainer.state.policy, obs).logits
    table = np.asarray(jax.nn.softmax(logits), np.float64)
    return table / table.sum(1, keepdims=True)
