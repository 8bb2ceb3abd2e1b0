"""`focops train` and `focops resume`: one run or a grid of them, and what is printed at its end."""

import dataclasses
from typing import Any

from focops.config import TrainConfig
from focops.display.say import say


def train(words: list[str]) -> int:
    """`focops train`: one run, or a grid of them."""
    from focops.cli import arguments, grid

    points = [] if {"-h", "--help"} & set(words) else grid.expand(grid.split(words))
    if points:
        from focops.cli import grid_runs

        return grid_runs.train([(point.name, grid_runs.parse(point.words), point.words) for point in points])
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
        from focops.cli import grid_runs

        return grid_runs.resume(options)
    if (options.run / "tune.json").is_file():
        from focops.cli import tune_command

        return tune_command.resume(options)
    from focops import api as runs
    from focops.cli.signals import stop_on_signals, while_heard
    from focops.display.progress import choose_display
    from focops.runs.directory import RunDirectory

    directory = RunDirectory.open(options.run, lock=False)
    for change in directory.changed_versions(options.env_python):
        say("warning:", f"{change}; the run continues, but its numbers may differ from now on")
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


def _finish(summary: dict[str, Any], config: TrainConfig, stopped: list[int], quiet: bool) -> int:
    """Print the result and the commands that can follow."""

    from focops.cli import commands
    from focops.display.summary import NO_EPISODES, policy_line, print_summary
    from focops.runs.directory import PENDING
    from focops.runs.files import resume_command

    interrupted = bool(stopped) and not summary["finished"]
    if interrupted:
        saved_steps = summary.get("checkpoint_steps", summary["steps"])
        where = f"at {summary['steps']} samples, with a checkpoint of {saved_steps}"
        say("stopped", f"{where}. Resume:  {resume_command(summary['out'])}")
        return 128 + stopped[0]
    if quiet and summary.get("not_evaluated", NO_EPISODES) != NO_EPISODES:
        print(policy_line(summary))
    if not quiet:
        out = summary["out"]
        following = [commands.evaluate(out), commands.resume(out, 2 * summary["steps"])]
        following.append(commands.train(dataclasses.replace(config, seed=config.seed + 1)))
        print_summary(summary, following)
    if stopped and summary.get("not_evaluated") == PENDING:
        say("stopped", f"before the policy was evaluated. Make up for it with:  {resume_command(summary['out'])}")
        return 128 + stopped[0]
    return 0
