"""`focops solve`: a finite CMDP's optimal policy, its values, multipliers and which constraints bind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from focops.errors import UsageError
from focops.tabular.cmdp import CMDP, grid_cells
from focops.tabular.generate import MOVES, garnet, gridworld, queue
from focops.tabular.json_file import load, save
from focops.tabular.lp import Solution, solve_lp

_EXAMPLES: dict[str, Callable[[], CMDP]] = {
    "gridworld": lambda: gridworld(["S...H...", ".##.H.#.", "....H...", ".#......", "...H..#G"], limit=0.2),
    "queue": queue,
    "random": lambda: garnet(8, 3, 2, tightness=0.85),
}
_SHOWN = 40
"""Rows of the policy that are printed by default."""


@dataclass(frozen=True)
class _SolveArguments:
    """Print the optimal policy of a finite constrained problem, its values, and what each constraint is worth."""

    problem: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FILE")]
    """A JSON file, or an example: gridworld, queue, random."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Draw a gridworld's policy and visitation into this file (png, svg, pdf)."""
    save: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Write the problem as JSON, to change it."""
    all: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print every state's policy, however many there are."""


def solve(words: Sequence[str]) -> int:
    """Run the command."""
    given = tyro.cli(_SolveArguments, args=list(words), prog="focops solve")
    cmdp = _EXAMPLES[given.problem]() if given.problem in _EXAMPLES else load(_file(given.problem))
    if given.plot is not None and not cmdp.grid:
        raise UsageError(f"--plot draws gridworlds, and {given.problem} has no grid; leave --plot out")
    if given.plot is not None and cmdp.num_actions != len(MOVES):
        raise UsageError(
            f"--plot draws the {len(MOVES)} moves of a gridworld, and {given.problem} has {cmdp.num_actions} action(s);"
            " leave --plot out"
        )
    if given.save is not None:
        save(cmdp, given.save)
    solution = solve_lp(cmdp)
    show(cmdp, solution, None if given.all else _SHOWN)
    if given.plot is not None:
        from focops.tabular.plot import save_figure

        save_figure(cmdp, solution, given.plot)
        print(f"\n{given.plot} written")
    return 0


def show(cmdp: CMDP, solution: Solution, rows: int | None) -> None:
    """Print constraints and policy as tables."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = lambda *columns: Table(*columns, box=None, header_style="dim", pad_edge=False)
    console.print(f"return J = {solution.ret:.6g} (no feasible policy has more than {solution.bound:.6g})\n")
    constraints = table("constraint", "cost J_C", "limit b", "binds", "multiplier ν")
    for i, name in enumerate(cmdp.names):
        binds = "yes" if solution.binding[i] else "no"
        constraints.add_row(
            name, f"{solution.cost_return[i]:.6g}", f"{cmdp.limits[i]:.6g}", binds, f"{solution.nu[i]:.6g}"
        )
    console.print(constraints)
    print()
    policy = table("state", "visited", "V", "policy")
    visited = solution.evaluation.visitation
    order = np.arange(cmdp.num_states)
    if rows is not None and cmdp.num_states > rows:
        order = np.sort(np.argsort(-visited)[:rows])
    for s in order:
        policy.add_row(
            _state(cmdp, s), f"{visited[s]:.2%}", f"{solution.evaluation.value[s]:.4g}", _choice(cmdp, solution, s)
        )
    console.print(policy)
    if order.size < cmdp.num_states:
        print(f"the {order.size} most visited of {cmdp.num_states} states; --all prints every one")
    random = int(np.sum((solution.policy.max(1) < 1 - 1e-6) & (visited > 0)))
    print(f"\nrandomises in {random} state{'s' * (random != 1)}")


def _choice(cmdp: CMDP, solution: Solution, state: Any) -> str:
    row = solution.policy[state]
    taken = np.flatnonzero(row > 1e-6)
    best_first = taken[np.argsort(-row[taken])]
    return ", ".join(str(cmdp.action_names[a]) + ("" if row[a] > 1 - 1e-6 else f" {row[a]:.4f}") for a in best_first)


def _state(cmdp: CMDP, state: Any) -> str:
    if not cmdp.grid:
        return str(state)
    row, column = grid_cells(cmdp.grid)[state]
    return f"{state} {cmdp.grid[row][column]} ({row}, {column})"


def _file(name: str) -> Path:
    if not Path(name).is_file():
        raise UsageError(f"there is no file {name!r}; give a JSON file, or one of the examples: {', '.join(_EXAMPLES)}")
    return Path(name)
