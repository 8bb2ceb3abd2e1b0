"""Any Gymnasium environment as a `VectorEnv`.

The cost is `info["cost"]` (a number, a vector or a mapping), or the third of six things that `step` returns. Episode k
of environment i is reset with a seed that depends only on (seed, i, k), so a saved run is resumed by replaying the
actions of the running episodes. This is exact for every environment that is a function of its seed and its actions. If
it is not, or an episode is longer than REPLAYED steps, that environment begins a new episode instead, with a warning.
"""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from focops.core.spec import Spec
from focops.core.types import Step
from focops.envs.checked_env import CheckedEnv
from focops.envs.deadline import Deadline
from focops.envs.gymnasium_env import action_bounds, action_encoder, source_of, time_limit_of
from focops.envs.limits import PerCost, constrain
from focops.envs.names import named
from focops.envs.stagger import first_horizons
from focops.errors import RunError, UsageError

log = logging.getLogger(__name__)

_NEVER = np.iinfo(np.int32).max
REPLAYED = 10_000
"""Actions of an episode that are stored for replaying."""


class GymnasiumVector:
    """E copies of one Gymnasium environment, one after the other in this thread (a `VectorEnv`). `env` and `cost` are
    what `source_of` takes.

    Observations are flattened, Discrete ones become one-hot. Continuous actions are clipped to the action space. A step
    that takes longer than `timeout` seconds ends the run; 0 for no limit.
    """

    def __init__(
        self,
        env: Any,
        num_envs: int,
        limits: PerCost | None = None,
        discounts: PerCost | None = None,
        needs_cost: bool = True,
        stagger: bool = True,
        timeout: float = 0.0,
        cost: Any = None,
    ):
        self.env_id, _ = named(env)
        self.num_envs, self.stagger, self.diverged = num_envs, stagger, 0
        self._warned = False
        self._deadline = Deadline(timeout, self._late)
        self._current, self._steps = 0, 0
        with self._deadline:
            source = source_of(env, cost)
            source.require_enough(num_envs)
            first = CheckedEnv(source, 0)
        self._envs = [first]
        action_size, discrete, self._encode = action_encoder(self.env_id, first.env.action_space)
        with self._deadline:
            first.find_costs(needs_cost, limits)
        time_limit = time_limit_of(first.env)
        self.spec = Spec(
            obs_size=first.obs_size,
            action_size=action_size,
            discrete=discrete,
            constraints=constrain(self.env_id, first.costs, limits, discounts, time_limit),
            time_limit=time_limit,
            **action_bounds(first.env.action_space),
        )
        for self._current in range(1, num_envs):
            with self._deadline:
                self._envs.append(CheckedEnv(source, self._current, first))
        self._replayable = min(time_limit or REPLAYED, REPLAYED)
        shape = (2 * self._replayable, num_envs)
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
        reward, cost = np.empty(e), np.empty((e, len(self.spec.constraints)))
        terminated, truncated = np.empty(e, bool), np.empty(e, bool)
        next_obs = np.empty_like(self.obs)
        with self._deadline:
            for i, act in enumerate(self._encode(action)):
                next_obs[i], reward[i], cost[i], terminated[i], truncated[i] = self._ask(i).step(act, self._steps)
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
            self._begin(np.flatnonzero(ended).tolist())
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
        rows = min(int(self.age.max()), self._replayable)
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
                    self._ask(i).close(self._steps)
            except UsageError as error:  # the run has already ended, and this does not change its result
                log.warning("%s", error)

    def _replay(self, i: int, state: dict[str, np.ndarray]) -> bool:
        """Replay the actions of environment i's episode; returns whether the observation is the saved one."""
        age, history = int(self.age[i]), state["history"]
        if age > len(history):
            return False
        try:
            for action in history[len(history) - age :]:
                self.obs[i] = self._ask(i).step(self._encode(action)[i], self._steps).obs
        except RunError:
            return False
        return bool((self.obs[i] == state["obs"][i]).all())

    def _remember(self, action: np.ndarray) -> None:
        """Store the latest actions for replaying."""
        if self._filled == len(self._actions):
            self._actions[: self._replayable] = self._actions[self._replayable :]
            self._filled = self._replayable
        self._actions[self._filled] = action
        self._filled += 1

    def _begin(self, ids: Sequence[int]) -> None:
        """Start the next episode of some environments, each from its own seed."""
        with self._deadline:
            for i in ids:
                seed = np.random.SeedSequence((self._seed, i, int(self._episode[i]))).generate_state(1)[0]
                self.obs[i] = self._ask(i).reset(int(seed), self._steps)
                self._episode[i] += 1
                self.age[i], self._horizon[i] = 0, _NEVER
        self._check_finite("first observation", self.obs)

    def _ask(self, i: int) -> CheckedEnv:
        """Environment i, which the deadline's message names from now on."""
        self._current = i
        return self._envs[i]

    def _late(self) -> str:
        return f"environment {self._current} of {self.env_id} did not answer at step {self._steps}"

    def _check_finite(self, what: str, array: np.ndarray) -> None:
        if not np.isfinite(array).all():
            i, *index = np.argwhere(~np.isfinite(array))[0]
            raise RunError(
                f"environment {i} of {self.env_id} returned {array[(i, *index)]} in its {what}"
                f" (index {tuple(map(int, index))}) at step {self._steps}, age {self.age[i]} of its episode:"
                " only finite numbers can be learned from; end the episode there instead"
            )
