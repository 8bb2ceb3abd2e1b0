"""`focops tune`: search hyper-parameters under the task's constraints, resume a search, and say what won."""

import contextlib
import dataclasses
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from focops.cli import arguments, commands, grid_runs, tune_options
from focops.cli.arguments import ResumeOptions
from focops.cli.signals import stop_on_signals, while_heard
from focops.cli.tune_options import TuneOptions
from focops.cli.tune_trials import Plan, Trials
from focops.display.numbers import number
from focops.display.say import say
from focops.display.search import best_table, choose_display
from focops.errors import RunError, UsageError
from focops.runs.files import resume_command, write_json
from focops.runs.lock import Lock
from focops.tuning import search as searching
from focops.tuning.search import Search, Trial

FILE = "tune.json"
"""What a directory's search is."""
_SHOWN = 10
"""Trials in the table at the end."""


def tune(words: list[str]) -> int:
    """`focops tune`: its exit status."""
    options, plan, start = tune_options.parse(words)
    how = ResumeOptions(
        plan.base, quiet=options.quiet, jobs=options.jobs, engine=options.engine, address=options.address
    )
    arguments.check_engine(how)
    searching.imported_optuna()  # before there is a directory
    with _held(plan.base, _identity(plan, options), options.trials):
        return _run(plan, Search(plan.base, plan.space, options.search_seed, start), how)


def resume(options: ResumeOptions) -> int:
    """`focops resume` of a search: its exit status."""
    base = options.run
    if options.steps or options.changes or options.env_workers is not None or options.env_python:
        raise UsageError(
            f"{base} holds a search, whose trials stay comparable: leave out --steps, --algo and --env flags"
        )
    try:
        found = json.loads((base / FILE).read_bytes())
        words = [*shlex.split(found["command"])[2:], "--search", *found["search"], "--seeds", found["seeds"]]
        words += ["--search-seed", str(found["search_seed"]), "--trials", str(found["trials"])]
        words += ["--no-prune"] * (found["prune"] is False) + ["--wandb"] * options.wandb
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{base / FILE} is damaged: {error}; give the `focops tune` command again") from None
    words += ["--out", str(base), "--jobs", str(options.jobs), *["--quiet"] * options.quiet]
    return tune([*words, *shlex.split(grid_runs.engine_flags(options))])


def _identity(plan: Plan, options: TuneOptions) -> dict[str, Any]:
    """What two searches that share a directory must have in common."""
    return {
        "command": commands.train(dataclasses.replace(plan.config, out=None)),
        "search": [f"{name}={values}" for name, values in plan.space.items()],
        "seeds": ",".join(map(str, plan.seeds)),
        "search_seed": options.search_seed,
        "prune": plan.prune,
    }


@contextlib.contextmanager
def _held(base: Path, identity: dict[str, Any], trials: int) -> Iterator[None]:
    """The directory, locked; another search's, or one with something else in it, is refused."""
    held = None
    try:
        _require_same(base, identity)
        (base / "trials").mkdir(parents=True, exist_ok=True)
        held = Lock(base / ".lock")
        write_json(base / FILE, identity | {"trials": trials})
        yield
    except BrokenPipeError:  # of standard output
        raise
    except OSError as error:
        raise RunError(
            f"cannot write in {base}: {error.strerror or error}. Mend that, then resume:  {resume_command(base)}"
        ) from error
    finally:
        if held is not None:
            held.release()


def _require_same(base: Path, identity: dict[str, Any]) -> None:
    if not (base / FILE).is_file():
        if base.exists() and (not base.is_dir() or any(base.iterdir())):
            raise UsageError(f"{base} holds something else than a search; choose another --out")
        return
    try:
        before = dict(json.loads((base / FILE).read_bytes()))
    except (ValueError, TypeError) as error:
        raise UsageError(f"{base / FILE} is damaged: {error}; choose another --out") from None
    for name, now in identity.items():
        if before.get(name) != now:
            raise UsageError(
                f"{base} holds another search: its {name.replace('_', ' ')} is {_shown(before.get(name))}, and not"
                f" {_shown(now)}; `{resume_command(base)}` resumes it, or choose another --out"
            )


def _shown(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


def _run(plan: Plan, search: Search, how: ResumeOptions) -> int:
    engine = grid_runs.engines_for(how)["cpu"]
    shown = choose_display(plan.base, plan.trials, lambda: _ranked(search.trials), how.quiet)
    with stop_on_signals(engine.kill) as stopped, while_heard(shown, stopped) as display:
        trials = Trials(plan, search, display, stopped)
        if first := trials.first():
            engine.run(first, trials)
    _conclude(plan, search)
    again = f"Resume:  {resume_command(plan.base)}{grid_runs.engine_flags(how)}"
    if stopped:
        say("stopped.", again)
        return 128 + stopped[0]
    if trials.gave_up:
        say("failed:", f"{trials.failures} trials in a row; the last one: {trials.error}", "bold red")
    if trials.gave_up or trials.active:
        say("stopped", f"before all trials had ended. {again}")
        return 1
    return 0 if searching.best(search.trials) else 1


def _ranked(trials: list[Trial]) -> list[Trial]:
    """All, the best first."""
    best = searching.best(trials)
    return [*best, *(trial for trial in trials if trial not in best)]


def _conclude(plan: Plan, search: Search) -> None:
    """Print the best trials and the command of the best, and write it."""
    best = searching.best(search.trials)
    if not best or best[0].outcome is None:
        print("no trial has been trained to its end")
        return
    first, found = best[0], best[0].outcome
    config = plan.configs(first.values)[0]
    command = commands.train(config)
    Console(highlight=False, width=None if sys.stdout.isatty() else 200).print(best_table(best, _SHOWN))
    told = {
        "trial": first.number, "feasible": found.worst == 0, "return": found.reward, "cost": found.costs,
        "cost_limit": found.limits, "settings": first.values, "command": command,
        "runs": [str(path) for path in plan.paths(first)],
    }  # fmt: skip
    write_json(plan.base / "best.json", told)
    if found.worst > 0:
        over = ", ".join(
            f"{name} is {number(found.costs[name])} for a limit of {number(found.limits[name])}"
            for name, excess in found.excess.items()
            if excess > 0
        )
        say("warning:", f"no trial kept its limits. The nearest is trial {first.number}: {over}")
    print(f"trial {first.number}, also in {plan.base / 'best.json'}:\n{command}")
