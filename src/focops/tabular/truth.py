"""Learners against the truth: a trained policy's table, and its exact distance from the optimum."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from focops.tabular.cmdp import CMDP
from focops.tabular.evaluation import evaluate
from focops.tabular.lp import Solution, solve_lp


class Distance(NamedTuple):
    """How a policy compares with the linear program's; all relative, so 0.02 is 2%."""

    shortfall: float
    """(J* − J(π)) / |J*|; negative where the policy earns more, by exceeding a limit."""
    violation: Float[np.ndarray, "m"]
    """(J_C(π) − b) / |b|; negative within the limit."""


def learned_policy(trainer: Any) -> Float[np.ndarray, "S A"]:
    """π_θ(a|s) of a `focops.trainer.Trainer` for every one-hot state, through its normaliser."""
    import jax

    from focops.core import normalize, policy

    obs = normalize.apply(trainer.stats, np.eye(trainer.spec.obs_size, dtype=np.float32))
    logits = policy.distribution(trainer.network, trainer.state.policy, obs).logits
    table = np.asarray(jax.nn.softmax(logits), np.float64)
    return table / table.sum(1, keepdims=True)


def distance(cmdp: CMDP, policy: Any, best: Solution | None = None) -> Distance:
    """By exact evaluation; nothing is sampled."""
    best = best or solve_lp(cmdp)
    found = evaluate(cmdp, policy)
    return Distance(
        (best.ret - found.ret) / abs(best.ret), (found.cost_return - cmdp.limits) / np.abs(cmdp.limits)
    )  # fmt: skip
