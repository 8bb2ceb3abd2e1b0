"""Environments in this process, one after the other: without workers all of them, in a worker its own."""

from focops.envs.checked_env import CheckedEnv
from focops.envs.deadline import Deadline
from focops.envs.gymnasium_env import action_bounds, action_encoder
from focops.envs.worker import Envs
from focops.errors import RunError


class LocalEnvs(Envs):
    """Environments of one id. The first is opened at once, and tried if nobody has counted its costs yet."""

    failure = RunError

    def __init__(self, env_id: str, index: int = 0, num_costs: int | None = None, timeout: float = 0.0) -> None:
        super().__init__(env_id, index)
        self.deadline = Deadline(timeout, self._late)
        with self.deadline:
            self._first = first = self.envs[index] = CheckedEnv(env_id, index)
        space = first.env.action_space
        action_size, discrete, self.encode = action_encoder(env_id, space)
        if num_costs is None:
            with self.deadline:
                first.count_costs()
        else:
            first.num_costs = num_costs
        self.description = {
            "obs_size": first.obs_size,
            "action_size": action_size,
            "discrete": discrete,
            "action_low": None,
            "action_high": None,
            **action_bounds(space),
            "time_limit": first.env.spec.max_episode_steps if first.env.spec else None,
            "num_costs": first.num_costs,
        }

    def open(self, index: int) -> CheckedEnv:
        return CheckedEnv(self.env_id, index, self._first)

    def _late(self) -> str:
        return f"environment {self.current[0]} of {self.env_id} did not answer at step {self.at}"
