"""The evaluation at the end of a run: the policy that it delivers on fresh episodes, with sampled and mean actions.

The mean over the last training episodes is not that of the delivered policy: the policy changed meanwhile, and its mean
action was never run at all. The seeds are fixed, so that a run that was interrupted ends in the same bytes.
"""

import os
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from focops import envs
from focops.display.progress import ManyDisplay
from focops.errors import RunError, UsageError
from focops.evaluation.evaluate_runs import Trained, on_device, on_host
from focops.evaluation.judge import Evaluation
from focops.evaluation.protocol import Protocol
from focops.runs.directory import PENDING
from focops.runs.files import jsonable
from focops.runs.policy_file import load
from focops.runs.recorder import Recorder, Run

SEED = 0
"""Of the episodes; `focops evaluate RUN --episodes N` runs the same ones."""
CONFIDENCE = 0.95
SHARE = 0.1
"""Of the training's samples: as many episodes of environments that are not ours are run as fit into it."""
PATIENCE = 2.0
"""If their episodes turn out longer than in training, the evaluation is given up at so many times that share."""


class FinalEvaluationWarning(UserWarning):
    """The policy of a finished run could not be evaluated. The run itself is good."""


class _Stopped(Exception):
    """The user asked to stop."""


class _NotEvaluated(Exception):
    """Why there are no results."""


def evaluate_delivered(
    recorders: Sequence[Recorder],
    outcomes: list[Run | RunError],
    display: ManyDisplay | None,
    should_stop: Callable[[], bool],
) -> list[Run | RunError]:
    """The outcomes of runs that share a program (or of one on the CPU), with what was found of the policies that are
    finished and not evaluated yet. Whatever fails here is a warning: the runs are finished."""
    waiting = {
        i: (recorder, outcome)
        for i, (recorder, outcome) in enumerate(zip(recorders, outcomes, strict=True))
        if isinstance(outcome, Run) and outcome.summary["not_evaluated"] == PENDING
    }
    if not waiting or should_stop():
        return outcomes
    show = getattr(display, "note", None)  # not every display has it
    if show is not None:
        show(_note([recorder for recorder, _ in waiting.values()]))
    try:
        evaluated = dict(zip(waiting, _evaluated(list(waiting.values()), should_stop), strict=True))
    except _Stopped:
        return outcomes
    return [evaluated.get(i, outcome) for i, outcome in enumerate(outcomes)]


def _note(recorders: Sequence[Recorder]) -> str:
    episodes = recorders[0].config.final_episodes
    which = "the policy" if len(recorders) == 1 else f"{len(recorders)} policies"
    return f"evaluating {which}: up to {episodes} episodes with sampled and {episodes} with mean actions"


def _evaluated(runs: Sequence[tuple[Recorder, Run]], should_stop: Callable[[], bool]) -> list[Run]:
    """The runs, with what was found or why nothing was."""
    began = time.perf_counter()
    try:
        found = _evaluate(runs, should_stop)
    except _Stopped:
        raise
    except Exception as error:
        why = str(error) if isinstance(error, _NotEvaluated | RunError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, _NotEvaluated):
            _warn(runs[0][1], why)
        return [_written(run, partial(recorder.not_evaluated, run, why)) for recorder, run in runs]
    seconds = time.perf_counter() - began
    return [
        _written(run, partial(recorder.evaluated, run, each, seconds))
        for (recorder, run), each in zip(runs, found, strict=True)
    ]


def _written(run: Run, write: Callable[[], Run]) -> Run:
    """What `write` returns, or the run as it was if the disk does not take it."""
    try:
        return write()
    except UsageError as error:
        _warn(run, str(error))
        return run


def _warn(run: Run, why: str) -> None:
    message = f"{run.path} is finished, but its policy could not be evaluated: {why}"
    warnings.warn(message, FinalEvaluationWarning, stacklevel=2)


def _evaluate(runs: Sequence[tuple[Recorder, Run]], should_stop: Callable[[], bool]) -> list[dict[str, Any]]:
    """What is found of each run's policy."""
    config = runs[0][0].config
    trained = [Trained(run.path, each.config, load(run.path, each.config.algo.network)) for each, run in runs]
    if config.backend == "mjx":
        return [_described(*pair) for pair in on_device(trained, _protocols(config.final_episodes))]
    (recorder, run), (only,) = runs[0], trained
    samples = config.iterations * config.batch_size
    episodes, at_most = config.final_episodes, None
    if envs.find(config.task) is None:
        length = run.summary["episode_length_mean"] or recorder.spec.time_limit
        episodes = min(episodes, int(SHARE * samples / length) if length else 0)
        at_most = int(2 * PATIENCE * SHARE * samples)  # of both ways to act
        if episodes < 2:
            raise _NotEvaluated("two of its episodes are more than a tenth of its samples; `focops evaluate` can do it")
    steps = 0

    def before_step(number: int) -> None:
        nonlocal steps
        steps += number
        if should_stop():
            raise _Stopped
        if at_most is not None and steps > at_most:
            raise _NotEvaluated("its episodes are far longer than in training; `focops evaluate` can do it")

    found = on_host(only, _protocols(episodes), config.threads or os.cpu_count() or 1, before_step)
    if any(each.cut for each in found):
        raise _NotEvaluated("some of its episodes do not end; `focops evaluate` cuts them")
    return [_described(*found)]


def _protocols(episodes: int) -> list[Protocol]:
    return [Protocol(episodes, (SEED,), deterministic, CONFIDENCE) for deterministic in (False, True)]


def _described(sampled: Evaluation, mean_action: Evaluation) -> dict[str, Any]:
    """What the summary and the policy file tell of both evaluations."""
    how = {"backend": sampled.backend, "confidence": CONFIDENCE, "seed": SEED}
    return jsonable({**how, "sampled": _numbers(sampled), "mean_action": _numbers(mean_action)})


def _numbers(found: Evaluation) -> dict[str, Any]:
    costs = found.constraints
    return {
        "episodes": found.episodes,
        "diverged": found.diverged,
        "reward": found.reward.mean,
        "reward_interval": [found.reward.low, found.reward.high],
        "episode_length": found.episode_length.mean,
        "discounted_cost": {name: c.discounted_cost.mean for name, c in costs.items()},
        "discounted_cost_interval": {n: [c.discounted_cost.low, c.discounted_cost.high] for n, c in costs.items()},
        "undiscounted_cost": {name: c.undiscounted_cost.mean for name, c in costs.items()},
        "cost_limit": {name: c.limit for name, c in costs.items()},
        "verdict": {name: c.verdict for name, c in costs.items()},
    }
