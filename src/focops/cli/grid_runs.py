"""Grids on the disk: grid.json describes every run, so that the grid can be resumed by any engine."""

import dataclasses
import functools
import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from focops.cli import arguments, engines, grid
from focops.cli.arguments import Options, ResumeOptions
from focops.cli.engines import Engine, Job
from focops.config import Backend, TrainConfig
from focops.errors import UsageError
from focops.runs.directory import RunDirectory
from focops.runs.files import resume_command, write_json
from focops.runs.paths import default_path

_NOT_PASSED_ON = ("--out", "--jobs", "--quiet")


def train(runs: Sequence[tuple[str, Options, Sequence[str]]]) -> int:
    """Train every (name, options, words), all checked before the first starts; the exit status."""
    first = runs[0][1]
    base = first.config.out or default_path(first.config, "grid")
    if (base / "grid.json").exists():
        raise UsageError(f"{base} holds a grid; `{resume_command(base)}` resumes it, or choose another --out")
    if len({options.config.backend for _, options, _ in runs}) > 1:
        raise UsageError("--backend is cpu and mjx in one grid; give one of them, and make another grid of the other")
    for name, options, _ in runs:
        check(base, name, options)
    jobs = [_new_job(base, name, words, options.config) for name, options, words in runs]
    write(base, {job.name: job.words for job in jobs})
    how = ResumeOptions(base, jobs=first.jobs, sinks=first.sinks)
    return engines.run(base, jobs, engines_for(how), first.quiet, _again(how))


def parse(words: Sequence[str]) -> Options:
    """The options of a run. Those of a grid are parsed once for all seeds, which takes a tenth of the time."""
    found = grid.split(words)
    seed = grid.value_of(found, "--seed", "")
    if not seed.isdecimal():  # none, or one that is refused
        return arguments.parse(words)
    alike = _parsed(tuple(word.text for word in found if word.owner != "--seed" and word.text != "--seed"))
    return dataclasses.replace(alike, config=dataclasses.replace(alike.config, seed=int(seed)))


_parsed = functools.lru_cache(arguments.parse)


def check(base: Path, name: str, options: Options) -> None:
    """Refuse a run that cannot be trained in `base`, by its name."""
    try:
        arguments.check(dataclasses.replace(options, config=dataclasses.replace(options.config, out=base / name)))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def write(base: Path, runs: dict[str, list[str]]) -> None:
    """grid.json: each run's name and words."""
    try:
        base.mkdir(parents=True, exist_ok=True)
        write_json(base / "grid.json", {"runs": [{"name": name, "words": words} for name, words in runs.items()]})
    except OSError as error:
        raise UsageError(f"cannot write in {base}: {error.strerror}; choose another --out") from error


def read(base: Path) -> dict[str, list[str]]:
    """The runs of grid.json: name and words. The file is checked: it may come from anywhere."""
    file = base / "grid.json"
    try:
        runs = json.loads(file.read_text())["runs"]
        return {_checked_name(base, run["name"]): _checked_words(run["name"], run["words"]) for run in runs}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file} is damaged: {error}; resume its runs one by one") from None


def resume(options: ResumeOptions, only: Collection[str] | None = None, again: str = "") -> int:
    """Resume the grid's runs that are not finished, or only those of some names; the exit status. `again` is the
    command that resumes them, if it is another one."""
    base = options.run
    described = {name: words for name, words in read(base).items() if only is None or name in only}
    jobs = [described_job(base, name, words, options) for name, words in described.items()]
    return engines.run(base, jobs, engines_for(options), options.quiet, again or _again(options))


def engine_flags(options: ResumeOptions) -> str:
    """Those that go on by the same engine."""
    return " --engine ray" * (options.engine == "ray") + f" --address {options.address}" * bool(options.address)


def _again(options: ResumeOptions) -> str:
    """The command that resumes the grid."""
    return resume_command(options.run) + engine_flags(options) + f" --jobs {options.jobs}" * bool(options.jobs)


def engines_for(options: ResumeOptions) -> dict[Backend, Engine]:
    from focops.cli.engines.gpu import Gpu
    from focops.cli.engines.local import Local
    from focops.cli.engines.programs import Programs

    gpu = Programs(options) if options.jobs > 1 else Gpu(options.sinks, options.steps, options.changes)
    if options.engine == "ray":
        from focops.cli.engines.ray_cluster import RayCluster

        return {"cpu": RayCluster(options.address), "mjx": gpu}
    return {"cpu": Local(options.jobs), "mjx": gpu}


def _new_job(base: Path, name: str, words: Sequence[str], config: TrainConfig) -> Job:
    return Job(
        name, base / name, _train_words(words, base / name), f"{config.task} · {config.algorithm}", config.steps,
        _cores(config), config.backend, dataclasses.replace(config, out=base / name),
    )  # fmt: skip


def described_job(base: Path, name: str, words: list[str], options: ResumeOptions) -> Job:
    """A run as grid.json describes it, to be trained in `base`, or to go on there."""
    run = RunDirectory(base / name)
    if not run.config_file.is_file():
        words = [*words[1:], *_extra_words(options)]
        return _new_job(base, name, words, parse(words).config)
    job = Job(name, run.path, ["resume", str(run.path), "--quiet", *_extra_words(options)])
    try:
        config = run.config
        job.what, job.backend = f"{config.task} · {config.algorithm}", config.backend
        job.steps, job.cores = options.steps or config.steps, max(_cores(config), options.env_workers or 0)
        job.state = "done" if run.is_complete(options.steps) else "waiting"
    except UsageError as error:  # the others can go on
        job.state, job.error = "failed", str(error)
    return job


def _extra_words(options: ResumeOptions) -> list[str]:
    """What is asked of every run."""
    extra = ["--wandb"] * options.wandb + (["--steps", str(options.steps)] if options.steps else [])
    extra += [] if options.env_workers is None else ["--env-workers", str(options.env_workers)]
    extra += [] if options.env_python is None else ["--env-python", str(options.env_python.absolute())]
    return extra + [word for name, value in options.changes.items() for word in (f"--algo.{name}", value)]


def _cores(config: TrainConfig) -> int:
    """How many a run asks for; 0 for all."""
    return max(config.threads, config.env_workers or 1) if config.threads else 0


def _train_words(words: Sequence[str], directory: Path) -> list[str]:
    passed_on = [w for w in grid.split(words) if w.owner not in _NOT_PASSED_ON and w.text not in _NOT_PASSED_ON]
    paths = ("--from", "--env-python")
    texts = [os.path.abspath(w.text) if w.owner in paths else w.text for w in passed_on]  # resumed from anywhere
    return ["train", *texts, "--out", str(directory), "--quiet"]


def _checked_name(base: Path, name: Any) -> str:
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"the name {name!r} is not that of a folder in {base}")
    if (base / name).is_symlink():
        raise ValueError(f"{base / name} is a symbolic link, which is not followed")
    return name


def _checked_words(name: str, words: Any) -> list[str]:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words) or words[:1] != ["train"]:
        raise ValueError(f"the words of {name} are not a `train` command")
    return words
