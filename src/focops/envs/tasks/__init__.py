"""The nine tasks, each defined once as pure functions of physics fields."""

from focops.envs.tasks.circle import CIRCLE_TASKS
from focops.envs.tasks.robots import SELF_CONTACTS, Physics, Robot
from focops.envs.tasks.speed_limit import SPEED_TASKS
from focops.envs.tasks.task import Outcome, Task

TASKS: dict[str, Task] = {task.name: task for task in (*SPEED_TASKS, *CIRCLE_TASKS)}


def find(name: str) -> Task | None:
    """The task of that name: "AntSpeed", "AntSpeed-v0" and "focops/AntSpeed-v0" are the same; None if there is none."""
    short = name.removeprefix("focops/")
    return TASKS.get(short) or TASKS.get(f"{short}-v0")


__all__ = ["SELF_CONTACTS", "TASKS", "Outcome", "Physics", "Robot", "Task", "find"]
