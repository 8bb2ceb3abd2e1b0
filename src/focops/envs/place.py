"""Where environments run: in this process, or in workers, and in how many."""

import os
from pathlib import Path

from focops.envs.local import LocalEnvs
from focops.envs.names import Opening
from focops.envs.other_python import interpreter
from focops.envs.workers import WorkerEnvs
from focops.errors import RunError, UsageError

ROUND_TRIP = 3e-4
"""Seconds that a step of workers takes beside the environments' own; `benchmarks/env_workers.py` measures it."""


def place(
    opening: Opening, num_envs: int, workers: int | None, python: Path | None, timeout: float
) -> tuple[LocalEnvs | WorkerEnvs, str]:
    """Open the first of `num_envs` environments where all of them will run (`add` opens the rest), and a line that says
    where, if that was measured.

    Args:
        workers: processes; 0 for none. None: as many as pay, by the time that some steps of the first environment take.
        python: another interpreter, or its virtual environment's folder, for the workers; there is at least one then.
        timeout: seconds that a step may take; 0 for no limit.
    """
    lost = opening.lost_elsewhere
    if lost and (workers or python is not None):
        raise UsageError(
            f"{lost} cannot go to worker processes, for no name finds it there: define it at the top of a module, or"
            " leave out --env-workers and --env-python"
        )
    if python is not None:
        found = WorkerEnvs(opening, num_envs, interpreter(python), timeout)
        if workers is None:
            seconds = found.step_seconds()
            found.workers = max(1, _that_pay(seconds, num_envs))
            return found, _note(seconds, found.workers)
        found.workers = max(1, workers)
        return found, ""
    if workers is not None:
        return (
            _in_workers(opening, num_envs, workers, timeout) if workers else LocalEnvs(opening, timeout=timeout)
        ), ""
    local = LocalEnvs(opening, timeout=timeout)
    if num_envs == 1 or _cores() == 1 or lost:
        return local, ""
    seconds = local.step_seconds()
    workers = _that_pay(seconds, num_envs)
    if not workers:
        return local, _note(seconds, 0)
    try:
        found = _in_workers(opening, num_envs, workers, timeout)
    except RunError:
        raise
    except UsageError:
        return local, f"{_note(seconds, 0)}: only this process knows {opening.name}"
    local.close(0)
    return found, _note(seconds, workers)


def _in_workers(opening: Opening, num_envs: int, workers: int, timeout: float) -> WorkerEnvs:
    try:
        found = WorkerEnvs(opening, num_envs, None, timeout)
    except RunError:
        raise
    except UsageError as error:
        raise UsageError(f"{error}. That was in a worker process; --env-workers 0 opens it in this one") from error
    found.workers = workers
    return found


def _that_pay(seconds: float, num_envs: int) -> int:
    """One worker per core, or none where a step is so short that the time saved is not twice that of a round trip."""
    workers = min(_cores(), num_envs)
    saved = seconds * (num_envs - -(-num_envs // workers))
    return workers if saved > 2 * ROUND_TRIP else 0


def _note(seconds: float, workers: int) -> str:
    time = f"{1e3 * seconds:.2g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.0f} µs"
    return f"a step takes {time}; {workers or 'no'} worker{'s' * (workers != 1)}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
