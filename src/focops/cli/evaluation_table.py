"""Evaluations as tables for the terminal."""

import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from focops.display.numbers import number
from focops.display.summary import VERDICTS
from focops.evaluation import BOUNDS, ConstraintResult, Estimate, Evaluation, host


def one(result: Evaluation) -> RenderableType:
    """Means with their intervals, then a row per constraint with its verdict."""
    percent = f"{100 * result.confidence:g}%"
    means = _table("", "mean", "interval", "std", right=("mean", "std"))
    _row(means, "reward", result.reward)
    _row(means, "episode length", result.episode_length)
    verdicts = _table("constraint", "J_C at most", "limit", "episodes above", "verdict")
    for name, c in result.constraints.items():
        if c.discount < 1:
            _row(means, f"{name}: discounted cost J_C", c.discounted_cost)
            _row(means, f"{name}: undiscounted cost", c.undiscounted_cost)
        else:
            _row(means, f"{name}: cost J_C", c.discounted_cost)
        verdict = Text(c.verdict, style=VERDICTS[c.verdict])
        if c.verdict == "undecided":
            verdict.append(f" at {percent}: {_way_out(c)}", style="default")
        verdicts.add_row(name, number(c.upper_bound), number(c.limit), f"{100 * c.share_above_limit:.3g}%", verdict)
    notes = [Text(_basis(name, c, result.unseen_share), "dim") for name, c in result.constraints.items()]
    head = f"{_head(result)}, {percent} intervals"
    judged = [Text(), verdicts, *notes] if result.constraints else []
    return Group(Text(head, style="bold"), means, *judged, *_troubles([result]))


def many(results: Sequence[Evaluation]) -> RenderableType:
    """For each task a row per run, and what share of them is satisfied."""
    tasks = list(dict.fromkeys(result.task for result in results))
    parts: list[RenderableType] = []
    for task in tasks:
        parts += [Text()] if parts else []
        parts += _of_task([result for result in results if result.task == task])
    return Group(*parts)


def _of_task(results: Sequence[Evaluation]) -> list[RenderableType]:
    first, judged = results[0], any(result.constraints for result in results)
    head = _head(first, " of each run") + f", verdicts at {100 * first.confidence:g}%" * judged
    reward, cost = "reward ± std. error", "J_C ± std. error"
    of_costs = ("constraint", cost, "limit", "verdict") if judged else ()
    table = _table("run", reward, *of_costs, right=(reward, cost))
    for result, name in zip(results, _names([result.run for result in results]), strict=True):
        cells = [name, _mean(result.reward, result.episodes)]
        for constraint, c in result.constraints.items():
            cells += [constraint, _mean(c.discounted_cost, result.episodes), number(c.limit)]
            table.add_row(*cells, Text(c.verdict, style=VERDICTS[c.verdict]))
            cells = ["", ""]
        if not result.constraints:
            table.add_row(*cells)
    return [Text(head, style="bold"), table, Text(_shares(results), "bold"), *_troubles(results)]


def _shares(results: Sequence[Evaluation]) -> str:
    """The share of runs of each verdict; the mean of their rewards, with its standard error over runs."""
    n, verdicts = len(results), Counter(_verdict(result) for result in results if result.constraints)
    shares = ", ".join(f"{100 * verdicts[name] / n:.3g}% {name} ({verdicts[name]})" for name in VERDICTS)
    rewards = np.array([result.reward.mean for result in results])
    mean, error = float(rewards.mean()), float(rewards.std(ddof=1) / n**0.5) if n > 1 else math.nan
    judged = f"{shares}; " if verdicts else ""
    return f"{n} run(s): {judged}mean reward {_with_error(mean, error)} over runs"


def _verdict(result: Evaluation) -> str:
    """The worst of all constraints."""
    return max((c.verdict for c in result.constraints.values()), key=list(VERDICTS).index)


def _names(runs: Sequence[str]) -> list[str]:
    """The paths without the directory that all are in: in a grid what differs, as seed=3."""
    shared = os.path.commonpath([Path(run).absolute().parent for run in runs])
    return [os.path.relpath(Path(run).absolute(), shared) for run in runs]


def _mean(estimate: Estimate, episodes: int) -> str:
    return _with_error(estimate.mean, estimate.std / episodes**0.5)


def _with_error(mean: float, error: float) -> str:
    """Both to two digits of the error: 1234 ± 12, 0.97 ± 0.15."""
    if math.isnan(error):  # of one run
        return number(mean)
    if not (0 < error < math.inf):
        return f"{number(mean)} ± {number(error)}"
    places = max(0, 1 - math.floor(math.log10(error)))
    return f"{mean:.{places}f} ± {error:.{places}f}"


def _head(result: Evaluation, whose: str = "") -> str:
    acting = "most likely actions" if result.deterministic else "sampled actions"
    where = " on MJX (physics in float32)" if result.backend == "mjx" else ""
    return f"{result.task}{where}   {result.episodes} episodes{whose}, {len(result.seeds)} seed(s), {acting}"


def _troubles(results: Sequence[Evaluation]) -> list[RenderableType]:
    cut, diverged = sum(result.cut for result in results), sum(result.diverged for result in results)
    notes = [f"{cut} episode(s) were cut after {host.MAX_STEPS} steps"] if cut else []
    notes += [f"{diverged} simulation(s) became unstable"] if diverged else []
    return [Text(note, "yellow") for note in notes]


def _table(*headings: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", no_wrap=heading != "verdict")
    return table


def _way_out(c: ConstraintResult) -> str:
    if c.episodes_needed is not None:
        return f"about {c.episodes_needed} episodes would decide"
    return "no number of such episodes would decide"


def _basis(name: str, c: ConstraintResult, unseen_share: float) -> str:
    """Which bound was used, and what the verdict assumes about episodes that did not occur."""
    text = f"{name}: {BOUNDS[c.bound]}"
    if c.unseen_cost is None:
        return text
    verdict, least = ("violated", "at least") if c.verdict == "violated" else ("satisfied", "at most")
    rare = f"rare episodes that none of these was like (at most {100 * unseen_share:.2g}% of all)"
    return f"{text}; {verdict} as long as {rare} cost {least} {number(c.unseen_cost)} on average"


def _row(table: Table, name: str, estimate: Estimate) -> None:
    interval = f"[{number(estimate.low)}, {number(estimate.high)}]"
    table.add_row(name, number(estimate.mean), Text(interval), number(estimate.std))
