"""Anybody's Gymnasium environment as a `VectorEnv`.

The cost is `info["cost"]`, a number or a vector, or the third of six things that `step` returns. Episode k of
environment i is reset with a seed that depends on (seed, i, k) alone, so a saved run goes on by replaying the actions
of the running episodes: exact for every environment that is a function of its seed and its actions.
"""

import copy
import difflib
import importlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import load_env_creator

from focops.core.spec import Spec
from focops.core.types import Step
from focops.envs.limits import constrain
from focops.envs.stagger import first_horizons
from focops.envs.tasks import TASKS
from focops.errors import UsageError

log = logging.getLogger(__name__)

NEVER = np.iinfo(np.int32).max

HOW_TO_ADD_A_COST = """return one from step, in info["cost"] (a number, or one per constraint) or third of six values;
for an environment that is not yours, register a wrapper of it with gymnasium.register and train that:
    class Costed(gymnasium.Wrapper):
        def step(self, action):
            obs, reward, terminated, truncated, info = self.env.step(action)
            return obs, reward, terminated, truncated, {**info, "cost": my_cost(obs, action)}"""


class CostIntoInfo(gymnasium.Wrapper):
    """Moves the third of six returned values into info["cost"]; innermost, so that Gymnasium's wrappers see five."""

    def step(self, action: Any) -> Any:
        result: Any = self.env.step(action)
        if len(result) == 5:
            return result
        if len(result) != 6:
            raise UsageError(
                f"{type(self.unwrapped).__name__}.step returned {len(result)} values: it must return 5 (obs, reward,"
                " terminated, truncated, info) or 6 (obs, reward, cost, terminated, truncated, info)"
            )
        obs, reward, cost, terminated, truncated, info = result
        return obs, reward, terminated, truncated, {**info, "cost": cost}


def open_env(env_id: str) -> gymnasium.Env:
    """The environment of that id ("Id-v0" or "module:Id-v0") with its time limit, costs in info."""
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UsageError(
                f"{env_id}: the module {module!r} cannot be imported ({error}); is it installed, or on PYTHONPATH?"
            ) from error
    if name not in gymnasium.registry:
        known = [*(task.removesuffix("-v0") for task in TASKS), *TASKS, *gymnasium.registry]
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(close)}?" if close else "`focops tasks` lists ours"
        raise UsageError(
            f"there is no task or Gymnasium environment {env_id!r}: {hint}"
            " (an id that a module of yours registers is written module:Id-v0)"
        )
    spec = copy.copy(gymnasium.spec(name))
    creator: Any = spec.entry_point if callable(spec.entry_point) else load_env_creator(str(spec.entry_point))

    def create(**kwargs: Any) -> gymnasium.Env:
        env = creator(**kwargs)
        return CostIntoInfo(env) if isinstance(env, gymnasium.Env) else env

    spec.entry_point = create
    try:
        return gymnasium.make(spec, disable_env_checker=True)
    except gymnasium.error.DependencyNotInstalled as error:
        raise UsageError(f"{env_id} needs a package that is not installed: {error}") from error


def action_encoder(env_id: str, space: spaces.Space) -> tuple[int, bool, Callable[[np.ndarray], Any]]:
    """(size, discrete, function from the policy's actions [E, A] or [E] to the environment's)."""
    if isinstance(space, spaces.Discrete):
        return int(space.n), True, lambda action: action.astype(np.int64) + space.start
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high, shape = space.low.ravel(), space.high.ravel(), space.shape
        return low.size, False, lambda action: np.clip(action, low, high).astype(space.dtype).reshape(-1, *shape)
    raise UsageError(f"{env_id} has the action space {space}: only Discrete and Box of floats can be trained")


def action_bounds(space: spaces.Space) -> dict[str, tuple[float, ...]]:
    if isinstance(space, spaces.Box) and space.is_bounded():
        return {"action_low": tuple(space.low.ravel().tolist()), "action_high": tuple(space.high.ravel().tolist())}
    return {}


class GymnasiumVector:
    """E copies of one Gymnasium environment, one after the other in this thread (a `VectorEnv`).

    Observations are flattened, Discrete ones become one-hot. Continuous actions are clipped to the action space.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        limits: Sequence[float] | None = None,
        discounts: Sequence[float] | None = None,
        stagger: bool = True,
    ):
        self.env_id, self.num_envs, self.stagger, self.diverged = env_id, num_envs, stagger, 0
        self._envs = [open_env(env_id)]
        first = self._envs[0]
        self._space = first.observation_space
        if not self._space.is_np_flattenable:
            raise UsageError(f"{env_id} has the observation space {self._space}, which has no fixed size to flatten to")
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
            obs_size=spaces.flatdim(self._space),
            action_size=action_size,
            discrete=discrete,
            constraints=constrain(env_id, names, limits, [0.99] * m if discounts is None else discounts, time_limit),
            time_limit=time_limit,
            **action_bounds(first.action_space),
        )
        self._envs += [open_env(env_id) for _ in range(num_envs - 1)]
        self.reset(0)

    def reset(self, seed: int) -> None:
        self._seed, self._steps = seed, 0
        self._episode = np.zeros(self.num_envs, np.int64)
        self.obs = np.zeros((self.num_envs, self.spec.obs_size), np.float32)
        self.restart()
        if self.stagger and self.spec.time_limit is not None:
            self._horizon = first_horizons(self.num_envs, self.spec.time_limit)

    def restart(self) -> None:
        self.age = np.zeros(self.num_envs, np.int32)
        self._horizon = np.full(self.num_envs, NEVER, np.int32)  # the time limit itself is Gymnasium's TimeLimit
        self._history: deque[np.ndarray] = deque()
        self._begin(range(self.num_envs))

    def step(self, action: np.ndarray) -> Step:
        e = self.num_envs
        reward, cost = np.empty(e), np.empty((e, self._num_costs))
        terminated, truncated = np.empty(e, bool), np.empty(e, bool)
        next_obs = np.empty_like(self.obs)
        for i, (env, act) in enumerate(zip(self._envs, self._encode(action), strict=True)):
            obs, r, terminated[i], truncated[i], info = env.step(act)
            next_obs[i], reward[i], cost[i] = self._flat(obs, i), self._numbers("reward", r, (), i), self._cost(info, i)
        for what, array in (("observation", next_obs), ("reward", reward), ("cost", cost)):
            self._check_finite(what, array)
        self._history.append(np.array(action))
        self._steps += 1
        self.age = self.age + 1
        truncated |= self.age >= self._horizon
        self.obs = next_obs
        ended = terminated | truncated
        if ended.any():
            self.obs = next_obs.copy()
            self._begin(np.flatnonzero(ended))
            while len(self._history) > self.age.max():
                self._history.popleft()
        return Step(reward, cost, terminated, truncated, next_obs)

    def state(self) -> dict[str, np.ndarray]:
        return {
            "obs": self.obs.copy(),
            "age": self.age.copy(),
            "horizon": self._horizon.copy(),
            "episode": self._episode.copy(),
            "history": np.array(self._history),
            "seed": np.array(self._seed, np.int64),
            "steps": np.array(self._steps, np.int64),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from a saved state: each running episode is begun again from its seed and its actions repeated."""
        if state["obs"].shape != self.obs.shape:
            raise UsageError(
                f"the saved observations have shape {state['obs'].shape}, {self.env_id} has {self.obs.shape} here:"
                " restore with the environment and the number of environments it was saved with"
            )
        self._seed, self._steps = int(state["seed"]), int(state["steps"])
        self._episode = state["episode"] - 1
        self._begin(range(self.num_envs))
        self.age, self._horizon = state["age"].copy(), state["horizon"].copy()
        self._history = deque(state["history"])
        encoded = [self._encode(action) for action in self._history]
        for i, age in enumerate(self.age):
            for actions in encoded[len(encoded) - age :]:
                self.obs[i] = self._flat(self._envs[i].step(actions[i])[0], i)
        strayed = np.flatnonzero((self.obs != state["obs"]).any(1))
        if strayed.size:
            log.warning(
                "%s: environment %d did not come back to its saved observation; it is not a function of its seed and"
                " actions, so this run goes on from another state than it was saved in",
                self.env_id,
                strayed[0],
            )

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _begin(self, ids: Sequence[int] | np.ndarray) -> None:
        """Start the next episode of some environments, each from its own seed."""
        for i in ids:
            seed = np.random.SeedSequence((self._seed, i, int(self._episode[i]))).generate_state(1)[0]
            self.obs[i] = self._flat(self._envs[i].reset(seed=int(seed))[0], i)
            self._episode[i] += 1
            self.age[i], self._horizon[i] = 0, NEVER
        self._check_finite("first observation", self.obs)

    def _flat(self, obs: Any, i: int) -> np.ndarray:
        try:
            if isinstance(self._space, spaces.Box) and np.shape(obs) != self._space.shape:
                raise ValueError(f"shape {np.shape(obs)}")
            return np.asarray(spaces.flatten(self._space, obs))
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise UsageError(
                f"environment {i} of {self.env_id} returned an observation that is not of its observation space"
                f" {self._space} at step {self._steps} ({error})"
            ) from error

    def _probe(self, env: gymnasium.Env) -> int:
        """Number of costs, from one random step."""
        env.action_space.seed(0)
        env.reset(seed=0)
        info = env.step(env.action_space.sample())[4]
        if "cost" not in info:
            raise UsageError(f"{self.env_id} returns no cost: {HOW_TO_ADD_A_COST}")
        costs = np.size(info["cost"])
        if costs == 0 or np.ndim(info["cost"]) > 1:
            shape = np.shape(info["cost"])
            raise UsageError(f"{self.env_id} returns a cost of shape {shape}: it must be a number or a vector")
        self._steps, self._num_costs = 0, costs
        self._cost(info, 0)
        return costs

    def _cost(self, info: dict[str, Any], i: int) -> np.ndarray:
        if "cost" not in info:
            raise UsageError(
                f"environment {i} of {self.env_id} returned no cost at step {self._steps}:"
                ' every step must return info["cost"], 0 where nothing was paid'
            )
        cost = info["cost"]
        scalar = self._num_costs == 1 and np.ndim(cost) == 0
        return self._numbers("cost", cost, () if scalar else (self._num_costs,), i)

    def _numbers(self, what: str, value: Any, shape: tuple[int, ...], i: int) -> np.ndarray:
        try:
            numbers = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            numbers = None
        if numbers is None or numbers.shape != shape:
            due = f"an array of shape {shape}" if shape else "a number"
            raise UsageError(
                f"environment {i} of {self.env_id} returned {value!r} as its {what} at step {self._steps}:"
                f" it must be {due}"
            )
        return numbers

    def _check_finite(self, what: str, array: np.ndarray) -> None:
        if not np.isfinite(array).all():
            i, *index = np.argwhere(~np.isfinite(array))[0]
            raise UsageError(
                f"environment {i} of {self.env_id} returned {array[(i, *index)]} in its {what}"
                f" (index {tuple(map(int, index))}) at step {self._steps}, age {self.age[i]} of its episode:"
                " only finite numbers can be learned from; end the episode there instead"
            )
