"""R runs in memory, for the loop that iterates and saves them."""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from focops import envs
from focops.algorithms import ALGORITHMS
from focops.config import TrainConfig, validate
from focops.core.base import network
from focops.core.types import Trajectories
from focops.envs.mjx import Impl, MjxTask
from focops.errors import RunError, UsageError
from focops.training import iteration
from focops.training.device.devices import RUNS, Devices
from focops.training.device.sharing import require_alike
from focops.training.device.vectorized import Physics, Rejected, Runs, VectorizedIteration
from focops.training.finite import first_fault
from focops.training.host import configure_jax
from focops.training.iteration import Report
from focops.training.state import Failure, Record, RunState, checkpoint_due, key_of, named_leaves

log = logging.getLogger(__name__)

_RUN_AXES = RUNS, RUNS, RUNS, PartitionSpec(None, "runs"), RUNS
"""The axis of runs in each part of what `VectorizedIteration.iterate` returns."""
_IterationOutput = tuple[Report, Physics, Trajectories, Rejected]
"""What it returns beside the runs themselves; on the devices."""


class DeviceTrainer:
    """R runs in memory, all of them iterated together."""

    def __init__(self, configs: Sequence[TrainConfig], impl: Impl | None = None, devices: Sequence[Any] | None = None):
        for config in configs:
            validate(config)
        configure_jax()
        first = require_alike(configs)
        task = envs.find(first.task)
        assert task is not None  # `validate` has checked it
        constraints = [envs.constraints(task, c.cost_limit, c.cost_discount) for c in configs]
        self._devices = Devices(devices, len(configs))
        staggered, several = not first.fresh_episodes, self._devices.count > 1
        env = MjxTask.of(task, constraints[0], impl, staggered, first.self_contacts, several)
        self.configs = list(configs)
        self.specs = [dataclasses.replace(env.spec, constraints=each) for each in constraints]
        algos = [iteration.of_run(c, each) for c, each in zip(configs, self.specs, strict=True)]
        self.iteration = 0
        """Iterations reported."""

        steps = first.batch_size // first.num_envs
        self._vectorized = VectorizedIteration(
            env,
            ALGORITHMS[first.algorithm],
            network(algos[0]),
            first.num_envs,
            steps,
            first.fresh_episodes,
            first.candidates,
        )
        self._config = self._spread([jax.tree.map(np.float32, algo) for algo in algos])
        self._arrays = self._devices.copied(env.arrays(self._devices.share * first.num_envs))
        self._iterate = self._compiled(VectorizedIteration.iterate, _RUN_AXES, donate=True)
        self._cut = self._compiled(VectorizedIteration.cut, donate=True)
        # Starting an iteration takes nearly as long as the iteration: the host follows the physics and the epochs step
        # by step. So a separate thread does it, while this one processes the numbers of the previous iteration.
        self._starter = ThreadPoolExecutor(1, "iteration")
        self._pending: Future[_IterationOutput] | None = None
        """An iteration that was started, but not reported."""
        self._stop: Callable[[], bool] = lambda: True
        """Whether no further iteration is to be started ahead."""
        self._overflowed = False

        self._runs: Runs = self._compiled(VectorizedIteration.begin)(*self._seeds(), self._config)
        self._states: list[RunState] | None = None
        """What `states` has copied to the host."""
        self._failures: list[Failure | None] = [None] * len(configs)

    @property
    def note(self) -> str:
        return ""

    @property
    def runs(self) -> Runs:
        """On the devices, as they are after the latest iteration that was started."""
        if self._pending is not None:
            self._pending.result()
        return self._runs

    def iterations(self, stop: Callable[[], bool]) -> Iterator[Sequence[Record | Failure]]:
        """The iterations up to the last, or until `stop`: each as the record, or the failure, of each run. One that
        has started before the stop is still reported."""
        stopping = False

        def stop_from_now_on() -> bool:
            nonlocal stopping
            stopping = stopping or stop()
            return stopping

        self._stop = stop_from_now_on
        while self.iteration < self.configs[0].iterations:
            if self._stop() and self._pending is None:
                return
            yield self.advance(ahead=not (stopping or checkpoint_due(self.configs[0], self.iteration + 1)))

    def advance(self, ahead: bool = False) -> list[Record | Failure]:
        """One more iteration of all runs. With `ahead` the devices start on the next one before this one's numbers are
        processed; `states` cannot be asked for then."""
        result = self._pending or self._start(self.iteration)
        report, physics, trajectories, rejected = result.result()
        self._states = None
        self._pending = self._start(self.iteration + 1) if ahead else None
        report, physics = jax.device_get((report, physics))
        for i, failed in enumerate(self._failures):
            if failed is None and not report.finite[i]:
                self._failures[i] = self._failure(i, trajectories, rejected)
        self.iteration += 1
        self._warn(physics)
        return [failed or self._record(i, report, physics) for i, failed in enumerate(self._failures)]

    def states(self) -> list[RunState]:
        """Each run after the iteration that was reported last, on the host. If another is to come, the devices start on
        it meanwhile."""
        if self._states is None:
            assert self._pending is None, "the state is already another iteration's"
            state = jax.device_get(self._runs.state)
            if self.iteration < self.configs[0].iterations and not self._stop():
                self._pending = self._start(self.iteration)
            self._states = [_row(state, i) for i in range(len(self.configs))]
        return self._states

    def failed(self, error: RunError) -> list[Failure]:
        """The failure of each run, when the current iteration is given up."""
        return [Failure(error, state, {}) for state in self.states()]

    def restore(self, states: Sequence[RunState]) -> None:
        """Resume from the state of each run, all of one iteration."""
        numbers = {int(state.iteration) for state in states}
        if len(numbers) > 1:
            raise UsageError(f"runs of one program stand at different iterations: {sorted(numbers)}")
        finite = self._devices.spread(np.ones(self._devices.slots, bool))
        self._runs = Runs(self._spread(states), finite)
        self.iteration, self._states = numbers.pop(), None
        self._failures = [None] * len(states)

    def cut_episodes(self) -> None:
        """Start a new episode in every environment; those that are cut are not counted."""
        self._runs, self._states = self._cut(self.runs), None

    def close(self) -> None:
        """Wait for what was started."""
        self._starter.shutdown()

    def _failure(self, i: int, trajectories: Trajectories, rejected: Rejected) -> Failure:
        """The failure of run i; its state does not change after that."""
        state = jax.device_get(_row(self.runs.state, i))
        batch = jax.tree.map(lambda x: np.asarray(x.take(i, 1)), trajectories)
        new = tuple(jax.device_get(_row(rejected, i)))
        error = RunError(first_fault(batch, (state.learner, state.stats), new))
        arrays = {f"rollout/{name}": value for name, value in batch._asdict().items()}
        return Failure(error, state, {**arrays, **named_leaves(new, "rejected")})

    def _record(self, i: int, report: Report, physics: Physics) -> Record:
        own = _row(report, i)
        return iteration.record(self.configs[i], self.specs[i], self.iteration, own, int(physics.diverged[i]))

    def _start(self, number: int) -> Future[_IterationOutput]:
        """Start iteration `number` (from 0)."""
        return self._starter.submit(self._iterate_once, number)

    def _iterate_once(self, number: int) -> _IterationOutput:
        progress = np.full(self._devices.slots, number / self.configs[0].iterations, np.float32)
        self._runs, *iterated = self._iterate(self._runs, self._config, self._devices.spread(progress))
        return tuple(iterated)

    def _compiled(self, method: Callable[..., Any], out: Any = RUNS, donate: bool = False) -> Any:
        """Jit a method of `VectorizedIteration`."""
        return self._devices.compiled(method, self._vectorized, self._arrays, out, donate)

    def _spread(self, trees: Sequence[Any]) -> Any:
        """One pytree per run, stacked to arrays [R, ...] on the devices."""
        return self._devices.spread(jax.tree.map(lambda *x: np.stack(x), *self._devices.filled(trees)))

    def _seeds(self) -> tuple[Any, Any]:
        """Each run's key for learning and its words for resets."""
        words = [np.array((c.seed & 0xFFFFFFFF, c.seed >> 32 & 0xFFFFFFFF), np.uint32) for c in self.configs]
        return self._spread([key_of(c.seed) for c in self.configs]), self._spread(words)

    def _warn(self, physics: Physics) -> None:
        if not self._overflowed and np.any(physics.overflow):
            self._overflowed, first = True, self.configs[0]
            log.warning(
                "%s: %d simulations had more contacts than there is room for at iteration %d; those beyond it were "
                "ignored. --self-contacts is %d; raise it with --self-contacts N if this continues",
                first.task, int(np.max(physics.overflow)), self.iteration, first.self_contacts,
            )  # fmt: skip


def _row(tree: Any, i: int) -> Any:
    """Run i's own, of arrays [R, ...]."""
    return jax.tree.map(lambda x: x[i], tree)
