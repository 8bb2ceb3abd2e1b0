"""A run that has ended: its training mean beside what the evaluation at its end found of the policy it delivers."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from focops.display.numbers import clock, count, is_below, number
from focops.display.progress import against

Summary = dict[str, Any]
"""As in summary.json."""
VERDICTS = {"satisfied": "bold green", "undecided": "bold yellow", "violated": "bold red"}
"""The verdicts, from the best to the worst."""
ACTING = {"sampled": "policy", "mean_action": "mean action"}
"""The two evaluations in a summary's `policy`, and what they are called."""
NOT_FINISHED = "the run is not finished"
NO_EPISODES = "--final-episodes is 0"
"""Reasons in `not_evaluated`."""


def verdict(found: dict[str, Any]) -> str:
    """Of one of the two evaluations: the worst of all constraints; "" without any."""
    return max(found["verdict"].values(), key=list(VERDICTS).index, default="")


def costs_found(found: dict[str, Any]) -> list[str]:
    """Of each cost: speed 150.2, limit 152.0: satisfied"""
    names = found["verdict"]
    cost, limit = found["discounted_cost"], found["cost_limit"]
    return [f"{name} {number(cost[name])}, limit {number(limit[name])}: {names[name]}" for name in names]


def policy_line(summary: Summary) -> str:
    """What was found of the delivered policy, in one plain line."""
    policy = summary.get("policy")
    if policy is None:
        return f"policy not evaluated: {summary.get('not_evaluated') or NOT_FINISHED}"
    each = (
        ", ".join([f"{called} return {number(policy[acting]['reward'])}", *costs_found(policy[acting])])
        for acting, called in ACTING.items()
    )
    return f"{'; '.join(each)} ({policy['sampled']['episodes']} episodes each)"


def verdicts(summary: Summary | None) -> Text:
    """Of the policy and of its mean action: satisfied / violated."""
    policy = (summary or {}).get("policy")
    if policy is None or not policy["sampled"]["verdict"]:
        return Text("–", style="dim")
    found = [verdict(policy[acting]) for acting in ACTING]
    return Text(" / ").join(Text(each, style=VERDICTS[each]) for each in found)


def shares(summaries: Sequence[Summary]) -> str:
    """Of many runs, the share of each verdict among the delivered policies, and among their mean actions."""
    evaluated = [policy for policy in (summary.get("policy") for summary in summaries) if policy is not None]
    if not any(policy["sampled"]["verdict"] for policy in evaluated):
        return ""
    parts = []
    for acting, called in {"sampled": "delivered policies", "mean_action": "their mean actions"}.items():
        found = Counter(verdict(policy[acting]) for policy in evaluated)
        each = (f"{100 * found[name] / len(evaluated):.3g}% {name} ({found[name]})" for name in VERDICTS)
        parts.append(f"{called}: {', '.join(each)}")
    missing = len(summaries) - len(evaluated)
    return "; ".join([*parts, *[f"{missing} not evaluated"] * (missing > 0)])


def summary_text(summary: Summary, commands: Sequence[str] = ()) -> Text:
    """A run's summary: training mean, delivered policy and its mean action with each cost against its limit, rate,
    where the files are, hints, and what to do next."""
    rows = [*_training(summary), *_policy(summary), ("files", [summary["out"]])]
    rows += [("" if i else "hint", [hint]) for i, hint in enumerate(summary.get("hints", ()))]
    rows += [("" if i else "next", [command]) for i, command in enumerate(commands)]
    width = max(len(label) for label, _ in rows)
    head = f"{summary['task']} · {summary['algo']} · seed {summary['seed']}"
    pace = f"{summary['steps']:,} samples in {clock(summary['wall_s'])}, {count(summary['steps_per_second'])}/s"
    lines = [Text.assemble((f"  {label:<{width}}  ", "dim"), *parts) for label, parts in rows]
    return Text("\n").join([Text.assemble((head, "bold"), f"   {pace}"), *lines])


def print_summary(summary: Summary, commands: Sequence[str] = ()) -> None:
    Console(highlight=False).print(summary_text(summary, commands), soft_wrap=True)


Row = tuple[str, Sequence[Any]]


def _training(summary: Summary) -> list[Row]:
    if summary["return_mean"] is None:
        return [("training mean", ["no training episode has ended"])]
    mean = number(summary["return_mean"])
    rows: list[Row] = [("training mean", [f"return {mean} (last {summary.get('training_episodes', 100)} episodes)"])]
    sums = _sums(summary)
    for name, limit in summary["cost_limit"].items():
        cost, plain = summary["discounted_cost_mean"][name], summary["undiscounted_cost_mean"][name]
        rows.append(_cost(name, cost, None if name in sums else plain, limit, "within" if cost <= limit else "over"))
        aim = summary.get("cost_aim", {}).get(name)
        if is_below(aim, limit):
            rows.append(("", [f"     {name} aimed at {number(aim)} (margin {summary['margin']})"]))
    return rows


def _policy(summary: Summary) -> list[Row]:
    policy = summary.get("policy")
    if policy is None:
        return [("policy", [f"not evaluated: {summary.get('not_evaluated') or NOT_FINISHED}"])]
    rows: list[Row] = []
    sums = _sums(summary)
    for acting, found in ((acting, policy[acting]) for acting in ACTING):
        how = ", sampled actions" * (acting == "sampled")
        if acting == "sampled" and policy.get("chosen_from", 1) > 1:
            how += f"; chosen of {policy['chosen_from']}, of iteration {policy['iteration']}"
        rows.append((ACTING[acting], [f"return {number(found['reward'])} ({found['episodes']} episodes{how})"]))
        for name, judged in found["verdict"].items():
            cost, plain = found["discounted_cost"][name], found["undiscounted_cost"][name]
            rows.append(_cost(name, cost, None if name in sums else plain, found["cost_limit"][name], judged))
    return rows


def _sums(summary: Summary) -> set[str]:
    """The costs with a discount of 1, which have no other sum."""
    return {name for name, discount in summary.get("cost_discount", {}).items() if discount == 1}


def _cost(name: str, cost: float, plain: float | None, limit: float, judged: str) -> Row:
    shown = against(cost, limit)
    said = (judged, VERDICTS.get(judged, shown.style))
    other = "" if plain is None else f"   (undiscounted {number(plain)})"
    return "", [f"cost {name} ", shown, f", limit {number(limit)}: ", said, other]
