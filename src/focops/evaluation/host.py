"""Episodes on the CPU: one run's policy in its own environments, side by side."""

from collections.abc import Callable

import jax
import numpy as np

from focops.core.types import VectorEnv
from focops.evaluation.protocol import UNSEEN
from focops.runs.policy import Policy

AT_ONCE = 128
"""Episodes of our tasks that are run side by side."""
MAX_STEPS = 10_000
"""Steps after which an episode is cut in an environment without a time limit."""


def run_episodes(
    policy: Policy,
    env: VectorEnv,
    seed: int,
    episodes: int,
    deterministic: bool,
    before_step: Callable[[int], None] = lambda number: None,
    max_steps: int | None = None,
) -> tuple[np.ndarray, int, int]:
    """(length, reward, m discounted costs, m undiscounted costs) of each episode; how many were cut, and diverged.
    `before_step` is told how many environments are about to be stepped, and may raise. Episodes are cut after
    `max_steps`, or MAX_STEPS."""
    key, rounds, cut = jax.random.key(seed), [], 0
    discounts = np.array([c.discount for c in env.spec.constraints])
    env.reset(UNSEEN + seed)
    while env.num_envs * len(rounds) < episodes:
        if rounds:
            env.restart()
        total = np.zeros((env.num_envs, 2 + 2 * len(discounts)))
        running = np.ones(env.num_envs, bool)
        key, round_key = jax.random.split(key)
        for t in range(max_steps or MAX_STEPS):
            before_step(env.num_envs)
            step = env.step(policy.act(jax.random.fold_in(round_key, t), env.obs, deterministic))
            paid = [np.ones((env.num_envs, 1)), step.reward[:, None], discounts**t * step.cost, step.cost]
            total += np.where(running[:, None], np.concatenate(paid, 1), 0.0)
            running &= ~(step.terminated | step.truncated)
            if not running.any():
                break
        left = episodes - env.num_envs * len(rounds)
        cut += int(running[:left].sum())
        rounds.append(total[:left])
    return np.concatenate(rounds), cut, env.diverged
