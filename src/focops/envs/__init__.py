"""Environments: our tasks on MuJoCo, and any Gymnasium environment, behind one `VectorEnv`."""

from pathlib import Path
from typing import TYPE_CHECKING

from focops.core.spec import Constraint
from focops.envs.limits import PerCost, constrain
from focops.envs.names import GIVEN_NOTHING, Given
from focops.envs.tasks import TASKS, Task, find
from focops.errors import UsageError

if TYPE_CHECKING:
    from focops.core.types import VectorEnv

__all__ = ["TASKS", "constraints", "find", "make"]


def make(
    name: str,
    num_envs: int,
    *,
    limits: PerCost | None = None,
    discounts: PerCost | None = None,
    cost: str | None = None,
    needs_cost: bool = True,
    threads: int = 1,
    stagger: bool = True,
    timeout: float = 0.0,
    given: Given = GIVEN_NOTHING,
    workers: int | None = 0,
    python: Path | None = None,
) -> "VectorEnv":
    """E environments: one of our tasks by its name, or else a Gymnasium environment by its id.

    Args:
        name: "AntSpeed", "AntSpeed-v0", "focops/AntSpeed-v0"; or "CartPole-v1", "module:Id-v0", "module:Class".
        num_envs: how many run side by side.
        limits: one per cost, or by name; our tasks have the paper's by default, others need them.
        discounts: one per cost (gamma_C), or by name; by default the task's, or 0.99.
        cost: "module:function", which computes the costs of a Gymnasium environment from (obs, action, reward, info).
        needs_cost: refuse an environment without a cost; otherwise it has no constraint.
        threads: of our tasks' physics; it does not change results.
        stagger: cut the first episodes, so that later ones do not all end together.
        timeout: seconds that a step of Gymnasium environments may take; 0 for no limit.
        given: the environment or the function itself, where no name finds it.
        workers: processes for Gymnasium environments; it does not change results. 0: they run in the caller's thread.
            None: a short measurement decides.
        python: an interpreter or a virtual environment's folder that the workers run under, if not this one.
    """
    if num_envs < 1:
        raise UsageError(f"the number of environments is {num_envs}: it must be at least 1")
    if threads < 1:
        raise UsageError(f"the number of threads is {threads}: it must be at least 1")
    task = find(name) if given.env is None else None
    # imported late: `focops --help` needs neither Gymnasium nor MuJoCo
    if task is None:
        from focops.envs.gymnasium import GymnasiumVector

        return GymnasiumVector(
            name if given.env is None else given.env, num_envs, limits=limits, discounts=discounts,
            needs_cost=needs_cost, stagger=stagger, timeout=timeout, cost=cost if given.cost is None else given.cost,
            workers=workers, python=python,
        )  # fmt: skip
    if cost is not None:
        raise UsageError(f"--cost is {cost}, but {task.name} is a task of ours, with its own: leave --cost out")
    from focops.envs.mujoco_batch import MujocoBatch

    return MujocoBatch(task, num_envs, constraints(task, limits, discounts), threads=threads, stagger=stagger)


def constraints(task: Task, limits: PerCost | None, discounts: PerCost | None) -> tuple[Constraint, ...]:
    """Our task's constraints, with other limits and discounts where they are given."""
    own = task.constraints
    return constrain(task.name, [each.name for each in own], limits, discounts, task.time_limit, own)
