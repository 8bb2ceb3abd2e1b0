"""Any Gymnasium environment as a `VectorEnv`.

The cost is `info["cost"]` (a number, a vector or a mapping), or the third of six things that `step` returns. Episode k
of environment i is reset with a seed that depends only on (seed, i, k), so a saved run is resumed by replaying the
actions of the running episodes. This is exact for every environment that is a function of its seed and its actions. If
it is not, or an episode is longer than REPLAYED steps, that environment begins a new episode instead, with a warning.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from focops.core.spec import Spec
from focops.core.types import Step
from focops.envs.limits import PerCost, constrain
from focops.envs.names import Opening
from focops.envs.place import place
from focops.envs.stagger import first_horizons
from focops.errors import RunError, UsageError

log = logging.getLogger(__name__)

_NEVER = np.iinfo(np.int32).max
REPLAYED = 10_000
"""Actions of an episode that are stored for replaying."""


class GymnasiumVector:
    """E copies of one Gymnasium environment, in this thread or in worker processes (a `VectorEnv`). `env` and `cost`
    are what `source_of` takes.

    Observations are flattened, Discrete ones become one-hot. Continuous actions are clipped to the action space. A step
    that takes longer than `timeout` seconds ends the run; 0 for no limit. `workers` and `python` are those of `place`;
    results do not depend on the number of workers. `note` says how it was chosen.
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
        workers: int | None = 0,
        python: Path | None = None,
    ):
        order = tuple(limits) if isinstance(limits, Mapping) else ()
        opening = Opening(env, cost, needs_cost, order)
        self.env_id = opening.name
        self.num_envs, self.stagger, self.diverged = num_envs, stagger, 0
        self._warned = False
        self._steps = 0
        self._envs, self.note = place(opening, num_envs, workers, python, timeout)
        found = self._envs.description
        time_limit = found["time_limit"]
        self.spec = spec_of(self.env_id, found, limits, discounts)
        self._envs.add(range(1, num_envs))
        self._replayable = min(time_limit or REPLAYED, REPLAYED)
        shape = (2 * self._replayable, num_envs, *self.spec.action_shape)
        self._actions = np.zeros(shape, self.spec.action_dtype)
        self.reset(0)

    def reset(self, seed: int) -> None:
        self._seed, self._steps = seed, 0
        self._episode = np.zeros(self.num_envs, np.int64)
        self._episode_seed = np.zeros(self.num_envs, np.int64)
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
        with self._naming_the_seed():
            next_obs, reward, cost, terminated, truncated = self._envs.step(action, self._steps)
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
        lost = self._replay(state)
        if lost:
            self._begin(lost)
            log.warning(
                "%s: environment %d (and %d more) did not come back to its saved observation: it is not a function of"
                " its seed and actions, or its episode is longer than %d steps. It begins a new episode; everything"
                " else continues exactly. Runs begun with --exact cut episodes at checkpoints, and need no replaying",
                self.env_id, lost[0], len(lost) - 1, REPLAYED,
            )  # fmt: skip

    def close(self) -> None:
        """Close every environment; an error is only a warning: the run has ended, and its result does not change."""
        for problem in self._envs.close(self._steps):
            log.warning("%s", problem)

    def _replay(self, state: dict[str, np.ndarray]) -> list[int]:
        """Replay the actions of every running episode; the environments whose observation is not the saved one."""
        history, ages = state["history"], self.age.tolist()
        stored = {i: history[len(history) - age :, i] for i, age in enumerate(ages) if 0 < age <= len(history)}
        for i, obs in self._envs.replay(stored, self._steps).items():
            self.obs[i] = obs
            stored.pop(i)
        same = (self.obs == state["obs"]).all(axis=1)
        return [i for i, age in enumerate(ages) if age > len(history) or i in stored or not same[i]]

    def _remember(self, action: np.ndarray) -> None:
        """Store the latest actions for replaying."""
        if self._filled == len(self._actions):
            self._actions[: self._replayable] = self._actions[self._replayable :]
            self._filled = self._replayable
        self._actions[self._filled] = action
        self._filled += 1

    def _begin(self, ids: Sequence[int]) -> None:
        """Start the next episode of some environments, each from its own seed."""
        ids = list(ids)
        for i in ids:
            self._episode_seed[i] = episode_seed(self._seed, i, int(self._episode[i]))
        with self._naming_the_seed():
            self.obs[ids] = self._envs.begin(ids, self._episode_seed[ids].tolist(), self._steps)
        self._episode[ids] += 1
        self.age[ids], self._horizon[ids] = 0, _NEVER
        self._check_finite("first observation", self.obs)

    @contextmanager
    def _naming_the_seed(self) -> Iterator[None]:
        """Add the seed of the episode to what an environment's error says, so that it can be repeated."""
        try:
            yield
        except RunError as error:
            raise RunError(f"{error}{self._seed_of(int(self._envs.current[0]))}") from error.__cause__

    def _seed_of(self, i: int) -> str:
        return f" (the seed of its episode: {self._episode_seed[i]})"

    def _check_finite(self, what: str, array: np.ndarray) -> None:
        if not np.isfinite(array).all():
            i, *index = np.argwhere(~np.isfinite(array))[0]
            raise RunError(
                f"environment {i} of {self.env_id} returned {array[(i, *index)]} in its {what}"
                f" (index {tuple(map(int, index))}) at step {self._steps}, age {self.age[i]} of its episode:"
                f" only finite numbers can be learned from; end the episode there instead{self._seed_of(int(i))}"
            )


def episode_seed(seed: int, index: int, episode: int) -> int:
    """The seed that an episode of environment `index` is reset with."""
    return int(np.random.SeedSequence((seed, index, episode)).generate_state(1)[0])


def spec_of(env_id: str, found: dict[str, Any], limits: PerCost | None, discounts: PerCost | None) -> Spec:
    """Of what an environment says of itself (`LocalEnvs.description`), with limits and discounts of its costs."""
    return Spec(
        obs_size=found["obs_size"],
        action_size=found["action_size"],
        discrete=found["discrete"],
        constraints=constrain(env_id, found["costs"], limits, discounts, found["time_limit"]),
        time_limit=found["time_limit"],
        **{name: _tuple(found[name]) for name in ("action_low", "action_high", "nvec", "image")},
        layout=found["layout"],
    )


def _tuple(numbers: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if numbers is None else tuple(numbers)
