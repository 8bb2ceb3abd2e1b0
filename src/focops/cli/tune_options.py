"""What `focops tune` is asked to do: its own flags, and those that it shares with `focops train`."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from focops.algorithms import is_constrained
from focops.cli import arguments, grid
from focops.cli.arguments import Address, Count, Options
from focops.cli.tune_trials import Plan
from focops.config import DEFAULT_TASK
from focops.errors import UsageError
from focops.runs.paths import out_path
from focops.tuning import space as spaces


@dataclass(frozen=True)
class TuneOptions:
    """Search hyper-parameters: of the settings whose policy keeps its limits, the one with the highest return.

    Every flag of `focops train` is taken too, for all trials; a value that is searched is where the search starts.
    Trials are ordinary runs in DIR/trials. The same command resumes a search that was stopped.
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


def parse(words: Sequence[str]) -> tuple[TuneOptions, Plan, dict[str, Any] | None]:
    """The options, the plan, and where the search starts; whatever cannot work is refused."""
    own, rest = _split(words)
    options = tyro.cli(TuneOptions, args=own, prog="focops tune")
    _require(options, words)
    given = arguments.parse(_one_setting(rest))
    plan = _plan(options, given)
    arguments.check(dataclasses.replace(given, config=spaces.a_point(plan.space, plan.config)))
    spaces.require_runs(plan.space, plan.config)
    flags = {word.text for word in grid.split(rest) if word.owner is None}
    return options, plan, spaces.start(plan.space, plan.config, lambda name: f"--{name}" in flags)


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
            search = f"takes as --search {flag.removeprefix('--')}={word.text}"
            way_out = (
                "takes as --seeds" if flag == "--seed" else search if "." in flag else "does not take: run one of each"
            )
            raise UsageError(f"{flag} is {word.text}, several values, which a search {way_out}")
    return words


def _require(options: TuneOptions, words: Sequence[str]) -> None:
    out_path(grid.value_of(grid.split(words), "--out", "default"))
    if "--search" in words and not options.search:
        raise UsageError("--search has no values; leave it out to search what usually matters, or say what")
    if options.trials < 1:
        raise UsageError(f"--trials is {options.trials}; it must be a whole number ≥ 1")
    if options.search_seed < 0:
        raise UsageError(f"--search-seed is {options.search_seed}; it must be a whole number ≥ 0")


def _plan(options: TuneOptions, given: Options) -> Plan:
    config = given.config
    if config.backend != "cpu":
        raise UsageError(f"--backend is {config.backend}; a search trains on the cpu. Leave --backend out")
    if config.final_episodes == 0:
        raise UsageError("--final-episodes is 0; it must be ≥ 2 here: trials are judged by their policy's evaluation")
    task = "".join(c if c.isalnum() or c in "-_." else "_" for c in config.task)
    base = options.out or Path("runs") / f"tune-{task}-{config.algorithm}"
    seeds = tuple(grid.seeds(options.seeds)) if options.seeds else (config.seed,)
    if len(set(seeds)) < len(seeds):
        raise UsageError(f"--seeds is {options.seeds}; it names a seed twice")
    if config.init_from is not None:
        config = dataclasses.replace(config, init_from=config.init_from.absolute())
    space = spaces.parse(options.search or spaces.default(config), config)
    if spaces.points(space) < options.trials:
        flags = " ".join(f"--{name} {spaces.listed(values)}" for name, values in space.items())
        raise UsageError(
            f"--search has {spaces.points(space)} settings, fewer than --trials {options.trials}: train them all, with "
            f" focops train {config.task} {flags}"
        )
    return Plan(
        config, space, seeds, base, options.trials, prune=not options.no_prune,
        constrained=is_constrained(config.algorithm), wandb=bool(given.sinks),
    )  # fmt: skip
