"""The evaluation at the end of a run: the policy that it delivers on fresh episodes, with sampled and mean actions.

The mean over the last training episodes is not that of the delivered policy: the policy changed meanwhile, and its mean
action was never run at all. The seeds are fixed, so that a run that was interrupted ends in the same bytes.

With `--margin auto` a run keeps policies of its end (`focops.training.candidates`). It delivers the one with the most
reward among those that are found within their limits.
"""

import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from focops import confidence, envs
from focops.display.progress import ManyDisplay
from focops.errors import RunError, UsageError
from focops.evaluation.evaluate_runs import Trained, on_device, on_host
from focops.evaluation.judge import Evaluation
from focops.evaluation.protocol import Protocol
from focops.runs.directory import PENDING
from focops.runs.files import jsonable
from focops.runs.policy_file import load
from focops.runs.recorder import Recorder, Run

OURS, OTHERS = 0.8, 0.3
"""Shares of the training's samples that the evaluation may take, of our tasks and of other environments: a quarter for
each of the two ways to act, and what is left of it to choose by. More policies are tried beyond it where the first is
not found within its limits."""
PATIENCE = 2.0
"""If the others' episodes turn out longer than in training, a policy is given up at so many times its part."""


class Purpose(NamedTuple):
    """What episodes are run for."""

    seed: int
    confidence: float
    """Of the verdicts."""
    share: float
    """Of --final-episodes that are run."""


REPORT = Purpose(seed=0, confidence=0.95, share=1.0)
"""`focops evaluate RUN --episodes N` runs the same episodes."""
SCREENING = Purpose(seed=1, confidence=0.8, share=0.3)
"""To choose by. What is told of a policy is found on other episodes: it was chosen for what these showed."""
TRIES = 3
"""Policies of a run that are evaluated after screening, before one is delivered."""
Acting = Sequence[Evaluation]
"""With sampled and with mean actions."""
Evaluate = Callable[[Sequence[Trained], Purpose], Sequence[Acting]]
"""Of each policy, both evaluations."""


class Delivered(NamedTuple):
    """The policy of a run, and what was found of it."""

    delivered: int
    """Of `Recorder.policies`."""
    found: dict[str, Any]


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
        _written(run, partial(recorder.evaluated, run, each.found, each.delivered, seconds))
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


def _evaluate(runs: Sequence[tuple[Recorder, Run]], should_stop: Callable[[], bool]) -> list[Delivered]:
    """What each run delivers, and what was found of it."""
    config = runs[0][0].config
    trained = [Trained(run.path, each.config, load(run.path, each.config.algo.network)) for each, run in runs]
    policies = [
        [own._replace(policy=own.policy.replaced(*policy)) for policy in each.policies()]
        for own, (each, _) in zip(trained, runs, strict=True)
    ]
    if config.backend == "mjx":
        return deliver(policies, lambda each, purpose: on_device(each, _protocols(config.final_episodes, purpose)))
    (recorder, run), (own,) = runs[0], policies
    ours = envs.find(config.task) is not None
    allowed = (OURS if ours else OTHERS) * config.iterations * config.batch_size
    length = run.summary["episode_length_mean"] or recorder.spec.time_limit or math.inf
    if math.isinf(length):
        raise _NotEvaluated("no episode ended in training; `focops evaluate` cuts those that do not end")
    fewest = confidence.fewest_episodes(REPORT.confidence) if ours else 0
    episodes = min(config.final_episodes, max(fewest, int(allowed / 4 / length)))
    if episodes < 2:
        raise _NotEvaluated("two of its episodes are more than 7% of its samples; `focops evaluate` can do it")
    steps = 2 * episodes * length
    own = spread(own, int((allowed - steps) / (2 * _number(episodes, SCREENING) * length)))
    tries = TRIES if ours else max(1, int(allowed / 3 / steps))
    at_most = math.inf if ours else PATIENCE * allowed / 2  # of both ways to act
    left = math.inf

    def before_step(number: int) -> None:
        nonlocal left
        left -= number
        if should_stop():
            raise _Stopped
        if left < 0:
            raise _NotEvaluated("its episodes are far longer than in training; `focops evaluate` can do it")

    def evaluate(each: Sequence[Trained], purpose: Purpose) -> list[Acting]:
        nonlocal left
        found: list[Acting] = []
        threads = config.threads or os.cpu_count() or 1
        for trained in each:
            left = at_most
            found.append(on_host(trained, _protocols(episodes, purpose), threads, before_step))
            if any(one.cut for one in found[-1]):
                raise _NotEvaluated("some of its episodes do not end; `focops evaluate` cuts them")
        return found

    return deliver([own], evaluate, min(tries, TRIES))


def deliver(policies: Sequence[Sequence[Trained]], evaluate: Evaluate, tries: int = TRIES) -> list[Delivered]:
    """Of the policies of each run, the last first, the one that it delivers, and what was found of that.

    Where there are several, all are screened. The one with the most reward among those that seem to keep their limits
    is then run on other episodes; if it does not keep them there, the next.
    """
    orders = [[0] for _ in policies]
    if len(policies[0]) > 1:
        screened = iter(evaluate([policy for own in policies for policy in own], SCREENING))
        orders = [order([next(screened) for _ in own], tries) for own in policies]
    found: list[list[Acting]] = [[] for _ in policies]
    waiting = list(range(len(policies)))
    while waiting:
        # always as many at a time, so that a device has one program for them
        padded = [waiting[k % len(waiting)] for k in range(len(policies))]
        ran = evaluate([policies[i][orders[i][len(found[i])]] for i in padded], REPORT)
        for i, acting in zip(waiting, ran, strict=False):
            found[i].append(acting)
        waiting = [i for i in waiting if not _within(found[i][-1]) and len(found[i]) < len(orders[i])]
    best = [_best(tried) for tried in found]
    return [
        Delivered(orders[i][k], described(*found[i][k]) | {"chosen_from": len(policies[i])}) for i, k in enumerate(best)
    ]


def spread(policies: Sequence[Trained], count: int) -> Sequence[Trained]:
    """So many of them at most, the first and others in equal steps; one at least."""
    return policies[:: -(-len(policies) // max(1, count))]


def order(screened: Sequence[Acting], tries: int = TRIES) -> list[int]:
    """The policies to try, one after another until one keeps its limits, of those that kept them here; if none did, the
    one that costs least beside its limits. Of the two ways to act, the worse one counts. First the one with the most
    reward; if that fails, the one with the most reward among the cheaper ones; the last try is the cheapest of all.
    """
    cost = lambda i: _excess(screened[i])
    reward = lambda i: min(found.reward.mean for found in screened[i])
    left = [i for i, acting in enumerate(screened) if _within(acting)]
    if not left:
        return [min(range(len(screened)), key=cost)]
    chosen = [max(left, key=reward)]
    while len(chosen) < min(tries, len(left)):
        others = [i for i in left if i not in chosen]
        cheaper = [i for i in others if cost(i) < cost(chosen[-1])] if len(chosen) < tries - 1 else []
        chosen.append(max(cheaper, key=reward) if cheaper else min(others, key=cost))
    return chosen


def _best(tried: Sequence[Acting]) -> int:
    """The one that keeps its limits with sampled and with mean actions; if none does, the first that does with sampled
    ones; if none does, the one that costs least beside its limits."""
    both = [k for k, acting in enumerate(tried) if _within(acting)]
    sampled = [k for k, acting in enumerate(tried) if keeps_limits(acting[0])]
    return [*both, *sampled, min(range(len(tried)), key=lambda k: _excess(tried[k]))][0]


def _within(acting: Acting) -> bool:
    return all(map(keeps_limits, acting))


def keeps_limits(found: Evaluation) -> bool:
    """Whether every limit is found to be kept. Where all episodes cost the same, within it, no number of them would be
    called *satisfied*; that is enough here."""
    return all(
        c.verdict == "satisfied" or (c.bound == "identical" and c.discounted_cost.mean <= c.limit)
        for c in found.constraints.values()
    )


def _excess(acting: Acting) -> float:
    """By how much the costs are above their limits, of the worst, in units of the limit."""
    costs = [c for found in acting for c in found.constraints.values()]
    return max(((c.discounted_cost.mean - c.limit) / (c.limit or 1.0) for c in costs), default=-math.inf)


def _protocols(episodes: int, purpose: Purpose) -> list[Protocol]:
    """With sampled and with mean actions."""
    number = _number(episodes, purpose)
    return [Protocol(number, (purpose.seed,), deterministic, purpose.confidence) for deterministic in (False, True)]


def _number(episodes: int, purpose: Purpose) -> int:
    """How many are run, of as many as are reported."""
    fewest = confidence.fewest_episodes(purpose.confidence)  # that can be found to keep a limit
    return max(2, min(episodes, max(fewest, math.ceil(purpose.share * episodes))))


def described(sampled: Evaluation, mean_action: Evaluation) -> dict[str, Any]:
    """What the summary and the policy file tell of both evaluations."""
    how = {"backend": sampled.backend, "confidence": sampled.confidence, "seed": sampled.seeds[0]}
    how["iteration"] = sampled.iteration
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
        "cost_discount": {name: c.discount for name, c in costs.items()},
        "verdict": {name: c.verdict for name, c in costs.items()},
    }
