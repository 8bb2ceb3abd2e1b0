"""Every algorithm against the truth: trained on small CMDPs, evaluated exactly, compared with the linear program.

python benchmarks/truth.py [NAME ...] [--seeds 0 1]     # writes results/truth.md if every algorithm was run
"""

import argparse
import time
from pathlib import Path

import numpy as np

from focops.algorithms import ALGORITHMS
from focops.tabular import solve_lp
from focops.tabular.problems import PROBLEMS
from focops.tabular.truth import STEPS, distance, settings, train

OUT = Path("results/truth.md")
HEAD = """# Distance from the optimum

`{command}`

Each algorithm is trained by the ordinary loop for {steps} samples on small CMDPs as Gymnasium environments
(`focops.tabular.problems`), with one set of hyper-parameters (`focops.tabular.truth.SETTINGS`, tuned for FOCOPS; others
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
            policies = [train(settings(name, algorithm, given.steps, seed)) for seed in given.seeds]
            found = [distance(problem, policy, best[name]) for policy in policies]
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
