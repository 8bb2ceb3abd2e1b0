"""Gymnasium ids of our tasks."""

from focops.envs.tasks import TASKS


def register() -> None:
    """Make `gymnasium.make("focops/AntSpeed-v0")` and the other tasks known, with those registered meanwhile."""
    import gymnasium

    for task in TASKS.loaded.values():
        name = f"focops/{task.name}"
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="focops.envs.task_env:TaskEnv",  # a string: the simulator is imported by the first `make`
                max_episode_steps=task.time_limit,
                kwargs={"task": task.name},
            )
