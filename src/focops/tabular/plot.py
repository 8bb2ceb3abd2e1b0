"""A gridworld's policy and visitation, drawn."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from focops.errors import UsageError
from focops.tabular.cmdp import CMDP, grid_cells
from focops.tabular.generate import MOVES
from focops.tabular.lp import Solution

_EDGE = {"S": "tab:blue", "G": "tab:green", "H": "tab:red"}


def draw(axes: Any, cmdp: CMDP, policy: np.ndarray, visitation: np.ndarray, title: str) -> Any:
    """The visitation as shades, the policy as arrows as long as their probability; returns the image."""
    cells = grid_cells(cmdp.grid)
    ends = np.array([cmdp.grid[i][j] == "G" for i, j in cells])
    shade = np.full((len(cmdp.grid), len(cmdp.grid[0])), np.nan)
    for (i, j), d, end in zip(cells, visitation, ends, strict=True):
        shade[i, j] = 0.0 if end else d
    image = axes.imshow(shade, cmap="Blues", vmin=0, vmax=float(np.nanmax(shade)) * 1.3)
    axes.set_facecolor("dimgray")
    for s, (i, j) in enumerate(cells):
        letter = cmdp.grid[i][j]
        if letter in _EDGE:
            axes.add_patch(_square(i, j, _EDGE[letter]))
            axes.text(j - 0.42, i - 0.3, letter, fontsize=7, color=_EDGE[letter], va="center")
        if ends[s]:
            continue
        for (di, dj), p in zip(MOVES.values(), policy[s], strict=True):
            if p > 0.02:
                axes.annotate(
                    "", (j + 0.42 * p * dj, i + 0.42 * p * di), (j, i), arrowprops={"arrowstyle": "->", "lw": 0.5 + p}
                )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(title, fontsize=9)
    return image


def save_figure(cmdp: CMDP, solution: Solution, path: Path) -> None:
    """Draw a solved gridworld into a file."""
    figure = new_figure(1.0 + 0.6 * len(cmdp.grid[0]), 1.0 + 0.6 * len(cmdp.grid))
    cost = ", ".join(
        f"{name} {c:.3g} of {b:.3g}" for name, c, b in zip(cmdp.names, solution.cost_return, cmdp.limits, strict=True)
    )
    axes = figure.subplots()
    image = draw(axes, cmdp, solution.policy, solution.evaluation.visitation, f"J = {solution.ret:.4g}, {cost}")
    figure.colorbar(image, ax=axes, label="visitation d(s)", shrink=0.8)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be written ({error}); give a .png, .svg or .pdf file") from error


def new_figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("drawing needs matplotlib: pip install 'focops[plot]'") from error

    class Drawing(Figure):
        def _repr_png_(self) -> bytes:  # a notebook shows other figures only where pyplot is loaded
            file = io.BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    return Drawing(figsize=(width, height), layout="constrained")


def _square(row: int, column: int, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, fill=False, edgecolor=colour, linewidth=1.2)
