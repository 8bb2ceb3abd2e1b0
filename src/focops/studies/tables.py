"""Tables of a study, once as cells, then in Markdown, LaTeX or HTML."""

import html
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from focops.studies.comparison import CostFigures, Figures, improvement, over_tasks, published_of
from focops.studies.groups import Group
from focops.studies.published import Published
from focops.studies.statistics import Estimate, Z, in_standard_errors

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "·": r"$\cdot$", "×": r"$\times$",
    "Δ": r"$\Delta$", "γ": r"$\gamma$", "−": "$-$", "≤": r"$\leq$", "–": "--",
}  # fmt: skip


_MOST_COMPARED = 8
"""Groups whose every pair is compared: a larger table cannot be read."""


class Cell(NamedTuple):
    """What is shown, and the number behind it."""

    text: str
    value: float | None = None
    bad: bool = False
    """A limit is not kept."""


_NOTHING = Cell("–")
_MINUS = "−"
_DIFFERENCES = "Δ is ours minus theirs, in standard errors."


class Table(NamedTuple):
    name: str
    title: str
    note: str
    columns: list[str]
    rows: list[list[Cell]]


def tables(found: Sequence[Figures]) -> list[Table]:
    """Of one task."""
    compared = [_improvements([each.group for each in found])] if 1 < len(found) <= _MOST_COMPARED else []
    return [_training(found), _robust(found), *compared] if found else []


def unseen(groups: Sequence[Group], evaluated: Mapping[Path, dict[str, Any]]) -> list[Table]:
    """Of one task: the seed of each group that was evaluated, if it is one; else [], for a table of all is another."""
    found = [(group, run) for group in groups for run in group.runs if run.path in evaluated]
    if not found or len({group for group, _ in found}) < len(found):
        return []
    first = evaluated[found[0][1].path]
    theirs = {group: published_of(group, "unseen") for group, _ in found if len(first["constraints"]) == 1}
    known = next(filter(None, theirs.values()), None)
    rows = []
    for group, run in found:
        each, published = evaluated[run.path], theirs.get(group)
        reward = _over_episodes(each["reward"], each["episodes"])
        row = [Cell(group.label), Cell(str(run.seed), run.seed), _mean(reward)]
        row += _beside(reward, published, "reward") if known else []
        for cost in each["constraints"].values():
            mean = _over_episodes(cost["discounted_cost"], each["episodes"])
            row += [_mean(mean, cost["verdict"] == "violated"), Cell(f"{cost['limit']:g}", cost["limit"])]
            row += _beside(mean, published, "cost") if known else []
            row.append(Cell(cost["verdict"]))
        rows.append(row)
    names = [f" {name}" * (len(first["constraints"]) > 1) for name in first["constraints"]]
    columns = ["", "seed", "reward"] + ([f"reward, {known.source}", "Δ reward"] if known else [])
    for name in names:
        columns += [f"cost{name}", f"limit{name}"] + ([f"cost, {known.source}", "Δ cost"] if known else [])
        columns.append(f"verdict{name}")
    note = (
        f"One seed of each group (in a study, of those that kept their limits in training the one with the most reward)"
        f" on {first['episodes']} episodes of {len(first['seeds'])} seeds that training has not seen: mean ± half of"
        " its normal 95% interval."
    )
    if known:
        note += f" {_DIFFERENCES} Theirs: {known.title}, of one seed of {known.seeds}."
    return [Table("unseen", "The best seeds on unseen seeds", note, columns, rows)]


def _over_episodes(found: dict[str, float], episodes: int) -> Estimate:
    half = Z * found["std"] / math.sqrt(episodes)
    return Estimate(found["mean"], found["mean"] - half, found["mean"] + half)


def _beside(ours: Estimate, known: Published | None, what: Literal["reward", "cost"]) -> list[Cell]:
    """The published reward or cost, and ours minus it."""
    if known is None:
        return [_NOTHING] * 2
    theirs = (known.reward, known.reward_interval) if what == "reward" else (known.cost, known.cost_interval)
    text = known.reward_text() if what == "reward" else known.cost_text()
    return [Cell(text, theirs[0]), _difference(in_standard_errors(ours, *theirs))]


def all_tasks(groups: Sequence[Group]) -> list[Table]:
    """Over the tasks of which there are published figures; [] if there are fewer than two."""
    note = "Interquartile mean of the reward as a share of what was published for FOCOPS; stratified bootstrap."
    rows = [
        [Cell(label), _interval(estimate, 2), Cell(f"{len(tasks)}: {', '.join(tasks)}", len(tasks))]
        for label, (tasks, estimate) in over_tasks(groups).items()
    ]
    return [Table("all-tasks", "All tasks", note, ["", "share of the published reward", "tasks"], rows)] if rows else []


def _training(found: Sequence[Figures]) -> Table:
    known = next((each.published for each in found if each.published), None)
    names = _names(found)
    columns = ["", "seeds", "samples", "reward"] + ([f"reward, {known.source}", "Δ reward"] if known else [])
    for shown in names.values():
        columns += [f"cost{shown}", f"limit{shown}"] + (
            [f"cost{shown}, {known.source}", f"Δ cost{shown}"] if known else []
        )
    rows = []
    for each in found:
        row = [Cell(each.group.label), _seeds(each), _count(each.group.samples)]
        row += [_mean(each.reward)] + (_beside(each.reward, each.published, "reward") if known else [])
        for name in names:
            cells = _cost(each, name)
            row += cells if known else cells[:2]
        rows.append(row)
    note = "Mean over seeds of the last 100 training episodes, ± half of the normal 95% interval (bootstrap)."
    if known:
        trained = f", {known.seeds} seeds, {known.samples} samples" if known.seeds else ", without intervals"
        note += f" {_DIFFERENCES} Theirs: {known.title}{trained}."
    return Table("training", "At the end of training", note, columns, rows)


def _robust(found: Sequence[Figures]) -> Table:
    names = _names(found)
    columns = ["", "reward, IQM"]
    columns += [f"{heading}{shown}" for shown in names.values() for heading in ("seeds within", "worst violation")]
    columns += ["policy: reward", *[f"policy: cost{shown}" for shown in names.values()], "policy: satisfied"]
    rows = []
    for each in found:
        row = [Cell(each.group.label), _interval(each.interquartile_mean)]
        for name in names:
            cost = each.costs.get(name)
            row += [_share(cost.within, each.seeds), _violation(cost)] if cost else [_NOTHING] * 2
        rows.append(row + _policy(each, names))
    note = (
        "IQM: interquartile mean with its 95% bootstrap interval. Seeds within: whose last 100 training episodes keep"
        " the limit. Worst violation: the most by which that mean of any seed was above the limit, at any time in"
        " training. Policy: the delivered policies on unseen episodes; satisfied if the evaluation finds every limit"
        " kept with 95% confidence."
    )
    return Table("robust", "Robust statistics and delivered policies", note, columns, rows)


def _policy(each: Figures, names: Iterable[str]) -> list[Cell]:
    found = each.delivered
    if found is None:
        return [_NOTHING] * (2 + len(list(names)))
    limits = {name: cost.constraint.limit for name, cost in each.costs.items()}
    costs = [
        _mean(found.costs[name], found.costs[name].value > limits[name]) if name in limits else _NOTHING
        for name in names
    ]
    return [_mean(found.reward), *costs, _share(found.satisfied, found.policies) if limits else _NOTHING]


def _names(found: Sequence[Figures]) -> dict[str, str]:
    """The constraints, and what they are called in headings: a single one needs no name."""
    names = list(dict.fromkeys(name for each in found for name in each.costs))
    return {name: f" {name}" if len(names) > 1 else "" for name in names}


def _improvements(groups: Sequence[Group]) -> Table:
    rows = [
        [
            Cell(ours.label),
            *[_NOTHING if ours is theirs else _interval(improvement(ours, theirs), 2) for theirs in groups],
        ]
        for ours in groups
    ]
    note = "Probability that a run of the row has more reward than one of the column, with its 95% bootstrap interval."
    return Table("improvement", "Probability of improvement", note, ["", *[group.label for group in groups]], rows)


def _seeds(each: Figures) -> Cell:
    """How many are compared, and what became of the others."""
    others = Counter(run.status for run in each.group.runs if run not in each.group.compared)
    running = [f"{each.seeds} not finished"] * (each.group.compared[0].status != "finished")
    left_out = "; ".join(running + [f"+{number} {status}" for status, number in others.items()])
    return Cell(f"{each.seeds}" + (f" ({left_out})" if left_out else ""), each.seeds)


def _cost(each: Figures, name: str) -> list[Cell]:
    """The cost, its limit, the published cost and the difference to it."""
    cost = each.costs.get(name)
    if cost is None:
        return [_NOTHING] * 4
    limit = cost.constraint.limit
    known = each.published if len(each.costs) == 1 else None  # else it is not known which constraint it is of
    return [_mean(cost.mean, cost.mean.value > limit), Cell(f"{limit:g}", limit), *_beside(cost.mean, known, "cost")]


def _mean(estimate: Estimate, bad: bool = False) -> Cell:
    half = estimate.half_width
    if not half > 0:
        return Cell(_plain(estimate.value), estimate.value, bad)
    places = max(0, 1 - math.floor(math.log10(half)))
    return Cell(f"{_fixed(estimate.value, places)} ± {half:.{places}f}", estimate.value, bad)


def _interval(estimate: Estimate, places: int | None = None) -> Cell:
    shown = [_plain(each) if places is None else _fixed(each, places) for each in estimate]
    interval = "" if math.isnan(estimate.low) else f" [{shown[1]}, {shown[2]}]"
    return Cell(shown[0] + interval, estimate.value)


def _share(estimate: Estimate, number: int) -> Cell:
    return Cell(f"{round(estimate.value * number)} of {number}", estimate.value)


def _violation(cost: CostFigures) -> Cell:
    worst, limit = cost.worst_violation, cost.constraint.limit
    share = f" ({worst / limit:.0%})" if limit > 0 and worst > 0 else ""
    return Cell("none" if worst == 0 else f"{_plain(worst)}{share}", worst)


def _difference(errors: float) -> Cell:
    return _NOTHING if math.isnan(errors) else Cell(_fixed(errors, 1, "+"), errors)


def _count(samples: int) -> Cell:
    return Cell(f"{samples / 1e6:.3g}M" if samples >= 1e6 else f"{samples / 1e3:.3g}k", samples)


def _plain(value: float) -> str:
    text = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:z.3g}"
    return text.replace("-", _MINUS)


def _fixed(value: float, places: int, sign: str = "-") -> str:
    """With a minus sign, and not of zero."""
    return f"{value:{sign}z.{places}f}".replace("-", _MINUS)


def to_markdown(table: Table) -> str:
    line = lambda cells: "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    rows = [line([cell.text for cell in row]) for row in table.rows]
    rule = "|---|" + "---:|" * (len(table.columns) - 1)
    return "\n".join([f"### {table.title}", "", line(table.columns), rule, *rows, "", table.note])


def to_latex(table: Table) -> str:
    """A tabular of the package booktabs."""
    line = lambda cells: " & ".join(map(_escaped, cells)) + r" \\"
    rows = [line([cell.text for cell in row]) for row in table.rows]
    head = [f"% {table.title}. {table.note}", rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule"]
    return "\n".join([*head, line(table.columns), r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"])


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def to_html(table: Table) -> str:
    """With the numbers themselves in `data-value`."""
    heads = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in table.columns)
    rows = "".join(f"<tr>{_html_row(row, table.columns)}</tr>\n" for row in table.rows)
    return (
        f'<figure class="table"><figcaption><h3>{html.escape(table.title)}</h3></figcaption><div class="scroll">'
        f'<table id="{table.name}"><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div>'
        f'<p class="note">{html.escape(table.note)}</p></figure>'
    )


def _html_row(row: Sequence[Cell], columns: Sequence[str]) -> str:
    first, *others = zip(row, columns, strict=True)
    cells = [f'<th scope="row">{html.escape(first[0].text)}</th>']
    for cell, column in others:
        value = "" if cell.value is None else f' data-value="{cell.value!r}"'
        bad = ' class="over"' if cell.bad else ""
        cells.append(f'<td data-column="{html.escape(column)}"{value}{bad}>{html.escape(cell.text)}</td>')
    return "".join(cells)
