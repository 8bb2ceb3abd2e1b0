"""What a run's metrics say about why it may not have learned what was asked, each with what to try."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from focops.algorithms import is_constrained
from focops.config import TrainConfig
from focops.core.spec import Constraint, Spec
from focops.display.numbers import number
from focops.training.state import Record

SHARE = 0.1
"""Of a run's iterations that a multiplier may be at its bound without a hint."""
PATIENCE = 10
"""Batches without a finished episode, at least, before there is a hint."""


def hints(config: TrainConfig, spec: Spec, records: Sequence[Record], policy: dict[str, Any] | None) -> list[str]:
    """Of a run with these records; `policy` is the evaluation of the delivered one, if there was one."""
    found = [_no_episode(config, spec, records)]
    for constraint in spec.constraints:
        found += [_at_its_bound(config, constraint, records), _never_met(config, constraint, records, policy)]
    return [hint for hint in found if hint]


def _at_its_bound(config: TrainConfig, constraint: Constraint, records: Sequence[Record]) -> str:
    bound = getattr(config.algo, "nu_max", math.inf)
    if bound == 0:
        return f"ν of {constraint.name} could not leave 0, so its cost had no weight: leave --algo.nu-max 0 out"
    if bound == math.inf:
        return ""
    nus = [record.get(f"nu/{constraint.name}") for record in records]
    at_bound = sum(nu is not None and nu >= np.float32(bound) for nu in nus)
    if not at_bound or at_bound < SHARE * len(records):
        return ""
    return (
        f"ν of {constraint.name} was at its bound of {bound:g} in {at_bound} of {len(records)} iterations, and could"
        f" not weigh the cost more: try --algo.nu-max {2 * bound:g}, or inf for no bound"
    )


def _no_episode(config: TrainConfig, spec: Spec, records: Sequence[Record]) -> str:
    """If the last batches finished no episode, though they were longer than two."""
    if not records:
        return ""
    finished = [record.get("episodes_finished") for record in records]
    batches = sum(number == finished[-1] for number in finished)
    steps = config.batch_size // config.num_envs
    batches -= finished[-1] != 0  # the first of these did finish one
    if batches < PATIENCE or batches * steps <= 2 * (spec.time_limit or 0):
        return ""
    longer = (
        f"a batch is shorter than an episode: try a --batch-size above {config.batch_size}"
        if config.fresh_episodes
        else "give the environment a time limit (max_episode_steps, or gymnasium.wrappers.TimeLimit)"
    )
    return f"no episode was finished in the last {batches} batches, of {steps} steps in each environment: {longer}"


def _never_met(
    config: TrainConfig, constraint: Constraint, records: Sequence[Record], policy: dict[str, Any] | None
) -> str:
    """J_C of policies counts from the first finished episode on: before, part of an episode is still unknown."""
    name, limit = constraint.name, constraint.limit
    costs = [record.get(f"cost_return_estimate/{name}") for record in records if record.get("episodes_finished")]
    costs += [policy["sampled"]["discounted_cost"][name]] if policy else []
    known = [cost for cost in costs if cost is not None]
    if not known or min(known) <= limit:
        return ""
    what = f"no policy of the run met the limit {number(limit)} of {name}: the lowest J_C was {number(min(known))}"
    if not is_constrained(config.algorithm):
        return f"{what}; {config.algorithm} does not look at costs: try --algo focops"
    return f"{what}; try more --steps, or a --cost-limit that can be met"
