"""Collecting on the host: T steps of E environments under one policy."""

from typing import Any

import numpy as np

from focops.core.networks import Network
from focops.core.normalize import Stats
from focops.core.types import Trajectories, VectorEnv
from focops.training import iteration
from focops.training.state import RunState


class Collector:
    """Collects batches into buffers that it reuses."""

    def __init__(self, env: VectorEnv, network: Network, steps: int):
        spec, shape = env.spec, (steps, env.num_envs)
        self.env = env
        self._act = iteration.compiled(iteration.act, network)
        self._noise = iteration.compiled(iteration.noise, spec, shape)
        self.collected = 0
        """Steps of `batch` that belong to the batch being collected, or collected last."""
        numbers: dict[str, Any] = dict(
            obs=np.zeros((*shape, spec.obs_size), np.float32),
            raw_obs=np.zeros((*shape, spec.obs_size), np.float32),
            action=np.zeros((*shape, *spec.action_shape), spec.action_dtype),
            reward=np.zeros(shape, np.float32),
            cost=np.zeros((*shape, len(spec.constraints)), np.float32),
            terminated=np.zeros(shape, bool),
            truncated=np.zeros(shape, bool),
            cut=np.zeros(shape, bool),
            raw_next_obs=np.zeros((*shape, spec.obs_size), np.float32),
            age=np.zeros(shape, np.int32),
        )
        self.batch = Trajectories(**numbers)

    def collect(self, state: RunState) -> tuple[Trajectories, Stats]:
        """A run's next batch, and the statistics at its end."""
        env, buffer, noise = self.env, self.batch, np.asarray(self._noise(state.key, state.iteration))
        params, stats = state.learner.policy, state.stats
        self.collected = 0
        for t in range(len(noise)):
            buffer.age[t], buffer.raw_obs[t] = env.age, env.obs
            stats, buffer.obs[t], action = self._act(params, stats, env.obs, noise[t])
            buffer.action[t] = action = np.asarray(action)
            step = env.step(action)
            buffer.reward[t], buffer.cost[t] = step.reward, step.cost
            buffer.terminated[t], buffer.truncated[t] = step.terminated, step.truncated
            buffer.cut[t], buffer.raw_next_obs[t] = step.cut, step.next_obs
            self.collected = t + 1
        return buffer, stats
