"""One Gymnasium environment whose answers are checked. An error names the environment, the step and the value."""

import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from focops.envs.contract import Answers, size_of
from focops.envs.gymnasium_env import HOW_TO_ADD_A_COST, NoStep, Source, check_shapes, require_in_range
from focops.errors import RunError, UsageError


class Answer(NamedTuple):
    """What `step` returned; the observation is flattened. Numbers may still be infinite or NaN."""

    obs: np.ndarray
    reward: np.ndarray
    cost: np.ndarray
    terminated: bool
    truncated: bool


class CheckedEnv(Answers):
    """Environment `index` of several of one source. `like` is another of them: this one must have its observation
    space and its costs. `at` is the step of the run, for messages."""

    def __init__(self, source: Source, index: int, like: "CheckedEnv | None" = None) -> None:
        super().__init__(source.name, index, (like.costs, like.named) if like else None)
        self._source = source
        self.env = source.open()
        if like is not None and self.env.unwrapped is like.env.unwrapped:
            raise UsageError(f"{self.id} made the same environment twice: make a new one in each call, or num_envs=1")
        self._space = like._space if like else self.env.observation_space
        self.obs_size = size_of(self._space, self.id)

    def reset(self, seed: int, at: int) -> np.ndarray:
        """The first observation of an episode."""
        return self._flat(self._first_observation(seed, at), at)

    def step(self, action: Any, at: int) -> Answer:
        obs, reward, terminated, truncated, info = self._call("step", at, action)
        return Answer(
            self._flat(obs, at),
            self.numbers("reward", reward, (), at),
            terminated=self.truth("terminated", terminated, at),
            truncated=self.truth("truncated", truncated, at),
            cost=self.checked_costs(_cost(info), at),
        )

    def close(self, at: int) -> None:
        if not self._source.is_instance:
            self._call("close", at)

    def try_out(self, needs_cost: bool, order: Sequence[str] = ()) -> None:
        """Find the costs by one random step. The order of costs with names is that of this step, or the given one."""
        self.env.action_space.seed(0)
        self._first_observation(0, 0)
        cost = _cost(self._call("step", 0, self.env.action_space.sample())[4])
        if cost is not None:
            self.find_costs(cost, order)
        elif needs_cost:
            raise UsageError(f"{self.id} returns no cost: {HOW_TO_ADD_A_COST}")

    def _call(self, method: str, at: int, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(self.env, method)(*args, **kwargs)
        except NoStep as error:
            raise RunError(
                f"{self.name} returned {error} from step at step {at}: it must return 5 values (obs, reward,"
                " terminated, truncated, info) or 6 (obs, reward, cost, terminated, truncated, info)"
            ) from None
        except (Exception, SystemExit) as error:  # an environment must not end the process
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise RunError(
                f"{self.name} raised {type(error).__name__}: {error} ({where.filename}:{where.lineno})"
                f" in {method} at step {at}"
            ) from error

    def _first_observation(self, seed: int, at: int) -> Any:
        answer = self._call("reset", at, seed=seed)
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise RunError(
                f"{self.name} returned {answer!r} from reset at step {at}: it must return (observation, info)"
            )
        return answer[0]

    def _flat(self, obs: Any, at: int) -> np.ndarray:
        try:
            check_shapes(self._space, obs)
            require_in_range(self._space, obs)
            flat = np.asarray(spaces.flatten(self._space, obs))
            if flat.shape != (self.obs_size,):
                raise ValueError(f"{flat.size} numbers instead of {self.obs_size}")
            return flat
        except Exception as error:  # whatever an object that is no observation may raise
            raise RunError(
                f"{self.name} returned an observation that is not of its observation space {self._space}"
                f" at step {at} ({error})"
            ) from error


def _cost(info: Any) -> Any:
    """None if there is none."""
    return info.get("cost") if isinstance(info, dict) else None
