"""Which runs can share a program."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from focops.config import TrainConfig
from focops.errors import UsageError


def require_alike(configs: Sequence[TrainConfig]) -> TrainConfig:
    """Refuse runs that cannot share a program; the first of them."""
    first = sharing_key(configs[0])
    for config in configs:
        if sharing_key(config) != first:
            raise UsageError("runs of one program may differ in seed and in traced numbers only; group them first")
    return configs[0]


def sharing_key(config: TrainConfig) -> Any:
    """The values that are constants of the compiled program; runs with equal keys are trained, saved and evaluated
    together."""
    fields = dataclasses.fields(config.algo)
    static = tuple((f.name, getattr(config.algo, f.name)) for f in fields if f.metadata.get("static"))
    sizes = (config.num_envs, config.batch_size, config.iterations, config.self_contacts)
    episodes = (config.fresh_episodes, config.exact, config.checkpoint_every, config.final_episodes, config.candidates)
    return config.task, config.algorithm, static, sizes, episodes, config.init_from
