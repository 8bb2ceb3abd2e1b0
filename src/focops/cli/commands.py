"""The commands that a run suggests: complete, and quoted for a shell."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

from focops.cli.arguments import NOT_FLAGS, per_cost_words
from focops.config import TrainConfig, default_config
from focops.runs.files import resume_command

_NAMES = {"algorithm": "--algo", "init_from": "--from"}
"""Flags that are not called as their field."""
_DECIDE = {"algorithm": "focops", "preset": "fast", "backend": "cpu"}
"""Fields that decide what the other defaults are, and their own."""
_ELSEWHERE = ("algo", "task", "steps", "out", "layout", "given", *_DECIDE)


def evaluate(out: Path | str) -> str:
    return shlex.join(["focops", "evaluate", str(out)])


def resume(out: Path | str, steps: int) -> str:
    return f"{resume_command(out)} --steps {steps}"


def train(config: TrainConfig) -> str:
    """The command of a new run with this config: its task, its steps, and every flag that is not at its default."""
    defaults = default_config(config.task, *(getattr(config, name) for name in _DECIDE))
    words = [config.task, "--steps", str(config.steps)]
    for name, default in _DECIDE.items():
        words += _flag(name, getattr(config, name), default)
    for field in dataclasses.fields(config):
        if field.name not in _ELSEWHERE:
            words += _flag(field.name, getattr(config, field.name), getattr(defaults, field.name))
    for field in dataclasses.fields(config.algo):
        if field.name not in NOT_FLAGS:
            name = f"algo.{field.name}"
            words += _flag(name, getattr(config.algo, field.name), getattr(defaults.algo, field.name))
    return shlex.join(["focops", "train", *words])


def _flag(name: str, value: Any, default: Any) -> list[str]:
    if value == default:
        return []
    flag = _NAMES.get(name, "--" + name.replace("_", "-"))
    if name == "exact":  # a switch; off by default
        return [flag]
    return [flag, *(per_cost_words(value) if isinstance(value, tuple | dict) else [str(value)])]
