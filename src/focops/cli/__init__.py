"""The command line. A command is a line in `COMMANDS` and a function that takes its words and returns its status.

Nothing heavy is imported before it is needed: the help and a misspelt command answer at once.
"""

import difflib
import importlib
import io
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from focops.display.say import say
from focops.errors import RunError, UsageError

FAILED, USAGE = 1, 2
_BROKEN_PIPE = 13  # SIGPIPE, which Windows does not name
COMMANDS = {
    "train": ("[TASK]", "train a policy; HalfCheetahSpeed if no task is named", "train_commands:train"),
    "resume": ("RUN", "resume a run from its last checkpoint", "train_commands:resume"),
    "evaluate": ("RUN", "run its policy on unseen episodes: intervals, verdicts", "evaluate_command:evaluate"),
    "record": ("RUN", "a video of its policy, with return and costs", "record_command:record"),
    "export": ("RUN FILE", "its policy as an ONNX graph, or as a Python file", "export_command:export"),
    "study": ("NAME", "all runs of a study, of the paper's or your own", "study_runs:study"),
    "studies": ("", "the studies that come with focops", "study_runs:studies"),
    "tune": ("[TASK]", "search hyper-parameters under the constraints", "tune_command:tune"),
    "plot": ("RUN ...", "draw runs, also in progress, and compare them", "study_commands:plot"),
    "report": ("DIR", "a study as one HTML page, with figures and tables", "study_commands:make_report"),
    "card": ("RUN", "a model card for Hugging Face, and its upload", "card_command:card"),
    "solve": ("FILE", "the exact optimum of a small problem in JSON", "solve_command:solve"),
    "zoo": ("", "the trained policies that come with focops", "list_commands:zoo"),
    "tasks": ("", "the tasks that come with focops", "list_commands:tasks"),
    "algos": ("", "the algorithms", "list_commands:algos"),
    "completion": ("SHELL", "tab completion for bash, zsh or fish", "completion_command:completion"),
}
"""Each command: what it takes, what it does, and the function (of a module here) that runs it."""


def help_text() -> str:
    """What `focops --help` prints."""
    rows = [f"  {f'focops {name} {takes}':<25}{does}" for name, (takes, does, _) in COMMANDS.items()]
    return "\n".join(
        [
            "focops: constrained reinforcement learning that keeps its costs within their limits",
            "",
            *rows,
            "",
            "`focops train --help` lists every hyper-parameter. Start with:  focops train --steps 200k\n",
        ]
    )


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
            return 128 + _BROKEN_PIPE
        return stop.code if isinstance(stop.code, int) else USAGE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:
        if error.filename is not None:  # not of standard output
            raise
        sys.stdout = None  # or Python reports the closed pipe again at exit
        if isinstance(error, BrokenPipeError):  # `focops tasks | head`: the reader has closed the pipe
            return 128 + _BROKEN_PIPE
        say("error:", f"standard output cannot be written to: {error.strerror}", "bold red")
        return FAILED


def _run(command: str, words: list[str]) -> int:
    if command in ("-h", "--help", "help"):
        print(help_text(), end="")
        return 0
    if command == "--version":
        print(f"focops {metadata.version('focops')}")
        return 0
    if command not in COMMANDS:
        close = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f"did you mean `focops {close[0]}`?" if close else f"there are: {', '.join(COMMANDS)}"
        raise UsageError(f"unknown command {command!r}; {hint}")
    module, function = COMMANDS[command][-1].split(":")
    return getattr(importlib.import_module(f"focops.cli.{module}"), function)(words)


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
