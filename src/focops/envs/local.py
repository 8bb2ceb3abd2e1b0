"""Environments in this process, one after the other: without workers all of them, in a worker its own."""

from collections.abc import Sequence
from typing import Any

from focops.envs.checked_env import CheckedEnv
from focops.envs.contract import spaces
from focops.envs.deadline import Deadline
from focops.envs.gymnasium_env import source_of, time_limit_of
from focops.envs.names import Opening
from focops.envs.worker import Envs
from focops.errors import RunError, UsageError


class LocalEnvs(Envs):
    """Environments of one source. The first is opened at once, and tried if `costs` (their names, and whether the
    environment names them itself) are not known yet."""

    failure = RunError

    def __init__(
        self, opening: Opening, index: int = 0, costs: tuple[Sequence[str], bool] | None = None, timeout: float = 0.0
    ) -> None:
        super().__init__(opening.name, index)
        self.deadline = Deadline(timeout, self._late)
        with self.deadline:
            self._source = source_of(opening.env, opening.cost, opening.render)
            self._first = first = self.envs[index] = CheckedEnv(self._source, index)
        try:
            described, self.encode = spaces(first.env.observation_space, first.env.action_space)
        except ValueError as error:
            raise UsageError(f"{self.env_id} has {error}") from None
        if costs is None:
            with self.deadline:
                first.try_out(opening.needs_cost, opening.order)
        else:
            first.costs, first.named = tuple(costs[0]), costs[1]
        self.description: dict[str, Any] = {
            "obs_size": first.obs_size,
            **described,
            "time_limit": time_limit_of(first.env),
            "costs": list(first.costs),
            "named": first.named,
        }

    @classmethod
    def by_name(cls, index: int, costs: Any, **opening: Any) -> "LocalEnvs":
        """In a worker, of what `Opening.by_name` gives."""
        env, cost, order = opening["env_id"], opening["cost"], tuple(opening["order"])
        return cls(Opening(env, cost, opening["needs_cost"], order), index, costs)

    def add(self, indices: Sequence[int]) -> None:
        self._source.require_enough(len(self.envs) + len(indices))
        super().add(indices)

    def open(self, index: int) -> CheckedEnv:
        return CheckedEnv(self._source, index, self._first)

    def _late(self) -> str:
        return f"environment {self.current[0]} of {self.env_id} did not answer at step {self.at}"
