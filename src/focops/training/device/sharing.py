"""Which runs can share a program."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from focops.config import TrainConfig
from focops.errors import UsageError


def require_alike(configs: Sequence[TrainConfig]) -> TrainConfig:
    """Refuse runs that cannot share a program; the first of them."""
    first = program_of(configs[0])
    for config in configs:
        if program_of(config) != first:
            raise UsageError("runs of one program may differ in seed and in traced numbers only; group them first")
    return configs[0]


def program_of(config: TrainConfig) -> Any:
    """The values that are constant in a run's program; runs that agree in them are trained, saved and evaluated as
    one."""
    fields = dataclasses.fields(config.algo)
    static = tuple((f.name, getattr(config.algo, f.name)) for f in fields if f.metadata.get("static"))
    sizes = (config.num_envs, config.batch_size, config.iterations, config.self_contacts)
    episodes = (config.fresh_episodes, config.exact, config.checkpoint_every, config.final_episodes)
    return config.task, config.algorithm, static, sizes, episodes, config.init_from
