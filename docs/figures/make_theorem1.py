"""The figures of docs/theorem-1.md:  python docs/figures/make_theorem1.py"""

from pathlib import Path

import numpy as np

from focops.tabular import focops_iterate, focops_update, garnet, gridworld, practical_iterate, queue, solve_lp
from focops.tabular.exact_values import visitation
from focops.tabular.plot import draw, new_figure
from focops.tabular.problems import PROBLEMS
from focops.tabular.theorem1 import surrogate

HERE = Path(__file__).parent
GRID = gridworld(["S..H..G", "...H...", ".......", "..H#H..", "......."], limit=0.1, slip=0.1)


def dual() -> None:
    """The dual over (λ, ν) with its minimum; and what the trust region buys."""
    problem = garnet(4, 3, 1, tightness=1.0)
    old, delta = problem.uniform(), 0.05
    update, at = focops_update(problem, old, delta), surrogate(problem, old, delta)
    temperatures, multipliers = np.linspace(0.3, 3, 80) * update.temperature, np.linspace(0, 2.5, 80) * update.nu[0]
    values = [[at.dual(t, np.array([nu])) for t in temperatures] for nu in multipliers]
    figure = new_figure(9, 3.2)
    left, right = figure.subplots(1, 2)
    levels = update.dual + np.geomspace(1e-4, 0.05, 12)
    lines = left.contour(temperatures, multipliers, values, levels=levels, cmap="viridis")
    figure.colorbar(lines, ax=left, format="%.4f")
    left.plot(update.temperature, update.nu[0], "r*", markersize=10, label="(λ*, ν*)")
    left.set(xlabel="λ", ylabel="ν", title=f"The dual for δ = {delta}")
    left.legend()
    deltas = np.geomspace(1e-4, 3, 40)
    updates = [focops_update(problem, old, d) for d in deltas]
    right.loglog(deltas, [u.temperature for u in updates], label="λ*")
    right.loglog(deltas, [u.nu[0] for u in updates], label="ν*")
    right.loglog(deltas, [u.primal for u in updates], label="E[A] under π*")
    right.set(xlabel="δ", title="Beyond δ ≈ 0.9 only costs bind: λ* = 0", ylim=(1e-3, 30))
    right.legend()
    figure.savefig(HERE / "theorem1-dual.png", dpi=110)


def iteration() -> None:
    """J and J_C over exact updates, for three trust regions; and the practical rule."""
    problem = queue()
    best = solve_lp(problem)
    figure = new_figure(9, 3.2)
    axes = figure.subplots(1, 3)
    for delta in (0.003, 0.02, 0.1):
        result = focops_iterate(problem, trust_region=delta)
        axes[0].plot(result.ret, label=f"δ = {delta}")
        axes[1].plot(result.cost_return[:, 1])
    axes[0].axhline(best.ret, color="black", lw=0.7, ls="--")
    axes[1].axhline(problem.limits[1], color="black", lw=0.7, ls="--")
    axes[0].legend(fontsize=8)
    axes[0].set(xlabel="update", title="J (dashed: linear program)", xlim=(0, 45))
    axes[1].set(xlabel="update", title="J_C of effort (dashed: limit)", xlim=(0, 45))
    crossing = PROBLEMS["Crossroads-v0"]
    practical = practical_iterate(crossing, temperature=0.2, nu_rate=1.0, updates=100)
    axes[2].plot(practical.cost_return[:, 0], lw=0.8, label="J_C")
    axes[2].plot(practical.nu[:, 0], lw=0.8, label="ν")
    axes[2].axhline(crossing.limits[0], color="black", lw=0.7, ls="--")
    axes[2].set(xlabel="update", title="λ fixed, ν stepped: Crossroads")
    axes[2].legend(fontsize=8)
    figure.savefig(HERE / "theorem1-iteration.png", dpi=110)


def grids() -> None:
    """One gridworld under three limits."""
    figure = new_figure(10, 2.9)
    for axes, limit in zip(figure.subplots(1, 3), (0.02, 0.1, 2.0), strict=True):
        problem = gridworld(GRID.grid, limit=limit, slip=0.1)
        solution = solve_lp(problem)
        title = f"limit {limit:g}: J {solution.ret:.3f}, cost {solution.cost_return[0]:.3f}, ν {solution.nu[0]:.3f}"
        draw(axes, problem, solution.policy, visitation(problem, solution.policy), title)
    figure.savefig(HERE / "theorem1-grid.png", dpi=110)


if __name__ == "__main__":
    dual()
    iteration()
    grids()
