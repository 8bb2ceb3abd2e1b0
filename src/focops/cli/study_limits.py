"""Limits that are shares of what another algorithm's runs cost (`limits_of` of a study)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from focops.display.numbers import number
from focops.display.say import say
from focops.errors import UsageError
from focops.runs.directory import RunDirectory
from focops.runs.files import write_json
from focops.studies.definition import Study

FILE = "limits.json"
"""In the study's directory: what was measured. It is kept when further seeds are trained, so that limits stay."""
Costs = dict[str, list[float]]
"""By task, one for each constraint."""


def measured(base: Path, found: Study, runs: Mapping[str, Sequence[str]]) -> Costs:
    """By task, what the named runs cost in their last 100 training episodes, in the mean over them: now, or when it was
    first asked for. A task whose runs are not all finished is left out, and named."""
    known = _known(base / FILE)
    for task, names in runs.items():
        if task in known:
            continue
        summaries = [summary for name in names if (summary := RunDirectory(base / name).summary or {}).get("finished")]
        costs = [list(summary["discounted_cost_mean"].values()) for summary in summaries]
        if len(costs) < len(names):
            why = f"{len(names) - len(costs)} of its {len(names)} {found.limits_of} runs are not finished"
        elif any(None in each for each in costs):
            why = f"a {found.limits_of} run of {found.steps} samples ended without an episode; give more --steps"
        else:
            known[task] = np.mean(costs, axis=0).tolist()
            continue
        say("no limits:", f"{task} is left out: {why}")
    try:
        write_json(base / FILE, known)
    except OSError as error:
        raise UsageError(f"cannot write in {base}: {error.strerror}; choose another --out") from error
    return {task: known[task] for task in runs if task in known}


def told(found: Study, costs: Costs) -> str:
    """One line for each task."""
    shares = ", ".join(f"{share:.3g}" for share in found.limit_shares)
    return "\n".join(
        f"limits of {task}: {shares} of {', '.join(map(number, each))}, which {found.limits_of} costs"
        for task, each in costs.items()
    )


def _known(file: Path) -> Costs:
    if not file.is_file():
        return {}
    try:
        return {str(task): [float(cost) for cost in costs] for task, costs in json.loads(file.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{file} is damaged: {error}; remove it, and it is measured again") from None
