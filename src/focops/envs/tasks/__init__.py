"""The tasks by name, each defined once as pure functions of physics fields.

`register` adds one from outside; a package does it without Python code, by an entry point in the group `focops.tasks`
whose name is the task's and whose value names the `Task`.
"""

from focops.core.registry import Registry
from focops.envs.tasks.circle import CIRCLE_TASKS
from focops.envs.tasks.families import ANY, CIRCLE, SPEED, Family
from focops.envs.tasks.robots import SELF_CONTACTS, Physics, Robot
from focops.envs.tasks.speed_limit import SPEED_TASKS
from focops.envs.tasks.task import Outcome, Task
from focops.envs.tasks.velocity import VELOCITY_TASKS
from focops.errors import UsageError


def _check(name: str, task: object) -> None:
    if not isinstance(task, Task) or task.name != name:
        raise UsageError(f"the task {name!r} must be a focops.envs.tasks.Task of that name; it is {task!r}")


TASKS: Registry[Task] = Registry(
    "task", "focops.tasks", _check, {task.name: task for task in (*SPEED_TASKS, *CIRCLE_TASKS, *VELOCITY_TASKS)}
)


def register(task: Task) -> None:
    """Make a task known by its name: `focops.train(task.name)`, on both backends."""
    TASKS.register(task.name, task)


def find(name: str) -> Task | None:
    """The task of that name: "AntSpeed", "AntSpeed-v0" and "focops/AntSpeed-v0" are the same; None if there is none."""
    short = name.removeprefix("focops/")
    return TASKS.get(short) or TASKS.get(f"{short}-v0")


__all__ = [
    "ANY",
    "CIRCLE",
    "SELF_CONTACTS",
    "SPEED",
    "TASKS",
    "Family",
    "Outcome",
    "Physics",
    "Robot",
    "Task",
    "find",
    "register",
]
