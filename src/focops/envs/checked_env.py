"""One Gymnasium environment whose answers are checked. An error names the environment, the step and the value."""

import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from gymnasium import spaces

from focops.envs.gymnasium_env import HOW_TO_ADD_A_COST, Source, check_shapes, require_in_range
from focops.envs.limits import unnamed
from focops.errors import RunError, UsageError


class Answer(NamedTuple):
    """What `step` returned; the observation is flattened. Numbers may still be infinite or NaN."""

    obs: np.ndarray
    reward: np.ndarray
    cost: np.ndarray
    terminated: bool
    truncated: bool


class CheckedEnv:
    """Environment `index` of several of one source. `like` is another of them: this one must have its observation
    space and its costs. `at` is the step of the run, for messages."""

    def __init__(self, source: Source, index: int, like: "CheckedEnv | None" = None) -> None:
        self._source, self._id = source, source.name
        self._name = f"environment {index} of {self._id}"
        self.env = source.open()
        if like is not None and self.env.unwrapped is like.env.unwrapped:
            raise UsageError(f"{self._id} made the same environment twice: make a new one in each call, or num_envs=1")
        self._space = like._space if like else self.env.observation_space
        if not self._space.is_np_flattenable:
            raise UsageError(
                f"{self._id} has the observation space {self._space}, which has no fixed size to flatten to"
            )
        self.obs_size = spaces.flatdim(self._space)
        if self.obs_size == 0:
            raise UsageError(f"{self._id} has the observation space {self._space}, which is empty: observe one number")
        self.costs: tuple[str, ...] = like.costs if like else ()
        """The names of the costs, in the order of `Answer.cost`."""
        self.named = like.named if like else False
        """Whether the environment names them itself."""

    def reset(self, seed: int, at: int) -> np.ndarray:
        """The first observation of an episode."""
        return self._flat(self._first_observation(seed, at), at)

    def step(self, action: Any, at: int) -> Answer:
        obs, reward, terminated, truncated, info = self._call("step", at, action)
        return Answer(
            self._flat(obs, at),
            self._numbers("reward", reward, (), at),
            terminated=self._truth("terminated", terminated, at),
            truncated=self._truth("truncated", truncated, at),
            cost=self._cost(info, at),
        )

    def close(self, at: int) -> None:
        if not self._source.is_instance:
            self._call("close", at)

    def find_costs(self, needed: bool, order: Sequence[str] = ()) -> None:
        """Set `costs`, from one random step. The order of costs with names is that of this step, or the given one."""
        self.env.action_space.seed(0)
        self._first_observation(0, 0)
        info = self._call("step", 0, self.env.action_space.sample())[4]
        if not isinstance(info, dict) or "cost" not in info:
            if needed:
                raise UsageError(f"{self._id} returns no cost: {HOW_TO_ADD_A_COST}")
            return
        cost = info["cost"]
        self.named = isinstance(cost, Mapping)
        self.costs = tuple(cost) if isinstance(cost, Mapping) else unnamed(_size(cost))
        if not self.costs or not all(isinstance(name, str) and name for name in self.costs):
            raise UsageError(
                f"{self._id} returns {cost!r} as its cost: it must be a number, a vector, or a mapping from names"
            )
        if self.named and set(order) == set(self.costs):
            self.costs = tuple(order)
        self._cost(info, 0)

    def _call(self, method: str, at: int, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(self.env, method)(*args, **kwargs)
        except UsageError:
            raise
        except (Exception, SystemExit) as error:  # an environment must not end the process
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise RunError(
                f"{self._name} raised {type(error).__name__}: {error} ({where.filename}:{where.lineno})"
                f" in {method} at step {at}"
            ) from error

    def _first_observation(self, seed: int, at: int) -> Any:
        answer = self._call("reset", at, seed=seed)
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise RunError(
                f"{self._name} returned {answer!r} from reset at step {at}: it must return (observation, info)"
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
                f"{self._name} returned an observation that is not of its observation space {self._space}"
                f" at step {at} ({error})"
            ) from error

    def _cost(self, info: Any, at: int) -> np.ndarray:
        if not self.costs:
            return np.zeros(0)
        if not isinstance(info, dict) or "cost" not in info:
            raise RunError(
                f"{self._name} returned no cost at step {at}:"
                ' every step must return info["cost"], 0 where nothing was paid'
            )
        cost = info["cost"]
        if not self.named:
            return self._numbers("cost", cost, (len(self.costs),), at)
        if not isinstance(cost, Mapping) or cost.keys() != set(self.costs):
            self._refuse("cost", cost, f"a mapping from {', '.join(self.costs)}, as in the first step", at)
        return np.array([self._numbers(f"cost {name!r}", cost[name], (), at) for name in self.costs])

    def _numbers(self, what: str, value: Any, shape: tuple[int, ...], at: int) -> np.ndarray:
        try:
            numbers = np.asarray(value, np.float64)
        except (TypeError, ValueError, OverflowError):
            numbers = None
        shapes = [(), shape] if shape == (1,) else [shape]
        if numbers is None or numbers.shape not in shapes:
            due = " or ".join(f"an array of shape {each}" if each else "a number" for each in shapes)
            self._refuse(what, value, due, at)
        return numbers

    def _truth(self, what: str, value: Any, at: int) -> bool:
        try:
            found = np.asarray(value)
            fits = found.shape == () and found.item() in (True, False)  # as 0 and 1 are; None is not
        except (TypeError, ValueError):
            fits = False
        if not fits:
            self._refuse(what, value, "True or False", at)
        return bool(value)

    def _refuse(self, what: str, value: Any, due: str, at: int) -> NoReturn:
        raise RunError(f"{self._name} returned {value!r} as its {what} at step {at}: it must be {due}")


def _size(cost: Any) -> int:
    """Numbers in a number or a vector; 0 for anything else."""
    try:
        return np.size(cost) if np.ndim(cost) <= 1 else 0
    except ValueError:  # ragged
        return 0
