"""Every algorithm against the truth: trained on small CMDPs, evaluated exactly, compared with the linear program.

python benchmarks/truth.py [NAME ...] [--seeds 0 1]     # writes results/truth.md if every algorithm was run
"""

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from focops.algorithms import ALGORITHMS
from focops.config import TrainConfig, default_config
from focops.core import normalize
from focops.core import policy as policies
from focops.tabular import CMDP, Solution, evaluate, solve_lp
from focops.tabular.problems import PROBLEMS
from focops.training.host import Trainer

STEPS, BATCH = 150_000, 2048

# ν and the policy are two integrators in a loop: a long lead damps it, a slow policy averages the noise of J_C.
# Critics of a few states are exact enough for short-sighted GAE, which has little variance.
SETTINGS: dict[str, Any] = dict(
    temperature=3.0, policy_rate=5e-4, value_rate=5e-3, cost_value_rate=5e-3, gae=0.3, cost_gae=0.3, value_l2=0.0,
    nu_init=0.5, nu_max=50.0, nu_rate=0.3, nu_lead=20.0, hidden=(32,), minibatch_size=512,
)  # fmt: skip

OUT = Path("results/truth.md")
HEAD = """# Distance from the optimum

`{command}`

Each algorithm is trained by the ordinary loop for {steps} samples on small CMDPs as Gymnasium environments
(`focops.tabular.problems`), with one set of hyper-parameters (`benchmarks.truth.SETTINGS`, tuned for FOCOPS; others
take those that they have). The last policy is read off its network for every state and evaluated exactly; nothing
below is a sample mean. The optimum is the linear program's.

* **shortfall**: (J* − J)/|J*|, in %. Negative: it earns more than any feasible policy, by breaking a limit.
* **violation**: (J_C − b)/|b| in %, the worst of the constraints. Negative: room left.

Mean over seeds {seeds}; in parentheses the worst seed. `ppo` and `trpo` know no constraints.

Read it with care: hyper-parameters that FOCOPS has no name for stay at their defaults, which were chosen for costs near
100. Here costs are near 1, so `cppo_pid`'s multiplier rises too slowly. `cvar` limits the tail, not the mean, so it
must stay below.

| problem | constraints that bind | J* |
|---|---|---|
{problems}

"""


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


def settings(name: str, algorithm: str = "focops", steps: int = STEPS, seed: int = 0) -> TrainConfig:
    """The ordinary configuration of an algorithm for one of `PROBLEMS`, with those of `SETTINGS` that it has. It aims
    at the limits themselves, where the optimum is."""
    config, problem = default_config(f"focops.tabular.problems:{name}", algorithm), PROBLEMS[name]
    fields = {field.name for field in dataclasses.fields(config.algo)}
    wanted = SETTINGS | {"discount": problem.discount}
    return dataclasses.replace(
        config,
        algo=dataclasses.replace(config.algo, **{k: v for k, v in wanted.items() if k in fields}),
        steps=steps, seed=seed, batch_size=BATCH, margin=0.0,
        cost_limit=tuple(problem.limits.tolist()), cost_discount=tuple(problem.cost_discounts.tolist()),
    )  # fmt: skip


def train(config: TrainConfig) -> Float[np.ndarray, "S A"]:
    """Train by the ordinary loop; the last policy."""
    trainer = Trainer(config)
    for _ in range(config.iterations):
        trainer.iterate()
    trainer.env.close()
    return learned_policy(trainer)


def learned_policy(trainer: Trainer) -> Float[np.ndarray, "S A"]:
    """π_θ(a|s) for every one-hot state, through the normaliser."""
    obs = normalize.apply(trainer.state.stats, jnp.eye(trainer.spec.obs_size))
    logits = policies.distribution(trainer.network, trainer.state.learner.policy, obs).logits
    table = np.asarray(jax.nn.softmax(logits), np.float64)
    return table / table.sum(1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(ALGORITHMS), help="algorithms; all if none is named")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    if unknown := set(given.names) - set(ALGORITHMS):
        parser.error(f"no algorithm {min(unknown)!r}; there are: {', '.join(ALGORITHMS)}")
    best = {name: solve_lp(problem) for name, problem in PROBLEMS.items()}
    lines = ["| algorithm | " + " | ".join(f"{name}: shortfall | violation" for name in PROBLEMS) + " | s per run |"]
    lines.append("|---" * (2 + 2 * len(PROBLEMS)) + "|")
    print(*lines, sep="\n", flush=True)
    for algorithm in given.names:
        cells, began = [], time.perf_counter()
        for name, problem in PROBLEMS.items():
            learned = [train(settings(name, algorithm, given.steps, seed)) for seed in given.seeds]
            found = [distance(problem, policy, best[name]) for policy in learned]
            cells += [_cell([each.shortfall for each in found]), _cell([each.violation.max() for each in found])]
        seconds = (time.perf_counter() - began) / (len(PROBLEMS) * len(given.seeds))
        lines.append(f"| `{algorithm}` | " + " | ".join(cells) + f" | {seconds:.0f} |")
        print(lines[-1], flush=True)
    if set(given.names) == set(ALGORITHMS):
        facts = [
            f"| {name} | {int(best[name].binding.sum())} of {p.num_costs} | {best[name].ret:.4f} |"
            for name, p in PROBLEMS.items()
        ]
        seeds = " ".join(map(str, given.seeds))
        command = f"python benchmarks/truth.py --seeds {seeds}" + (
            f" --steps {given.steps}" if given.steps != STEPS else ""
        )
        OUT.parent.mkdir(exist_ok=True)
        head = HEAD.format(command=command, steps=f"{given.steps:,}", seeds=seeds, problems="\n".join(facts))
        OUT.write_text(head + "\n".join(lines) + "\n")
        print(f"\n{OUT} written")


def _cell(values: list[float]) -> str:
    worst = f" ({100 * max(values):.1f})" if len(values) > 1 else ""
    return f"{100 * np.mean(values):.1f}{worst}"


if __name__ == "__main__":
    main()
