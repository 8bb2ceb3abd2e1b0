"""A grid of runs on an accelerator: all runs that can share a program are trained as one."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from focops import api
from focops.cli import arguments
from focops.cli.arguments import Options, ResumeOptions
from focops.cli.signals import conclude, stop_on_signals, while_heard
from focops.config import TrainConfig
from focops.display.many_runs import choose_display, plural
from focops.display.progress import ManyDisplay
from focops.display.summary import shares
from focops.errors import RunError
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory
from focops.runs.files import held_in_place
from focops.runs.sinks import OpenSink

Train = Callable[[ManyDisplay, Callable[[], bool]], list[api.Run | RunError]]


def train(base: Path, configs: Sequence[TrainConfig], options: Options) -> int:
    """Train every config, program by program; the exit status."""
    from focops.training.device import sharing_key

    groups = _grouped(configs, sharing_key)
    jobs: list[tuple[int, Train]] = [(len(group), _trains(group, options.sinks)) for group in groups]
    return _run(base, jobs, options.quiet)


def resume(base: Path, runs: Mapping[Path, Sequence[str]], options: ResumeOptions) -> int:
    """Resume the runs (directory: command line) that are not finished; the exit status."""
    from focops.training.device import sharing_key

    begun, fresh = [], []
    for path, words in runs.items():
        directory = RunDirectory(path)
        if not directory.config_file.is_file():
            fresh.append(dataclasses.replace(arguments.parse(list(words)[1:]).config, out=path))
        elif not directory.is_complete(options.steps):
            begun.append(path)
    # those that are finished, and only not evaluated, apart from those that still have to be trained
    alike_in = lambda run: (run.is_finished(options.steps), sharing_key(run.config))
    groups = [
        alike for group in _grouped(begun, lambda path: alike_in(RunDirectory(path))) for alike in _in_step(group)
    ]
    jobs: list[tuple[int, Train]] = [(len(group), _resumes(group, options)) for group in groups]
    jobs += [(len(group), _trains(group, options.sinks)) for group in _grouped(fresh, sharing_key)]
    return _run(base, jobs, options.quiet)


def _trains(configs: Sequence[TrainConfig], sinks: Sequence[OpenSink]) -> Train:
    return lambda display, stop: api.run_all(configs, display=display, sinks=sinks, should_stop=stop)


def _resumes(paths: Sequence[Path], options: ResumeOptions) -> Train:
    return lambda display, stop: api.resume_all(
        paths, steps=options.steps, display=display, sinks=options.sinks, should_stop=stop, changes=options.changes
    )


def _run(base: Path, jobs: Sequence[tuple[int, Train]], quiet: bool) -> int:
    failed: list[RunError] = []
    summaries: list[dict[str, Any]] = []
    total = sum(number for number, _ in jobs)
    print(f"{plural(total, 'run')} in {plural(len(jobs), 'program')} → {base}", flush=True)
    with held_in_place(base) as require_in_place, stop_on_signals() as stopped:
        for i, (_, job) in enumerate(jobs):
            if not stopped:
                try:
                    require_in_place()
                except OSError as error:
                    raise RunError(f"{plural(len(jobs) - i, 'program')} not begun: {error.strerror}") from error
                display = while_heard(choose_display(i + 1, len(jobs), quiet), stopped)
                outcomes = job(display, lambda: bool(stopped))
                failed += [outcome for outcome in outcomes if isinstance(outcome, RunError)]
                summaries += [outcome.summary for outcome in outcomes if isinstance(outcome, api.Run)]
    if shares(summaries):
        print(shares(summaries), flush=True)
    return conclude(base, list(map(str, failed)), total, stopped)


def _grouped(items: Sequence[Any], key: Callable[[Any], Any]) -> list[list[Any]]:
    """Items grouped by key, in the order in which the keys first occur."""
    groups: list[tuple[Any, list[Any]]] = []
    for item in items:
        mine = key(item)
        group = next((group for known, group in groups if known == mine), None)
        if group is None:
            groups.append((mine, [item]))
        else:
            group.append(item)
    return [group for _, group in groups]


def _in_step(paths: Sequence[Path]) -> list[list[Path]]:
    """Groups of runs that have a checkpoint of the same iteration; runs that failed are behind the others."""
    groups: list[tuple[set[int], list[Path]]] = []
    for path in paths:
        mine = checkpoint.numbers(RunDirectory(path).checkpoints) or {0}
        for i, (common, group) in enumerate(groups):
            if common & mine:
                groups[i] = (common & mine, [*group, path])
                break
        else:
            groups.append((mine, [path]))
    return [group for _, group in groups]
