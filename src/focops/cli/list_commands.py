"""`focops tasks`, `focops algos` and `focops zoo`: what comes with the library."""

import json
import sys

from rich.console import Console
from rich.table import Table

from focops.errors import UsageError


def tasks(words: list[str]) -> int:
    """`focops tasks`: the tasks that come with the library."""
    no_arguments("tasks", words)
    from focops.envs.tasks import TASKS

    table = Table("task", "constraint", "limit", "discount", "episode", box=None, header_style="dim", pad_edge=False)
    for task in TASKS.values():
        for constraint in task.constraints:
            limit, discount = f"{constraint.limit:g}", f"{constraint.discount:g}"
            table.add_row(task.name, constraint.name, limit, discount, f"{task.time_limit} steps")
    Console(highlight=False).print(table)
    print("\nAny Gymnasium environment trains as well, by id or class:  focops train module:Name --cost-limit B")
    return 0


def algos(words: list[str]) -> int:
    """`focops algos`: each algorithm, what kind it is, and where it comes from."""
    no_arguments("algos", words)
    from focops.algorithms import ALGORITHMS
    from focops.core.description import NO_DESCRIPTION

    table = Table(
        "algorithm", "order", "multiplier", "guarantees", "reference", box=None, header_style="dim", pad_edge=False
    )
    for name, module in ALGORITHMS.items():
        table.add_row(name, *getattr(module, "DESCRIPTION", NO_DESCRIPTION))
    # a pipe has no width: keep each algorithm on one line there
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)
    return 0


def zoo(words: list[str]) -> int:
    """`focops zoo`: each trained policy, and what the evaluation in its card found with sampled actions."""
    no_arguments("zoo", words)
    from focops import zoo
    from focops.display.numbers import number
    from focops.display.summary import verdicts

    columns = ("policy", "reward", "constraint", "J_C", "limit", "sampled / mean action")
    table = Table(*columns, box=None, header_style="dim", pad_edge=False)
    for name in zoo.names():
        summary = json.loads((zoo.HOME / name / "summary.json").read_bytes())
        found = summary["policy"]["sampled"]
        for cost, limit in found["cost_limit"].items():
            j_c = number(found["discounted_cost"][cost])
            table.add_row(f"zoo:{name}", number(found["reward"]), cost, j_c, number(limit), verdicts(summary))
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)
    print('\nIn Python:  policy = focops.load("zoo:NAME")    On unseen episodes:  focops evaluate zoo:NAME')
    return 0


def no_arguments(command: str, words: list[str]) -> None:
    """Refuse them, but for --help."""
    if {"-h", "--help"} & set(words):
        print(f"usage: focops {command}")
        raise SystemExit(0)
    if words:
        raise UsageError(f"unknown argument {words[0]!r}; `focops {command}` takes none")
