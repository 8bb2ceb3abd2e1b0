"""Environments in this process, one after the other: without workers all of them, in a worker those that are its own.

`begin`, `step`, `replay` and `close` are all that a vector needs of its environments; `workers.WorkerEnvs` has them too,
and `worker.py` for interpreters that have no focops.
"""

import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from focops.envs.checked_env import CheckedEnv
from focops.envs.deadline import Deadline
from focops.envs.gymnasium_env import action_bounds, action_encoder
from focops.errors import RunError, UsageError

MEASURED_STEPS, MEASURED_SECONDS = 20, 0.2
"""Steps whose time is measured, and seconds that it may take."""


class Answers(NamedTuple):
    """What the environments return for their actions. Numbers may still be infinite or NaN."""

    obs: np.ndarray
    """[E, O], float32."""
    reward: np.ndarray
    cost: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


class LocalEnvs:
    """Environments of one id. The first is opened at once, and tried if nobody has counted its costs yet; `add` opens
    more. `at` is the step of the run, for messages; `current` holds the number of the environment that is asked."""

    def __init__(self, env_id: str, index: int = 0, num_costs: int | None = None, timeout: float = 0.0) -> None:
        self.env_id, self.current = env_id, np.array([index], np.int32)
        self._at = 0
        self._deadline = Deadline(timeout, self._late)
        with self._deadline:
            first = CheckedEnv(env_id, index)
        self.envs = {index: first}
        action_size, discrete, self._encode = action_encoder(env_id, first.env.action_space)
        if num_costs is None:
            with self._deadline:
                first.count_costs()
        else:
            first.num_costs = num_costs
        bounds = action_bounds(first.env.action_space)
        self.description: dict[str, Any] = {
            "obs_size": first.obs_size,
            "action_size": action_size,
            "discrete": discrete,
            "action_low": bounds.get("action_low"),
            "action_high": bounds.get("action_high"),
            "time_limit": first.env.spec.max_episode_steps if first.env.spec else None,
            "num_costs": first.num_costs,
        }

    def add(self, indices: Sequence[int]) -> None:
        first = next(iter(self.envs.values()))
        for i in indices:
            self.current[0] = i
            with self._deadline:
                self.envs[i] = CheckedEnv(self.env_id, i, first)

    def step_seconds(self) -> float:
        """The median time of the first steps of an episode, with random actions; 0 if it cannot be measured."""
        first, times = next(iter(self.envs.values())), []
        until = time.perf_counter() + MEASURED_SECONDS
        try:
            with self._deadline:
                first.reset(0, 0)
                while len(times) < MEASURED_STEPS and time.perf_counter() < until:
                    action, began = first.env.action_space.sample(), time.perf_counter()
                    answer = first.step(action, 0)
                    times.append(time.perf_counter() - began)
                    if answer.terminated or answer.truncated:
                        break
        except RunError:  # if it matters, it comes again where the run is kept
            pass
        return statistics.median(times) if times else 0.0

    def begin(self, ids: Sequence[int], seeds: Sequence[int], at: int) -> np.ndarray:
        """The first observations of new episodes, each from its own seed."""
        self._at, obs = at, np.empty((len(ids), self.description["obs_size"]), np.float32)
        with self._deadline:
            for row, (i, seed) in enumerate(zip(ids, seeds, strict=True)):
                obs[row] = self._ask(i).reset(int(seed), at)
        return obs

    def step(self, action: np.ndarray, at: int) -> Answers:
        """Step every environment, in the order of their numbers."""
        self._at, e = at, len(self.envs)
        reward, cost = np.empty(e), np.empty((e, self.description["num_costs"]))
        terminated, truncated = np.empty(e, bool), np.empty(e, bool)
        obs = np.empty((e, self.description["obs_size"]), np.float32)
        with self._deadline:
            for row, (i, act) in enumerate(zip(self.envs, self._encode(action), strict=True)):
                obs[row], reward[row], cost[row], terminated[row], truncated[row] = self._ask(i).step(act, at)
        return Answers(obs, reward, cost, terminated, truncated)

    def replay(self, actions: dict[int, np.ndarray], at: int) -> dict[int, np.ndarray]:
        """Repeat the actions of some environments' episodes; the last observation of each. Those that fail are left
        out."""
        self._at, found = at, {}
        for i, history in actions.items():
            try:
                for act in self._encode(history):
                    found[i] = self._ask(i).step(act, at).obs.astype(np.float32)
            except RunError:
                found.pop(i, None)
        return found

    def close(self, at: int) -> list[str]:
        """Close every environment; what went wrong."""
        self._at, problems = at, []
        for i in self.envs:
            try:
                with self._deadline:
                    self._ask(i).close(at)
            except UsageError as error:
                problems.append(str(error))
        return problems

    def _ask(self, i: int) -> CheckedEnv:
        """Environment i, which messages name from now on."""
        self.current[0] = i
        return self.envs[i]

    def _late(self) -> str:
        return f"environment {self.current[0]} of {self.env_id} did not answer at step {self._at}"
