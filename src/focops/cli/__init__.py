"""The command line: `focops train`, `focops resume`, `focops evaluate`, `focops tasks`, `focops algos`.

Nothing heavy is imported before it is needed: the help and a misspelt command answer at once.
"""

import dataclasses
import difflib
import io
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import TYPE_CHECKING, Any

from focops.display.say import say
from focops.errors import RunError, UsageError

if TYPE_CHECKING:
    from focops.config import TrainConfig

FAILED, USAGE = 1, 2
_EVALUATION_OPTIONS = ("deterministic", "confidence", "threads", "backend", "env_workers", "env_python")
_HELP = """\
focops: constrained reinforcement learning that keeps its costs within their limits

  focops train [TASK]      train a policy; HalfCheetahSpeed if no task is named
  focops resume RUN        go on with a run from its last checkpoint
  focops evaluate RUN      run its policy on unseen episodes: intervals, verdicts;
                           of a grid: all its runs
  focops study NAME        all runs of a study, of the paper's or your own
  focops studies           the studies that come with focops
  focops plot RUN ...      draw runs, also in progress, and compare them
  focops report DIR        a study as one HTML page, with figures and tables
  focops solve FILE        the exact optimum of a small problem in JSON
  focops tasks             the tasks that come with focops
  focops algos             the algorithms

`focops train --help` lists every hyper-parameter. Start with:  focops train --steps 200k
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 done, 1 failed, 2 wrong usage, 128 + n stopped by signal n."""
    words = list(sys.argv[1:] if argv is None else argv)
    command, rest = (words[0], words[1:]) if words else ("--help", [])
    if "" not in sys.path:  # a console script, unlike `python -m`, does not look for my_module:Id-v0 where it is called
        sys.path.insert(0, "")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # Greek letters where the encoding is ASCII
    try:
        with _plain_warnings():
            status = _run(command, rest)
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a failure has a message
        return status
    except UsageError as error:
        say("error:", str(error), "bold red")
        return FAILED if isinstance(error, RunError) else USAGE
    except SystemExit as stop:  # tyro has printed its help or an error, or Rich's pipe is closed
        if isinstance(stop.__context__, BrokenPipeError):
            return 128 + signal.SIGPIPE
        return stop.code if isinstance(stop.code, int) else USAGE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:
        if error.filename is not None:  # not of standard output
            raise
        sys.stdout = None  # or Python reports the closed pipe again at exit
        if isinstance(error, BrokenPipeError):  # `focops tasks | head`: the reader has closed the pipe
            return 128 + signal.SIGPIPE
        say("error:", f"standard output cannot be written to: {error.strerror}", "bold red")
        return FAILED


def _run(command: str, words: list[str]) -> int:
    if command in ("-h", "--help", "help"):
        print(_HELP, end="")
        return 0
    if command == "--version":
        print(f"focops {metadata.version('focops')}")
        return 0
    if command not in _COMMANDS:
        close = difflib.get_close_matches(command, _COMMANDS, n=1)
        hint = f"did you mean `focops {close[0]}`?" if close else f"there are: {', '.join(_COMMANDS)}"
        raise UsageError(f"unknown command {command!r}; {hint}")
    return _COMMANDS[command](words)


def train(words: list[str]) -> int:
    """`focops train`: one run, or a grid of them."""
    from focops.cli import arguments, grid

    points = [] if {"-h", "--help"} & set(words) else grid.expand(grid.split(words))
    if points:
        from focops.cli import processes

        return processes.train([(point.name, arguments.parse(point.words), point.words) for point in points])
    options = arguments.parse(words)
    arguments.check(options)
    from focops import api as runs
    from focops.cli.signals import stop_on_signals, while_heard
    from focops.display.progress import choose_display

    with stop_on_signals() as stopped:
        display = while_heard(choose_display(options.quiet), stopped)
        result = runs.run(options.config, display=display, sinks=options.sinks, should_stop=lambda: bool(stopped))
    return _finish(result.summary, options.config, stopped, options.quiet)


def resume(words: list[str]) -> int:
    """`focops resume`: one run, or all of a grid."""
    from focops.cli import arguments, commands

    options = arguments.parse_resume(words)
    if (options.run / "grid.json").is_file():
        from focops.cli import processes

        return processes.resume(options)
    from focops import api as runs
    from focops.cli.signals import stop_on_signals, while_heard
    from focops.display.progress import choose_display
    from focops.runs.directory import RunDirectory

    directory = RunDirectory.open(options.run, lock=False)
    for change in directory.changed_versions(options.env_python):
        say("warning:", f"{change}; the run goes on, but its numbers may differ from now on")
    was_finished = directory.is_finished(options.steps)
    with stop_on_signals() as stopped:
        display = while_heard(choose_display(options.quiet), stopped)
        result = runs.resume(
            options.run, steps=options.steps, display=display, sinks=options.sinks, should_stop=lambda: bool(stopped),
            changes=options.changes, env_workers=options.env_workers, env_python=options.env_python,
        )  # fmt: skip
    if was_finished and options.quiet:
        done = result.summary["steps"]
        print(f"{options.run} is finished at {done} samples. Train on with:  {commands.resume(options.run, 2 * done)}")
    return _finish(result.summary, directory.config, stopped, options.quiet)


def evaluate(words: list[str]) -> int:
    """`focops evaluate`: policies on unseen episodes, as a table and as JSON."""
    from focops.cli import arguments, grid

    options = arguments.parse_evaluate(words)
    from rich.console import Console

    from focops import evaluation
    from focops.cli import evaluation_table
    from focops.runs.directory import RunDirectory
    from focops.runs.policy_file import load, mean_action_outside

    how: dict[str, Any] = {"episodes": options.episodes, "seeds": grid.seeds(options.seeds)}
    if options.protocol is not None:
        how = evaluation.PROTOCOLS[options.protocol]
    how |= {name: getattr(options, name) for name in _EVALUATION_OPTIONS}
    first, *others = options.runs
    file = options.json or (None if others else first / "evaluation.json")
    known = ""
    if others or not RunDirectory(first).config_file.is_file():
        results = evaluation.evaluate_all(options.runs, **how)
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


def plot(words: list[str]) -> int:
    """`focops plot`: curves and a table of any runs."""
    from focops.cli import study_commands

    return study_commands.plot(words)


def report(words: list[str]) -> int:
    """`focops report`: a study as one page."""
    from focops.cli import study_commands

    return study_commands.make_report(words)


def solve(words: list[str]) -> int:
    """`focops solve`: a finite CMDP, exactly."""
    from focops.tabular import command

    return command.solve(words)


def study(words: list[str]) -> int:
    """`focops study`: all runs of a study."""
    from focops.cli import study_runs

    return study_runs.study(words)


def studies(words: list[str]) -> int:
    """`focops studies`: the studies that come with the library."""
    from focops.cli import study_runs

    return study_runs.studies(words)


def tasks(words: list[str]) -> int:
    """`focops tasks`: the tasks that come with the library."""
    _no_arguments("tasks", words)
    from rich.console import Console
    from rich.table import Table

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
    _no_arguments("algos", words)
    from rich.console import Console
    from rich.table import Table

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


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": train,
    "resume": resume,
    "evaluate": evaluate,
    "study": study,
    "studies": studies,
    "plot": plot,
    "report": report,
    "solve": solve,
    "tasks": tasks,
    "algos": algos,
}


def _finish(summary: dict[str, Any], config: "TrainConfig", stopped: list[int], quiet: bool) -> int:
    """Print the result and the commands that can follow."""
    from rich.console import Console

    from focops.cli import commands
    from focops.display.summary import NO_EPISODES, policy_line, summary_text
    from focops.runs.directory import PENDING
    from focops.runs.files import resume_command

    interrupted = bool(stopped) and not summary["finished"]
    if interrupted:
        saved_steps = summary.get("checkpoint_steps", summary["steps"])
        where = f"at {summary['steps']} samples, with a checkpoint of {saved_steps}"
        say("stopped", f"{where}. Go on with:  {resume_command(summary['out'])}")
        return 128 + stopped[0]
    if quiet and summary.get("not_evaluated", NO_EPISODES) != NO_EPISODES:
        print(policy_line(summary))
    if not quiet:
        out = summary["out"]
        following = [commands.evaluate(out), commands.resume(out, 2 * summary["steps"])]
        following.append(commands.train(dataclasses.replace(config, seed=config.seed + 1)))
        Console(highlight=False).print(summary_text(summary, following), soft_wrap=True)
    if stopped and summary.get("not_evaluated") == PENDING:
        say("stopped", f"before the policy was evaluated. Make up for it with:  {resume_command(summary['out'])}")
        return 128 + stopped[0]
    return 0


def _no_arguments(command: str, words: list[str]) -> None:
    if {"-h", "--help"} & set(words):
        print(_HELP, end="")
        raise SystemExit(0)
    if words:
        raise UsageError(f"unknown argument {words[0]!r}; `focops {command}` takes none")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings as messages, without the line of code that gave them."""
    show = warnings.showwarning

    def show_plainly(message: Warning | str, category: type[Warning], *args: Any) -> None:
        if issubclass(category, UserWarning):
            say("warning:", str(message))
        else:
            show(message, category, *args)

    warnings.showwarning = show_plainly
    try:
        yield
    finally:
        warnings.showwarning = show
