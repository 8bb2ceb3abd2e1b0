"""`focops export`: a policy as a file that needs neither focops nor JAX."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from focops.errors import UsageError


@dataclass(frozen=True)
class ExportOptions:
    """Write a policy as policy.onnx, one graph from raw observations to actions, or as policy.py, a file that needs
    NumPy alone. It is compared with the policy on random and extreme observations before it is written."""

    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """The directory of a run, zoo:NAME, or a policy file."""
    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """What is written; its ending is .onnx or .py."""
    sampled: tyro.conf.FlagCreatePairsOff[bool] = False
    """Sampled actions instead of the mean (most likely) one. The graph takes the noise as a second input: standard
    normal for continuous actions, Gumbel for discrete ones. The file samples unless it is asked not to."""


def export(words: list[str]) -> int:
    options = tyro.cli(ExportOptions, args=words, prog="focops export")
    from focops.deploy.export import ENDINGS
    from focops.runs.policy_file import load

    if options.file.suffix not in ENDINGS:
        raise UsageError(f"FILE is {options.file}; its ending must be .onnx (a graph) or .py (Python with NumPy alone)")
    made = load(options.run).export(options.file, sampled=options.sampled)
    size = f"{len(made.data) / 1000:.0f} kB"
    print(
        f"written to {options.file} ({size}); on {made.observations} random and extreme observations its actions are"
        f" the policy's, to {made.difference:.1g}"
    )
    return 0
