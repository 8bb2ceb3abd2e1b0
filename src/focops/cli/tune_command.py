"""`focops tune`: search hyper-parameters under the task's constraints, go on with a search, and say what won."""

import contextlib
import dataclasses
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from focops.algorithms import is_constrained
from focops.cli import arguments, commands, grid, grid_runs
from focops.cli.arguments import Address, Count, Options, ResumeOptions
from focops.config import DEFAULT_TASK
from focops.display.say import say
from focops.errors import RunError, UsageError
from focops.runs.files import resume_command, write_json
from focops.runs.lock import Lock
from focops.runs.paths import out_path
from focops.tuning import search as searching
from focops.tuning import space as spaces
from focops.tuning.search import Search, Trial

FILE = "tune.json"
"""What a directory's search is."""
_SHOWN = 10
"""Trials in the table at the end."""


@dataclass(frozen=True)
class TuneOptions:
    """Search hyper-parameters: of the settings whose policy keeps its limits, the one with the highest return.

    Every flag of `focops train` is taken too, for all trials; a value that is searched is where the search starts.
    Trials are ordinary runs in DIR/trials. The same command goes on with a search that was stopped.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[TASK]")] = DEFAULT_TASK
    """One of `focops tasks`, or an environment, as for `focops train`."""
    trials: Annotated[Count, tyro.conf.arg(metavar="N")] = 30
    """Settings to try in all."""
    search: Annotated[
        tuple[str, ...],
        tyro.conf.arg(metavar="NAME=VALUES ...", help_behavior_hint="(default: what usually matters)"),
    ] = ()
    """What to search: algo.temperature=0.3..10:log is a range on a logarithmic scale, algo.nu-lead=0..20 a linear one,
    algo.minibatch-size=64,128,256 a list."""
    seeds: Annotated[str, tyro.conf.arg(metavar="SEEDS", help_behavior_hint="(default: --seed)")] = ""
    """Seeds of each trial's runs, as 0..1 or 0,2,5: it is judged by their mean."""
    search_seed: int = 0
    """Seed of what is proposed. With --jobs 1 the same trials are proposed again."""
    no_prune: tyro.conf.FlagCreatePairsOff[bool] = False
    """Train every trial to its end, also one that falls behind."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/tune-TASK-ALGO)")] = (
        None
    )
    """The search's directory."""
    engine: Literal["local", "ray"] = "local"
    """What trains: processes of this machine, or a Ray cluster."""
    address: Address = None
    """The Ray cluster."""
    jobs: int = 0
    """Runs at once on this machine; 0: one per core."""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print a line for each trial, also in a terminal."""


_SWITCHES = ("--no-prune", "--quiet", "--help", "-h")
_OWN = {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(TuneOptions)} - {"--task"} | set(_SWITCHES)


def tune(words: list[str]) -> int:
    """`focops tune`: its exit status."""
    own, rest = _split(words)
    options = tyro.cli(TuneOptions, args=own, prog="focops tune")
    out_path(grid.value_of(grid.split(words), "--out", "default"))
    if "--search" in words and not options.search:
        raise UsageError("--search has no values; leave it out to search what usually matters, or say what")
    given = arguments.parse(_one_setting(rest))
    plan = _plan(options, given)
    how = ResumeOptions(
        plan.base, engine=options.engine, address=options.address, jobs=options.jobs, quiet=options.quiet
    )
    arguments.check_engine(how)
    _require(options, given, plan)
    start = spaces.start(plan.space, plan.config, lambda name: grid.Word(f"--{name}", None) in grid.split(rest))
    with _held(plan.base, _identity(plan, options), options) as base:
        search = Search(base, plan.space, options.search_seed, start)
        return _run(plan, search, how)


def resume(options: ResumeOptions) -> int:
    """`focops resume` of a search: its exit status."""
    base = options.run
    if options.steps is not None or options.changes:
        raise UsageError(f"{base} holds a search, whose trials stay comparable: leave out --steps and --algo…")
    try:
        found = json.loads((base / FILE).read_bytes())
        words = [*shlex.split(found["command"])[2:], "--search", *found["search"], "--seeds", found["seeds"]]
        words += ["--search-seed", str(found["search_seed"]), "--trials", str(found["trials"])]
        words += ["--no-prune"] * (found["prune"] is False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{base / FILE} is damaged: {error}; give the `focops tune` command again") from None
    words += ["--out", str(base), "--jobs", str(options.jobs), *["--quiet"] * options.quiet]
    return tune([*words, *shlex.split(grid_runs.engine_flags(options))])


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of `focops tune` itself, and those that it shares with `focops train`; the task is among both."""
    own: list[str] = []
    rest: list[str] = []
    flag, wants = "", False
    for word in words:
        if word.startswith("--") or word in _SWITCHES:
            name, equals, _ = word.partition("=")
            flag = name.replace("_", "-")
            wants = flag == "--search" or not (equals or flag in _SWITCHES)
            (own if flag in _OWN else rest).append(word if not equals else f"{flag}={word.partition('=')[2]}")
        elif flag in _OWN and wants and (own[-1] == flag or "=" in word):
            own.append(word)
            wants = flag == "--search"
        else:
            rest.append(word)
    tasks = [word.text for word in grid.split(rest) if word.owner == grid.TASK]
    return [*tasks, *own], rest


def _one_setting(words: list[str]) -> list[str]:
    """Refuse a grid."""
    for word in grid.split(words):
        if word.owner not in (None, grid.TASK) and grid.expand([grid.Word(str(word.owner), None), word]):
            flag = str(word.owner)
            way_out = "--seeds" if flag == "--seed" else f"--search {flag.removeprefix('--')}={word.text}"
            raise UsageError(f"{flag} is {word.text}, several values, which a search takes as {way_out}")
    return words


def _require(options: TuneOptions, given: Options, plan: Any) -> None:
    if options.trials < 1:
        raise UsageError(f"--trials is {options.trials}; it must be a whole number ≥ 1")
    if options.search_seed < 0:
        raise UsageError(f"--search-seed is {options.search_seed}; it must be a whole number ≥ 0")
    if given.config.backend != "cpu":
        raise UsageError(f"--backend is {given.config.backend}; a search trains on the cpu. Leave --backend out")
    if given.config.final_episodes == 0:
        raise UsageError("--final-episodes is 0; it must be ≥ 2 here: trials are judged by their policy's evaluation")
    arguments.check(dataclasses.replace(given, config=spaces.a_point(plan.space, plan.config)))
    spaces.require_runs(plan.space, plan.config)


def _plan(options: TuneOptions, given: Options) -> Any:
    from focops.cli.tune_trials import Plan

    config = given.config
    task = "".join(c if c.isalnum() or c in "-_." else "_" for c in config.task)
    base = options.out or Path("runs") / f"tune-{task}-{config.algorithm}"
    seeds = tuple(grid.seeds(options.seeds)) if options.seeds else (config.seed,)
    if len(set(seeds)) < len(seeds):
        raise UsageError(f"--seeds is {options.seeds}; it names a seed twice")
    if config.init_from is not None:
        config = dataclasses.replace(config, init_from=config.init_from.absolute())
    space = spaces.parse(options.search or spaces.default(config), config)
    if spaces.points(space) < options.trials:
        flags = " ".join(f"--{name} {values}" for name, values in space.items())
        raise UsageError(
            f"--search has {spaces.points(space)} settings, fewer than --trials {options.trials}: train them all, with "
            f" focops train {config.task} {flags}"
        )
    extra = ("--wandb",) * bool(given.sinks)
    return Plan(
        config, space, seeds, base, options.trials, not options.no_prune, is_constrained(config.algorithm), extra
    )


def _identity(plan: Any, options: TuneOptions) -> dict[str, Any]:
    """What two searches that share a directory must have in common."""
    return {
        "command": commands.train(dataclasses.replace(plan.config, out=None)),
        "search": [f"{name}={values}" for name, values in plan.space.items()],
        "seeds": ",".join(map(str, plan.seeds)),
        "search_seed": options.search_seed,
        "prune": plan.prune,
    }


@contextlib.contextmanager
def _held(base: Path, identity: dict[str, Any], options: TuneOptions) -> Iterator[Path]:
    """The directory, locked; another search's, or one with something else in it, is refused."""
    held = None
    try:
        before = json.loads((base / FILE).read_bytes()) if (base / FILE).is_file() else None
        if before is None and base.exists() and (not base.is_dir() or any(base.iterdir())):
            raise UsageError(f"{base} holds something else than a search; choose another --out")
        _require_same(base, before, identity)
        (base / "trials").mkdir(parents=True, exist_ok=True)
        held = Lock(base / ".lock")
        write_json(base / FILE, identity | {"trials": options.trials})
        yield base
    except ValueError as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{base / FILE} is damaged: {error}; choose another --out") from None
    except BrokenPipeError:  # of standard output
        raise
    except OSError as error:
        raise RunError(
            f"cannot write in {base}: {error.strerror or error}. Mend that, then go on with:  {resume_command(base)}"
        ) from error
    finally:
        if held is not None:
            held.release()


def _require_same(base: Path, before: Any, identity: dict[str, Any]) -> None:
    if before is None:
        return
    if not isinstance(before, dict):
        raise UsageError(f"{base / FILE} is damaged: it holds no JSON object; choose another --out")
    for name, now in identity.items():
        if before.get(name) != now:
            raise UsageError(
                f"{base} holds another search: its {name.replace('_', ' ')} is {_shown(before.get(name))}, and not"
                f" {_shown(now)}; `{resume_command(base)}` goes on with it, or choose another --out"
            )


def _shown(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


def _run(plan: Any, search: Search, how: ResumeOptions) -> int:
    from focops.cli.signals import stop_on_signals, while_heard
    from focops.cli.tune_trials import Trials
    from focops.display.search import choose_display

    engine = grid_runs.engines_for(how)["cpu"]
    shown = choose_display(plan.base, plan.trials, lambda: _ranked(search.trials), how.quiet)
    with stop_on_signals(engine.kill) as stopped, while_heard(shown, stopped) as display:
        trials = Trials(plan, search, display, stopped)
        if first := trials.first():
            engine.run(first, trials)
    _conclude(plan, search)
    again = f"Go on with:  {resume_command(plan.base)}{grid_runs.engine_flags(how)}"
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


def _conclude(plan: Any, search: Search) -> None:
    """Print the best trials and the command of the best, and write it."""
    import sys

    from rich.console import Console

    from focops.display.numbers import number
    from focops.display.search import best_table

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
