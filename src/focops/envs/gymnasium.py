"""Any Gymnasium environment as a `VectorEnv`.

The cost is `info["cost"]`, a number or a vector, or the third of six things that `step` returns. Episode k of
environment i is reset with a seed that depends only on (seed, i, k), so a saved run is resumed by replaying the actions
of the running episodes. This is exact for every environment that is a function of its seed and its actions. If it is
not, or an episode is longer than REPLAYED steps, that environment begins a new episode instead, with a warning.
"""

import logging
import traceback
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from focops.core.spec import Spec
from focops.core.types import Step
from focops.envs.deadline import Deadline
from focops.envs.gymnasium_env import (
    HOW_TO_ADD_A_COST,
    action_bounds,
    action_encoder,
    check_shapes,
    open_env,
    require_in_range,
)
from focops.envs.limits import constrain
from focops.envs.stagger import first_horizons
from focops.errors import RunError, UsageError

log = logging.getLogger(__name__)

_NEVER = np.iinfo(np.int32).max
REPLAYED = 10_000
"""Actions of an episode that are stored for replaying."""


class GymnasiumVector:
    """E copies of one Gymnasium environment, one after the other in this thread (a `VectorEnv`).

    Observations are flattened, Discrete ones become one-hot. Continuous actions are clipped to the action space. A step
    that takes longer than `timeout` seconds ends the run; 0 for no limit.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        limits: Sequence[float] | None = None,
        discounts: Sequence[float] | None = None,
        stagger: bool = True,
        timeout: float = 0.0,
    ):
        self.env_id, self.num_envs, self.stagger, self.diverged = env_id, num_envs, stagger, 0
        self._warned = False
        self._deadline = Deadline(timeout, self._late)
        self._current, self._steps = 0, 0
        with self._deadline:
            self._envs = [open_env(env_id)]
        first = self._envs[0]
        self._space = first.observation_space
        if not self._space.is_np_flattenable:
            raise UsageError(f"{env_id} has the observation space {self._space}, which has no fixed size to flatten to")
        self._obs_size = spaces.flatdim(self._space)
        if self._obs_size == 0:
            raise UsageError(f"{env_id} has the observation space {self._space}, which is empty: observe one number")
        action_size, discrete, self._encode = action_encoder(env_id, first.action_space)
        self._num_costs = self._probe(first)
        time_limit = first.spec.max_episode_steps if first.spec else None
        m = self._num_costs
        names = ["cost"] if m == 1 else [f"cost_{j}" for j in range(m)]
        if limits is None:
            raise UsageError(
                f"{env_id} has {m} cost(s) and no limit of its own: give --cost-limit B, one number per cost"
            )
        self.spec = Spec(
            obs_size=self._obs_size,
            action_size=action_size,
            discrete=discrete,
            constraints=constrain(env_id, names, limits, [0.99] * m if discounts is None else discounts, time_limit),
            time_limit=time_limit,
            **action_bounds(first.action_space),
        )
        for self._current in range(1, num_envs):
            with self._deadline:
                self._envs.append(open_env(env_id))
        self._kept = min(time_limit or REPLAYED, REPLAYED)
        shape = (2 * self._kept, num_envs)
        self._actions = np.zeros(shape, np.int32) if discrete else np.zeros((*shape, action_size), np.float32)
        self.reset(0)

    def reset(self, seed: int) -> None:
        self._seed, self._steps = seed, 0
        self._episode = np.zeros(self.num_envs, np.int64)
        self.obs = np.zeros((self.num_envs, self.spec.obs_size), np.float32)
        self._seen_limit = self.spec.time_limit or _NEVER
        self.restart()

    def restart(self) -> None:
        self.age = np.zeros(self.num_envs, np.int32)
        self._horizon = np.full(self.num_envs, _NEVER, np.int32)  # the time limit itself is the environment's
        self._filled = 0
        self._begin(range(self.num_envs))
        if self.stagger and self._seen_limit < _NEVER:
            self._horizon = first_horizons(self.num_envs, self._seen_limit)

    def step(self, action: np.ndarray) -> Step:
        if not np.isfinite(action).all():
            raise RunError(f"the learner produced an action that is not finite, {action[~np.isfinite(action)][0]}")
        e = self.num_envs
        reward, cost = np.empty(e), np.empty((e, self._num_costs))
        terminated, truncated = np.empty(e, bool), np.empty(e, bool)
        next_obs = np.empty_like(self.obs)
        with self._deadline:
            for i, act in enumerate(self._encode(action)):
                obs, r, over, cut, info = self._ask(i, "step", act)
                next_obs[i], reward[i] = self._flat(obs, i), self._numbers("reward", r, (), i)
                terminated[i] = self._truth("terminated", over, i)
                truncated[i] = self._truth("truncated", cut, i)
                cost[i] = self._cost(info, i)
        for what, array in (("observation", next_obs), ("reward", reward), ("cost", cost)):
            self._check_finite(what, array)
        self._remember(action)
        self._steps += 1
        self.age = self.age + 1
        cut = ~(terminated | truncated) & (self.age >= self._horizon)
        own = np.flatnonzero(truncated & ~terminated)
        truncated |= cut
        self.obs = next_obs
        ended = terminated | truncated
        if ended.any():
            self.obs, lengths = next_obs.copy(), self.age.copy()
            self._begin(np.flatnonzero(ended))
            if own.size and lengths[own].min() < self._seen_limit:
                self._learn_limit(own, lengths)
        return Step(reward, cost, terminated, truncated, cut, next_obs)

    def _learn_limit(self, own: np.ndarray, lengths: np.ndarray) -> None:
        """Environments `own` have truncated episodes of those `lengths` themselves, before the known time limit.
        The shortest is the time limit from now on, and environments that ended there together are staggered by it."""
        self._seen_limit = limit = int(lengths[own].min())
        if self.spec.time_limit is not None and not self._warned:
            self._warned = True
            log.warning(
                "%s truncated an episode itself after %d steps, before the %d that it is registered with"
                " (max_episode_steps). Such an episode counts as whole: its cost is what it paid in those steps",
                self.env_id, limit, self.spec.time_limit,
            )  # fmt: skip
        if self.stagger:
            together = own[lengths[own] == limit]
            self._horizon[together] = first_horizons(self.num_envs, limit)[together]

    def state(self) -> dict[str, np.ndarray]:
        rows = min(int(self.age.max()), self._kept)
        return {
            "obs": self.obs.copy(),
            "age": self.age.copy(),
            "horizon": self._horizon.copy(),
            "episode": self._episode.copy(),
            "history": self._actions[self._filled - rows : self._filled].copy(),
            "seen_limit": np.array(self._seen_limit, np.int64),
            "seed": np.array(self._seed, np.int64),
            "steps": np.array(self._steps, np.int64),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Resume from a saved state: each running episode starts again from its seed and replays its actions."""
        if state["obs"].shape != self.obs.shape:
            raise UsageError(
                f"the saved observations have shape {state['obs'].shape}, {self.env_id} has {self.obs.shape} here:"
                " restore with the environment and the number of environments it was saved with"
            )
        self._seed, self._steps, self._seen_limit = (int(state[name]) for name in ("seed", "steps", "seen_limit"))
        self._episode, self._filled = state["episode"] - 1, 0
        self._begin(range(self.num_envs))
        self.age, self._horizon = state["age"].copy(), state["horizon"].copy()
        for action in state["history"]:
            self._remember(action)
        lost = [i for i in range(self.num_envs) if not self._replay(i, state)]
        if lost:
            self._begin(lost)
            log.warning(
                "%s: environment %d (and %d more) did not come back to its saved observation: it is not a function of"
                " its seed and actions, or its episode is longer than %d steps. It begins a new episode; everything"
                " else goes on exactly. Runs begun with --exact cut episodes at checkpoints, and need no replaying",
                self.env_id, lost[0], len(lost) - 1, REPLAYED,
            )  # fmt: skip

    def close(self) -> None:
        """Close every environment; an error is only a warning, since nothing is lost."""
        for i in range(len(self._envs)):
            try:
                with self._deadline:
                    self._ask(i, "close")
            except UsageError as error:  # the run has already ended, and this does not change its result
                log.warning("%s", error)

    def _replay(self, i: int, state: dict[str, np.ndarray]) -> bool:
        """Replay the actions of environment i's episode; returns whether the observation is the saved one."""
        age, history = int(self.age[i]), state["history"]
        if age > len(history):
            return False
        try:
            for action in history[len(history) - age :]:
                self.obs[i] = self._flat(self._ask(i, "step", self._encode(action)[i])[0], i)
        except RunError:
            return False
        return bool((self.obs[i] == state["obs"][i]).all())

    def _remember(self, action: np.ndarray) -> None:
        """Store the latest actions for replaying."""
        if self._filled == len(self._actions):
            self._actions[: self._kept] = self._actions[self._kept :]
            self._filled = self._kept
        self._actions[self._filled] = action
        self._filled += 1

    def _begin(self, ids: Sequence[int] | np.ndarray) -> None:
        """Start the next episode of some environments, each from its own seed."""
        with self._deadline:
            for i in ids:
                seed = np.random.SeedSequence((self._seed, i, int(self._episode[i]))).generate_state(1)[0]
                self.obs[i] = self._flat(self._reset(i, int(seed)), i)
                self._episode[i] += 1
                self.age[i], self._horizon[i] = 0, _NEVER
        self._check_finite("first observation", self.obs)

    def _reset(self, i: int, seed: int) -> Any:
        """The first observation of an environment's episode."""
        answer = self._ask(i, "reset", seed=seed)
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise RunError(
                f"environment {i} of {self.env_id} returned {answer!r} from reset at step {self._steps}:"
                " it must return (observation, info)"
            )
        return answer[0]

    def _ask(self, i: int, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call one environment; an error names the environment and the method."""
        self._current = i
        try:
            return getattr(self._envs[i], method)(*args, **kwargs)
        except UsageError:
            raise
        except (Exception, SystemExit) as error:  # an environment must not end the process
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise RunError(
                f"environment {i} of {self.env_id} raised {type(error).__name__}: {error}"
                f" ({where.filename}:{where.lineno}) in {method} at step {self._steps}"
            ) from error

    def _late(self) -> str:
        return f"environment {self._current} of {self.env_id} did not answer at step {self._steps}"

    def _flat(self, obs: Any, i: int) -> np.ndarray:
        try:
            check_shapes(self._space, obs)
            require_in_range(self._space, obs)
            flat = np.asarray(spaces.flatten(self._space, obs))
            if flat.shape != (self._obs_size,):
                raise ValueError(f"{flat.size} numbers instead of {self._obs_size}")
            return flat
        except Exception as error:  # whatever an object that is no observation may raise
            raise RunError(
                f"environment {i} of {self.env_id} returned an observation that is not of its observation space"
                f" {self._space} at step {self._steps} ({error})"
            ) from error

    def _probe(self, env: gymnasium.Env) -> int:
        """Number of costs, from one random step."""
        env.action_space.seed(0)
        with self._deadline:
            self._reset(0, 0)
            info = self._ask(0, "step", env.action_space.sample())[4]
        if not isinstance(info, dict) or "cost" not in info:
            raise UsageError(f"{self.env_id} returns no cost: {HOW_TO_ADD_A_COST}")
        cost = info["cost"]
        try:
            self._num_costs = np.size(cost)
        except ValueError:  # ragged
            self._num_costs = 0
        if self._num_costs == 0 or np.ndim(cost) > 1:
            raise UsageError(f"{self.env_id} returns {cost!r} as its cost: it must be a number or a vector")
        self._cost(info, 0)
        return self._num_costs

    def _cost(self, info: Any, i: int) -> np.ndarray:
        if not isinstance(info, dict) or "cost" not in info:
            raise RunError(
                f"environment {i} of {self.env_id} returned no cost at step {self._steps}:"
                ' every step must return info["cost"], 0 where nothing was paid'
            )
        return self._numbers("cost", info["cost"], (self._num_costs,), i)

    def _numbers(self, what: str, value: Any, shape: tuple[int, ...], i: int) -> np.ndarray:
        try:
            numbers = np.asarray(value, np.float64)
        except (TypeError, ValueError, OverflowError):
            numbers = None
        shapes = [(), shape] if shape == (1,) else [shape]
        if numbers is None or numbers.shape not in shapes:
            due = " or ".join(f"an array of shape {each}" if each else "a number" for each in shapes)
            raise RunError(
                f"environment {i} of {self.env_id} returned {value!r} as its {what} at step {self._steps}:"
                f" it must be {due}"
            )
        return numbers

    def _truth(self, what: str, value: Any, i: int) -> bool:
        try:
            found = np.asarray(value)
            fits = found.shape == () and found.item() in (True, False)  # as 0 and 1 are; None is not
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise RunError(
                f"environment {i} of {self.env_id} returned {value!r} as its {what} at step {self._steps}:"
                " it must be True or False"
            )
        return bool(value)

    def _check_finite(self, what: str, array: np.ndarray) -> None:
        if not np.isfinite(array).all():
            i, *index = np.argwhere(~np.isfinite(array))[0]
            raise RunError(
                f"environment {i} of {self.env_id} returned {array[(i, *index)]} in its {what}"
                f" (index {tuple(map(int, index))}) at step {self._steps}, age {self.age[i]} of its episode:"
                " only finite numbers can be learned from; end the episode there instead"
            )
