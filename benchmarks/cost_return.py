"""The estimate of J_C beside fresh episodes of the same policy, in the middle of a run.

    python benchmarks/cost_return.py SwimmerSpeed --first 9 --last 36 --every 3

Before every third batch the policy that is about to make it runs `--episodes` whole episodes elsewhere. Their mean
discounted cost is the truth, up to its standard error.
"""

import argparse
import dataclasses

import jax
import numpy as np

from focops import envs
from focops.config import default_config
from focops.core import normalize, policy
from focops.training.host import Trainer


def fresh_cost(trainer: Trainer, episodes: int, seed: int) -> np.ndarray:
    """Discounted costs of whole episodes of the trainer's present policy, its statistics as they are."""
    env = envs.make(trainer.config.task, episodes, stagger=False)
    env.reset(seed)
    spec, discount = env.spec, env.spec.constraints[0].discount

    @jax.jit
    def act(params, stats, obs, noise):
        return policy.distribution(trainer.network, params, normalize.apply(stats, obs)).sample(noise)

    total, running = np.zeros(episodes), np.ones(episodes, bool)
    for t in range(spec.time_limit or 1000):
        noise = policy.noise(jax.random.fold_in(jax.random.key(seed), t), spec, (episodes,))
        step = env.step(np.asarray(act(trainer.state.learner.policy, trainer.state.stats, env.obs, noise)))
        total += np.where(running, discount**t * step.cost[:, 0], 0.0)
        running &= ~(step.terminated | step.truncated)
        if not running.any():
            break
    env.close()
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=9)
    parser.add_argument("--last", type=int, default=36)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=64)
    options = parser.parse_args()
    trainer = Trainer(dataclasses.replace(default_config(options.task), seed=options.seed))
    name = trainer.spec.constraints[0].name
    print("| batch | J_C of fresh episodes | estimate | difference |\n|---|---|---|---|")
    differences = []
    for batch in range(1, options.last + 1):
        chosen = batch >= options.first and (batch - options.first) % options.every == 0
        costs = fresh_cost(trainer, options.episodes, 10_000 + batch) if chosen else np.zeros(1)
        found = trainer.iterate()[f"cost_return_estimate/{name}"]
        if chosen:
            differences.append(found / costs.mean() - 1)
            error = costs.std() / np.sqrt(len(costs))
            print(f"| {batch} | {costs.mean():.2f} ± {error:.2f} | {found:.2f} | {differences[-1]:+.1%} |", flush=True)
    print(f"\nmean difference {np.mean(differences):+.1%}, standard deviation {np.std(differences):.1%}")


if __name__ == "__main__":
    main()
