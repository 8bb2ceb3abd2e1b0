"""`focops tasks` and `focops algos`: what comes with the library."""

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


def no_arguments(command: str, words: list[str]) -> None:
    """Refuse them, but for --help."""
    if {"-h", "--help"} & set(words):
        print(f"usage: focops {command}")
        raise SystemExit(0)
    if words:
        raise UsageError(f"unknown argument {words[0]!r}; `focops {command}` takes none")
