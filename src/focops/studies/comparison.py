"""What the groups of a task are compared by: statistics over seeds, published figures, sensitivity to settings."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from focops.core.spec import Constraint
from focops.envs import tasks
from focops.studies import statistics
from focops.studies.groups import Group, is_limited, order, text
from focops.studies.published import Published, published
from focops.studies.statistics import Estimate


class CostFigures(NamedTuple):
    """Of one constraint, over the seeds of a group."""

    constraint: Constraint
    mean: Estimate
    """Of the last 100 training episodes."""
    within: Estimate
    """Share of the seeds whose last 100 training episodes keep the limit."""
    worst_violation: float
    """Of any seed at any time in training."""


class DeliveredFigures(NamedTuple):
    """Of the policies that a group delivers, on unseen episodes."""

    policies: int
    reward: Estimate
    costs: dict[str, Estimate]
    satisfied: Estimate
    """Share that was found to keep every limit."""


class Figures(NamedTuple):
    """A group in numbers."""

    group: Group
    seeds: int
    reward: Estimate
    interquartile_mean: Estimate
    costs: dict[str, CostFigures]
    """By constraint."""
    published: Published | None
    delivered: DeliveredFigures | None


class Sensitivity(NamedTuple):
    """How reward and cost depend on two settings, or on one (then `rows` has one entry)."""

    algorithm: str
    """"" if each row is of one."""
    column_setting: str
    row_setting: str
    columns: list[str]
    rows: list[str]
    reward: list[list[float]]
    cost: list[list[float]]
    """As a share of the limit, of the constraint that is worst."""


def figures(group: Group) -> Figures | None:
    """None before an episode has ended."""
    if not group.compared:
        return None
    rewards = group.final("return_mean")
    return Figures(
        group, len(rewards), statistics.mean(rewards), statistics.interquartile_mean(rewards),
        {c.name: _cost(group, c) for c in group.constraints}, published_of(group), _delivered(group),
    )  # fmt: skip


def published_of(group: Group, of: Literal["tasks", "unseen"] = "tasks") -> Published | None:
    """What was published of its task and algorithm, if at the same limit."""
    return published(group.task, group.algorithm, of) if _has_the_tasks_limits(group) else None


def improvement(ours: Group, theirs: Group) -> Estimate:
    """The probability that a run of `ours` has more reward than one of `theirs`."""
    return statistics.probability_of_improvement([ours.final("return_mean")], [theirs.final("return_mean")])


def over_tasks(groups: Sequence[Group]) -> dict[str, tuple[list[str], Estimate]]:
    """By label: the tasks, and the interquartile mean of the reward as a share of what was published for FOCOPS."""
    scores: dict[str, dict[str, np.ndarray]] = {}
    for group in groups:
        known = published(group.task, "focops")
        if known and group.compared and _has_the_tasks_limits(group):
            scores.setdefault(group.label, {})[group.task] = group.final("return_mean") / known.reward
    return {
        label: (list(tasks), statistics.interquartile_mean(*tasks.values()))
        for label, tasks in scores.items()
        if len(tasks) > 1
    }


def sensitivity(groups: Sequence[Group]) -> list[Sensitivity]:
    """Of every algorithm with settings that vary: the two that have the most values, averaged over the others.
    Algorithms of which the same one varies are the rows of one."""
    found = []
    for algorithm in dict.fromkeys(group.algorithm for group in groups):
        own = [group for group in groups if group.algorithm == algorithm and group.compared]
        values = {name: _values(own, name) for name in (own[0].settings if own else ()) if name != "in"}
        varied = sorted((name for name in values if len(values[name]) > 1), key=lambda name: -len(values[name]))[:2]
        if varied:
            found.append(_sensitivity(algorithm, own, values, *(*varied, "")[:2]))
    return _merged(found)


def _merged(found: list[Sensitivity]) -> list[Sensitivity]:
    is_alike = len({(each.column_setting, each.row_setting, *each.columns) for each in found}) == 1
    if len(found) < 2 or not is_alike or found[0].row_setting:
        return found
    rows = [each.algorithm for each in found]
    return [
        Sensitivity("", found[0].column_setting, "algorithm", found[0].columns, rows,
                    [each.reward[0] for each in found], [each.cost[0] for each in found])
    ]  # fmt: skip


def _sensitivity(
    algorithm: str, groups: Sequence[Group], values: dict[str, list[str]], column: str, row: str
) -> Sensitivity:
    columns, rows = values[column], values.get(row, [""])

    def table(of: Callable[[Group], float]) -> list[list[float]]:
        cell = lambda r, c: [of(group) for group in groups if _at(group, column, c) and _at(group, row, r)]
        return [[float(np.mean(cell(r, c))) if cell(r, c) else np.nan for c in columns] for r in rows]

    column_name, row_name = column.removeprefix("algo."), row.removeprefix("algo.")
    reward = table(lambda group: float(group.final("return_mean").mean()))
    return Sensitivity(algorithm, column_name, row_name, columns, rows, reward, table(_worst_share))


def _has_the_tasks_limits(group: Group) -> bool:
    """What was published is of these: of another limit it says nothing. An algorithm that looks at none has any."""
    given, task = group.runs[0].settings.get("cost_limit"), tasks.find(group.task)
    if given is None or task is None or not is_limited(group):
        return True
    return np.allclose(given, [constraint.limit for constraint in task.constraints], rtol=1e-3)


def _cost(group: Group, constraint: Constraint) -> CostFigures:
    metric, limit = f"cost/{constraint.name}", constraint.limit
    costs = group.final(metric)
    return CostFigures(
        constraint, statistics.mean(costs), statistics.share(int((costs <= limit).sum()), len(costs)),
        max(statistics.worst_violation(run.curves[metric], limit) for run in group.compared),
    )  # fmt: skip


def _delivered(group: Group) -> DeliveredFigures | None:
    found = [run.delivered for run in group.runs if run.delivered is not None]
    if not found:
        return None
    satisfied = sum(set(each.verdicts.values()) == {"satisfied"} for each in found)
    return DeliveredFigures(
        len(found),
        statistics.mean(np.array([each.reward for each in found])),
        {name: statistics.mean(np.array([each.costs[name] for each in found])) for name in found[0].costs},
        statistics.share(satisfied, len(found)),
    )


def _values(groups: Sequence[Group], name: str) -> list[str]:
    """Of a setting, by size."""
    return list(dict.fromkeys(text(value) for value in sorted((g.settings[name] for g in groups), key=order)))


def _at(group: Group, name: str, value: str) -> bool:
    return not name or text(group.settings[name]) == value


def _worst_share(group: Group) -> float:
    shares = [float(group.final(f"cost/{c.name}").mean()) / c.limit for c in group.constraints if c.limit > 0]
    return max(shares, default=np.nan)
