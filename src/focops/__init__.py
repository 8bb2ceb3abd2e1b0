"""Constrained reinforcement learning: maximise reward while keeping cost constraints.

>>> import focops
>>> run = focops.train("HalfCheetahSpeed-v0", steps=100_000, out="cheetah")
>>> action = focops.load("cheetah").predict(observation)
"""

import importlib
from typing import TYPE_CHECKING, Any

from focops.core.spec import Constraint, Spec
from focops.envs.registration import register as _register
from focops.errors import UsageError

if TYPE_CHECKING:
    from focops.api import resume, train
    from focops.evaluation import Evaluation, evaluate, evaluate_all
    from focops.runs.policy import MeanActionWarning, Policy
    from focops.runs.policy_file import load
    from focops.runs.run import Run
    from focops.runs.sinks import Sink
    from focops.studies.plot import plot
    from focops.video.record import record

__all__ = [
    "Constraint",
    "Evaluation",
    "MeanActionWarning",
    "Policy",
    "Run",
    "Sink",
    "Spec",
    "UsageError",
    "evaluate",
    "evaluate_all",
    "load",
    "plot",
    "record",
    "resume",
    "train",
]

_HOMES = {
    "Evaluation": "focops.evaluation",
    "MeanActionWarning": "focops.runs.policy",
    "Policy": "focops.runs.policy",
    "Run": "focops.runs.run",
    "Sink": "focops.runs.sinks",
    "evaluate": "focops.evaluation",
    "evaluate_all": "focops.evaluation",
    "load": "focops.runs.policy_file",
    "plot": "focops.studies.plot",
    "record": "focops.video",
    "resume": "focops.api",
    "train": "focops.api",
}

_register()


def __getattr__(name: str) -> Any:
    """Import on first use: `import focops` (and so `focops --help`) needs neither JAX nor MuJoCo."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "__version__":
        from importlib import metadata

        return metadata.version("focops")
    raise AttributeError(f"module 'focops' has no attribute {name!r}")
