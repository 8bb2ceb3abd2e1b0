"""How large a CMDP the linear program takes: time and memory of `solve_lp` on random problems and on a grid.

python benchmarks/cmdp_size.py [--states 10000] [--actions 10]
"""

import argparse
import resource
import time

import numpy as np

from focops.tabular import CMDP, garnet, gridworld, solve_lp


def open_field(side: int) -> CMDP:
    """A square grid with a tenth of its cells hazards, from one corner to the other."""
    rng = np.random.default_rng(0)
    cells = np.where(rng.random((side, side)) < 0.1, "H", ".")
    cells[0, 0], cells[-1, -1] = "S", "G"
    return gridworld(["".join(row) for row in cells], limit=0.5, discount=0.99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--actions", type=int, default=10)
    given = parser.parse_args()
    problems = {
        "random, 10 successors, γ 0.95": lambda: garnet(
            given.states, given.actions, 2, branching=10, discount=0.95, tightness=0.8
        ),
        "random, 10 successors, γ 0.99": lambda: garnet(
            given.states, given.actions, 2, branching=10, discount=0.99, tightness=0.8
        ),
        "grid, 4 actions, γ 0.99": lambda: open_field(int(given.states**0.5)),
    }
    print("| problem | states × actions | non-zeros | seconds | peak GB | J | bound − J | excess over limits |")
    print("|---|---|---|---|---|---|---|---|")
    for name, make in problems.items():
        problem = make()
        began = time.perf_counter()
        solution = solve_lp(problem)
        seconds = time.perf_counter() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        excess = np.max(solution.cost_return - problem.limits)
        print(
            f"| {name} | {problem.num_states} × {problem.num_actions} | {problem.transition.nnz} | {seconds:.1f} |"
            f" {memory:.2f} | {solution.ret:.6f} | {solution.bound - solution.ret:.1e} | {excess:.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
