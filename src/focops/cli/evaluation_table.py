"""An evaluation as a table for the terminal."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from focops.display.progress import number
from focops.evaluation import BOUNDS, ConstraintResult, Estimate, Evaluation, host

STYLES = {"satisfied": "bold green", "violated": "bold red", "undecided": "bold yellow"}


def evaluation_table(result: Evaluation) -> RenderableType:
    """Means with their intervals, then a row per constraint with its verdict."""
    percent = f"{100 * result.confidence:g}%"
    acting = "most likely actions" if result.deterministic else "sampled actions"
    head = f"{result.task}   {result.episodes} episodes, {len(result.seeds)} seed(s), {acting}, {percent} intervals"
    means = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for heading in ("", "mean", "interval", "std"):
        means.add_column(heading, justify="right" if heading in ("mean", "std") else "left", no_wrap=True)
    _row(means, "reward", result.reward)
    _row(means, "episode length", result.episode_length)
    verdicts = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for heading in ("constraint", "J_C at most", "limit", "episodes above", "verdict"):
        verdicts.add_column(heading, no_wrap=heading != "verdict")
    for name, c in result.constraints.items():
        _row(means, f"{name}: discounted cost J_C", c.discounted_cost)
        _row(means, f"{name}: undiscounted cost", c.undiscounted_cost)
        verdict = Text(c.verdict, style=STYLES[c.verdict])
        if c.verdict == "undecided":
            verdict.append(f" at {percent}: {_way_out(c)}", style="default")
        verdicts.add_row(name, number(c.upper_bound), number(c.limit), f"{100 * c.share_above_limit:.3g}%", verdict)
    notes = [Text(_basis(name, c, result.unseen_share), "dim") for name, c in result.constraints.items()]
    notes += [Text(f"{result.cut} episode(s) were cut after {host.MAX_STEPS} steps", "yellow")] if result.cut else []
    notes += [Text(f"{result.diverged} simulation(s) became unstable", "yellow")] if result.diverged else []
    return Group(Text(head, style="bold"), means, Text(), verdicts, *notes)


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
    unseen = f"kinds of episode not seen, up to {100 * unseen_share:.2g}% of all,"
    return f"{text}; {verdict} if {unseen} cost {least} {number(c.unseen_cost)} on average"


def _row(table: Table, name: str, estimate: Estimate) -> None:
    interval = f"[{number(estimate.low)}, {number(estimate.high)}]"
    table.add_row(name, number(estimate.mean), Text(interval), number(estimate.std))
