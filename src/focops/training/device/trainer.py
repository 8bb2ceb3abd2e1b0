"""R runs in memory, for the loop that iterates and saves them."""

import dataclasses
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from focops import envs
from focops.algorithms import ALGORITHMS
from focops.config import TrainConfig, validate
from focops.core.types import Rollout
from focops.envs.mjx import Impl, MjxTask
from focops.errors import RunError, UsageError
from focops.training.device.devices import RUNS, Devices
from focops.training.device.program import Evidence, Program, Report, Runs
from focops.training.device.run import DeviceRun
from focops.training.device.sharing import require_alike
from focops.training.host import Arrays, Record, configure_jax, key_of, take_over, with_constraints

log = logging.getLogger(__name__)

ITERATED = RUNS, RUNS, Evidence(Rollout(*[PartitionSpec(None, "runs")] * 10, stats=RUNS, progress=RUNS), RUNS)  # type: ignore[arg-type]
"""The axis of runs in each part of what `Program.iterate` returns."""


class DeviceTrainer:
    """R runs in memory. `advance` is one iteration of all of them."""

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
        env = MjxTask(task, constraints[0], impl, staggered, first.self_contacts, several)
        self.configs = list(configs)
        self.specs = [dataclasses.replace(env.spec, constraints=each) for each in constraints]
        self.algos = [with_constraints(c.algo, each) for c, each in zip(configs, constraints, strict=True)]
        """The algorithm's config of each run."""
        self.iteration = 0
        self.members = [DeviceRun(self, i) for i in range(len(configs))]

        algorithm, steps = ALGORITHMS[first.algorithm], first.batch_size // first.num_envs
        network = algorithm.network(self.algos[0])
        self._program = Program(env, algorithm, network, first.num_envs, steps, first.fresh_episodes)
        self._config = self._spread([jax.tree.map(np.float32, algo) for algo in self.algos])
        self._arrays = self._devices.copied(env.arrays(self._devices.share * first.num_envs))
        self._iterate = self._compiled(Program.iterate, ITERATED, donate=True)
        self._cut = self._compiled(Program.cut, donate=True)
        # Starting an iteration takes nearly as long as the iteration: the host follows the physics and the epochs step
        # by step. So a separate thread does it, while this one processes the numbers of the previous iteration.
        self._starter = ThreadPoolExecutor(1, "iteration")
        self._pending: Future[tuple[Report, Evidence]] | None = None
        self._overflowed = False

        self._runs: Runs = self._compiled(Program.begin)(*self._seeds(), self._config)
        self.host: tuple[int, Runs] | None = None
        """The last snapshot, and its iteration."""
        self.told: Report | None = None
        self.evidence: Evidence | None = None
        """Of the iteration that was reported last."""

    @property
    def runs(self) -> Runs:
        """On the devices, as they are after the latest iteration that was started."""
        if self._pending is not None:
            self._pending.result()
        return self._runs

    def advance(self, ahead: bool = False) -> list[Record | RunError]:
        """One more iteration of all runs: a record of each, or its error. With `ahead` the devices start on the next
        iteration before this one's numbers are processed; the state is then no longer this one's."""
        waiting, self.evidence = (self._pending or self._start(self.iteration)).result()
        self._pending = self._start(self.iteration + 1) if ahead else None
        self.told = told = jax.device_get(waiting)
        for member, good in zip(self.members, told.good, strict=False):  # there may be padding
            if not good and member.failed_after is None:
                member.failed_after = self.iteration
                member.error = RunError(member.fault())
        self.iteration += 1
        self._warn(told)
        return [member.error or member.record() for member in self.members]

    @property
    def ahead(self) -> bool:
        """Whether the device is running an iteration that has not been reported."""
        return self._pending is not None

    def go_ahead(self) -> None:
        """Start on the next iteration; the last `snapshot` remains."""
        if self._pending is None and self.iteration < self.configs[0].iterations:
            self._pending = self._start(self.iteration)

    def snapshot(self) -> None:
        """Copy all runs to the host, for their members' `arrays` and `save_policy`."""
        assert self._pending is None, "the state is already another iteration's"
        self.host = self.iteration, jax.device_get(self.runs)

    def cut_episodes(self) -> None:
        """Start a new episode in every environment; those that are cut are not counted."""
        self._runs = self._cut(self.runs)

    def restore(self, arrays: Sequence[Arrays]) -> None:
        """Resume from the members' arrays, all of one iteration."""
        self.snapshot()
        numbers = {int(each["iteration"]) for each in arrays}
        if len(numbers) > 1:
            raise UsageError(f"runs of one program stand at different iterations: {sorted(numbers)}")
        self.put([member.filled(each) for member, each in zip(self.members, arrays, strict=True)])
        self.iteration = numbers.pop()

    def start_from(self, arrays: Arrays, source: str) -> None:
        """Copy the networks and the normaliser of another run into each of these."""
        self.snapshot()
        trees = [member.tree() for member in self.members]
        taken = [take_over(tree.learner, arrays, source, self.configs[0].task) for tree in trees]
        self.put([tree._replace(learner=learner) for tree, learner in zip(trees, taken, strict=True)])

    def put(self, trees: Sequence[Runs]) -> None:
        """Resume from the members' trees."""
        self._runs = self._spread(trees)

    def close(self) -> None:
        """Wait for what was started."""
        self._starter.shutdown()

    def _start(self, number: int) -> Future[tuple[Report, Evidence]]:
        """Start iteration `number` (from 0)."""
        return self._starter.submit(self._iterate_once, number)

    def _iterate_once(self, number: int) -> tuple[Report, Evidence]:
        slots = self._devices.slots
        counts = self._devices.spread(np.full(slots, number, np.int32))
        progress = self._devices.spread(np.full(slots, number / self.configs[0].iterations, np.float32))
        self._runs, told, evidence = self._iterate(self._runs, self._config, counts, progress)
        return told, evidence

    def _compiled(self, method: Callable[..., Any], out: Any = RUNS, donate: bool = False) -> Any:
        """A method of `Program` as a jitted function; the task's arrays are an argument of it, not constants in it."""
        function = lambda arrays, *own: method(self._program.using(arrays), *own)
        return self._devices.compiled(function, self._arrays, out, donate)

    def _spread(self, trees: Sequence[Any]) -> Any:
        """One pytree per run, stacked to arrays [R, ...] on the devices."""
        return self._devices.spread(jax.tree.map(lambda *x: np.stack(x), *self._devices.filled(trees)))

    def _seeds(self) -> tuple[Any, Any]:
        """Each run's key for learning and its words for resets."""
        keys = [np.asarray(jax.random.key_data(key_of(c.seed))) for c in self.configs]
        words = [np.array((c.seed & 0xFFFFFFFF, c.seed >> 32 & 0xFFFFFFFF), np.uint32) for c in self.configs]
        return self._spread(keys), self._spread(words)

    def _warn(self, told: Report) -> None:
        if not self._overflowed and np.any(told.overflow):
            self._overflowed, first = True, self.configs[0]
            log.warning(
                "%s: %d simulations had more contacts than there is room for at iteration %d; those beyond it were "
                "ignored. --self-contacts is %d; raise it with --self-contacts N if this goes on",
                first.task, int(np.max(told.overflow)), self.iteration, first.self_contacts,
            )  # fmt: skip
