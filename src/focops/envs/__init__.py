"""Environments: our tasks on MuJoCo, and any Gymnasium environment, behind one `VectorEnv`."""

from pathlib import Path
from typing import TYPE_CHECKING

from focops.core.spec import Constraint
from focops.envs.limits import Numbers, constrain
from focops.envs.tasks import TASKS, Task, find
from focops.errors import UsageError

if TYPE_CHECKING:
    from focops.core.types import VectorEnv

__all__ = ["TASKS", "constraints", "find", "make"]


def make(
    name: str,
    num_envs: int,
    *,
    limits: Numbers | None = None,
    discounts: Numbers | None = None,
    threads: int = 1,
    stagger: bool = True,
    timeout: float = 0.0,
    workers: int | None = 0,
    python: Path | None = None,
) -> "VectorEnv":
    """E environments: one of our tasks by its name, or else a Gymnasium environment by its id.

    Args:
        name: "AntSpeed", "AntSpeed-v0", "focops/AntSpeed-v0"; or "CartPole-v1", "module:Id-v0".
        num_envs: how many run side by side.
        limits: one per cost; our tasks have the paper's by default, others need them.
        discounts: one per cost (gamma_C); by default the task's, or 0.99.
        threads: of our tasks' physics; it does not change results.
        stagger: cut the first episodes, so that later ones do not all end together.
        timeout: seconds that a step of Gymnasium environments may take; 0 for no limit.
        workers: processes for Gymnasium environments; it does not change results. 0: they run in the caller's thread.
            None: a short measurement decides.
        python: an interpreter or a virtual environment's folder that the workers run under, if not this one.
    """
    if num_envs < 1:
        raise UsageError(f"the number of environments is {num_envs}: it must be at least 1")
    if threads < 1:
        raise UsageError(f"the number of threads is {threads}: it must be at least 1")
    task = find(name)
    # imported late: `focops --help` needs neither Gymnasium nor MuJoCo
    if task is None:
        from focops.envs.gymnasium import GymnasiumVector

        return GymnasiumVector(
            name, num_envs, limits=limits, discounts=discounts, stagger=stagger, timeout=timeout, workers=workers,
            python=python,
        )  # fmt: skip
    from focops.envs.mujoco_batch import MujocoBatch

    return MujocoBatch(task, num_envs, constraints(task, limits, discounts), threads=threads, stagger=stagger)


def constraints(task: Task, limits: Numbers | None, discounts: Numbers | None) -> tuple[Constraint, ...]:
    """Our task's constraints, with other limits and discounts where they are given."""
    own = task.constraints
    return constrain(
        task.name,
        [each.name for each in own],
        [each.limit for each in own] if limits is None else limits,
        [each.discount for each in own] if discounts is None else discounts,
        task.time_limit,
    )
