"""`focops evaluate`: policies on unseen episodes, as a table and as JSON."""

import sys
from typing import Any

from focops.display.say import say

_OPTIONS = ("deterministic", "confidence", "threads", "backend", "env_workers", "env_python")


def evaluate(words: list[str]) -> int:
    """`focops evaluate`: policies on unseen episodes, as a table and as JSON."""
    from focops.cli import evaluate_options, grid

    options = evaluate_options.parse(words)
    from rich.console import Console

    from focops import evaluation, zoo
    from focops.cli import evaluation_table
    from focops.display.counter import Counter
    from focops.runs.directory import RunDirectory
    from focops.runs.policy import mean_action_outside
    from focops.runs.policy_file import load

    how: dict[str, Any] = {"episodes": options.episodes, "seeds": grid.seeds(options.seeds)}
    if options.protocol is not None:
        how = evaluation.PROTOCOLS[options.protocol]
    how |= {name: getattr(options, name) for name in _OPTIONS}
    first, *others = options.runs
    file = options.json or (None if others or zoo.is_named(first) else first / "evaluation.json")
    known = ""
    if others or not RunDirectory(first).config_file.is_file():
        with Counter(f"evaluating {', '.join(map(str, options.runs))}", "runs") as counter:
            results = evaluation.evaluate_all(options.runs, progress=counter.update, **how)
        save, table = lambda to: evaluation.save_all(results, to), evaluation_table.many(results)
    else:
        result = evaluation.evaluate(first, **how)
        save, table = result.save, evaluation_table.one(result)
        known = "" if options.deterministic else mean_action_outside(load(first).evaluation)
    try:  # one may succeed where the other cannot be written
        if file is not None:
            save(file)
    finally:
        Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)
    if known:
        say("note:", f"{known}. --deterministic evaluates it")
    print(f"\nwritten to {file}" if file else "\nnot written to a file; --json FILE does that")
    return 0
