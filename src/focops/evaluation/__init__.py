"""Evaluating trained policies on unseen episodes, with intervals and a verdict on each constraint.

Episodes are run side by side, one per simulation, each to its end. An episode counts once, however short.
Actions are as in training: sampled unless `deterministic`, and not clipped, because the environment does that itself.
Observations are normalised by the statistics at the end of training, which do not change.

| file | holds |
|---|---|
| evaluate_runs.py | `evaluate` for one run, `evaluate_all` for many |
| protocol.py | which episodes, of which seeds |
| final.py | the evaluation at the end of a run, of the policy that it delivers |
| host.py | episodes on the CPU, one policy at a time |
| device.py | episodes of many policies as one program on an accelerator |
| judge.py | from episodes to intervals and verdicts |
"""

from focops.evaluation.evaluate_runs import evaluate, evaluate_all
from focops.evaluation.judge import BOUNDS, ConstraintResult, Estimate, Evaluation, save_all
from focops.evaluation.protocol import PROTOCOLS, UNSEEN

__all__ = [
    "BOUNDS",
    "PROTOCOLS",
    "UNSEEN",
    "ConstraintResult",
    "Estimate",
    "Evaluation",
    "evaluate",
    "evaluate_all",
    "save_all",
]
