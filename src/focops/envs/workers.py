"""Environments in worker processes: the end of the channel that focops has. `worker.py` is the other one.

Gymnasium's AsyncVectorEnv does not serve here. It pickles its environments, has a process for each of them, all under
this interpreter, starts episodes by itself with seeds of its own, and neither names nor survives a worker that dies.
"""

import os
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from focops.envs.names import Opening
from focops.envs.worker_process import Dead, Worker, end_all
from focops.errors import RunError, UsageError

_START_SECONDS = 60.0
"""Seconds in which an interpreter has to start and import its packages, if steps have a time limit."""


class WorkerTraceback(Exception):
    """What a worker printed of an error, as its cause."""


class WorkerEnvs:
    """A vector's environments in `workers` processes, each with a block of them; see `worker.Envs` for the methods.

    Without `python` the workers run under this interpreter. The first environment is opened at once, to be described
    and, where the number of workers is not known yet, to be measured; `add` starts the other workers.
    """

    def __init__(self, opening: Opening, num_envs: int, python: str | None, timeout: float) -> None:
        self.env_id, self.num_envs, self.workers = opening.name, num_envs, 1
        self._by_name = opening.by_name()
        self.current = np.zeros(1, np.int32)
        self._python, self._timeout, self._at = python, timeout, 0
        self._seeds = [0] * num_envs
        self._shared: dict[str, np.ndarray] = {}
        self._processes: list[Worker] = []
        self._lost: set[int] = set()
        self._blocks = [range(1)]
        self._ended = weakref.finalize(self, end_all, self._processes)
        try:
            self._start(1)
            self.description: dict[str, Any] = self._ask("open", {0: self._opening(range(1), None)})[0]
        except BaseException:
            self._ended()
            raise

    def step_seconds(self) -> float:
        return self._ask("measure", {0: {}})[0]

    def add(self, indices: Sequence[int]) -> None:
        """Open the other environments, in as many workers as `workers` says."""
        try:
            self._open_all()
        except BaseException:
            self._ended()
            raise

    def _open_all(self) -> None:
        n = min(self.workers, self.num_envs)
        edges = [self.num_envs * k // n for k in range(n + 1)]
        self._blocks = [range(edges[k], edges[k + 1]) for k in range(n)]
        self._start(n - 1)
        more = {k: block[1:] if k == 0 else block for k, block in enumerate(self._blocks)}
        costs = self.description["costs"], self.description["named"]
        found = self._ask("open", {k: self._opening(block, costs) for k, block in more.items()})
        for k, other in found.items():
            if other["obs_size"] != self.description["obs_size"]:
                raise UsageError(
                    f"{self.env_id} has {other['obs_size']} observations in worker {k}, and"
                    f" {self.description['obs_size']} in worker 0: its environments must be alike"
                )
        self._share()

    def begin(self, ids: Sequence[int], seeds: Sequence[int], at: int) -> np.ndarray:
        self._at = at
        asked: dict[int, Any] = {}
        for i, seed in zip(ids, seeds, strict=True):
            mine = asked.setdefault(self._worker_of(i), {"ids": [], "seeds": [], "at": at})
            mine["ids"].append(i)
            mine["seeds"].append(seed)
            self._seeds[i] = seed
        self._ask("begin", asked)
        return self._shared["obs"][list(ids)]

    def step(self, action: np.ndarray, at: int) -> tuple[np.ndarray, ...]:
        self._at = at
        self._shared["action"][...] = action
        self._ask("step", {k: {"at": at} for k in range(len(self._processes))})
        return tuple(self._shared[name].copy() for name in ("obs", "reward", "cost", "terminated", "truncated"))

    def replay(self, actions: dict[int, np.ndarray], at: int) -> dict[int, np.ndarray]:
        """One environment of each worker at a time."""
        self._at, found = at, {}
        queues = [[i for i in block if i in actions] for block in self._blocks]
        for turn in range(max(map(len, queues), default=0)):
            now = {k: queue[turn] for k, queue in enumerate(queues) if turn < len(queue)}
            dtype = self._shared["action"].dtype
            data = {k: np.ascontiguousarray(actions[i], dtype).tobytes() for k, i in now.items()}
            asked = {k: {"index": i, "steps": len(actions[i]), "at": at} for k, i in now.items()}
            longest = max(len(actions[i]) for i in now.values())
            came = self._ask("replay", asked, data, seconds=longest * self._timeout)
            found |= {i: self._shared["obs"][i].copy() for k, i in now.items() if came[k]}
        return found

    def close(self, at: int) -> list[str]:
        problems = []
        if self._ended.alive:
            try:
                alive = set(range(len(self._processes))) - self._lost
                answers = self._ask("close", {k: {"at": at} for k in sorted(alive)})
                problems = [problem for answer in answers.values() for problem in answer]
            except RunError as error:
                problems = [str(error)]
            self._ended()
        return problems

    def _start(self, number: int) -> None:
        """Start more workers and let them import what they need; that is not the environments' time."""
        before = len(self._processes)
        self._processes += [Worker(self._python or sys.executable) for _ in range(number)]
        path = None if self._python else list(sys.path)
        asked = {k: {"path": path} for k in range(before, before + number)}
        self._ask("prepare", asked, seconds=_START_SECONDS + self._timeout)

    def _opening(self, indices: Sequence[int], costs: tuple[list[str], bool] | None) -> dict[str, Any]:
        imports = [] if self._python else _registered_by(self.env_id)
        return {"indices": list(indices), "costs": costs, "imports": imports, **self._by_name}

    def _share(self) -> None:
        """Make the arrays and let every worker map them. The file has no name any more once they have."""
        e, found = self.num_envs, self.description
        action = "<i4" if found["discrete"] else "<f4", (e, *found["action_shape"])
        shapes = {
            "action": action, "obs": ("<f4", (e, found["obs_size"])), "reward": ("<f8", (e,)),
            "cost": ("<f8", (e, len(found["costs"]))), "terminated": ("|b1", (e,)), "truncated": ("|b1", (e,)),
            "current": ("<i4", (len(self._processes),)),
        }  # fmt: skip
        layout, size = {}, 0
        for name, (dtype, shape) in shapes.items():
            layout[name] = (dtype, shape, size)
            size += -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // 64) * 64  # a cache line has one array's
        folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # memory, where there is such a thing
        with tempfile.NamedTemporaryFile(prefix="focops-", dir=folder) as file:
            file.truncate(size)
            memory = np.memmap(file.name, np.uint8, "r+")
            self._shared = {name: np.ndarray(s, d, memory, offset) for name, (d, s, offset) in layout.items()}
            self._ask(
                "share",
                {k: {"file": file.name, "arrays": layout, "number": k} for k in range(len(self._processes))},
            )
        self._shared["current"][:] = [block[0] for block in self._blocks]

    def _worker_of(self, i: int) -> int:
        return next(k for k, block in enumerate(self._blocks) if i in block)

    def _ask(
        self,
        command: str,
        asked: dict[int, dict[str, Any]],
        data: dict[int, bytes] | None = None,
        seconds: float | None = None,
    ) -> dict[int, Any]:
        """What workers answer to a command, all at the same time, within the time limit or so many `seconds`. An error
        is that of the first that has one."""
        until = time.monotonic() + (seconds or self._timeout) if self._timeout else None
        answers: dict[int, Any] = {}
        failed: dict[int, UsageError] = {}
        for k, arguments in asked.items():
            try:
                self._processes[k].send(command, (data or {}).get(k, b""), **arguments)
            except Dead:
                failed[k] = self._dead(k)
        for k in [k for k in asked if k not in failed]:
            try:
                answer = self._processes[k].receive(until)
            except TimeoutError:
                failed[k] = self._late(k)
            except Dead:
                failed[k] = self._dead(k)
            else:
                answers[k] = answer.get("answer")
                if "error" in answer:
                    kind = RunError if answer["error"] == "RunError" else UsageError
                    failed[k] = kind(answer["message"])
                    failed[k].__cause__ = WorkerTraceback(f"in worker {k}:\n{answer['traceback']}")
        if failed:
            k = min(failed)
            self.current[0] = self._asked_by(k)
            raise failed[k]
        return answers

    def _asked_by(self, k: int) -> int:
        """The environment that worker k asks, or asked last."""
        return int(self._shared["current"][k]) if self._shared else self._blocks[k][0]

    def _late(self, k: int) -> RunError:
        self._lost.add(k)
        self._processes[k].kill()  # it may never listen again
        return RunError(
            f"environment {self._asked_by(k)} of {self.env_id}, in worker {k}, did not answer at step {self._at}"
            f" within {self._timeout:g} s (--env-timeout)"
        )

    def _dead(self, k: int) -> RunError:
        self._lost.add(k)
        seeds = ", ".join(f"{i} (seed {self._seeds[i]})" for i in self._blocks[k])
        return RunError(
            f"worker {k} {self._processes[k].ending()} at step {self._at}, in environment {self._asked_by(k)} of"
            f" {self.env_id}; its environments were {seeds}"
        )


def _registered_by(env_id: str) -> list[str]:
    """The module of an environment that was registered in this process, if a worker can import it as well."""
    spec = gymnasium.registry.get(env_id)
    if spec is None:  # "module:Id-v0", which is imported as in this process
        return []
    entry = spec.entry_point
    module = entry.__module__ if callable(entry) else str(entry).partition(":")[0]
    return [module] if module != "__main__" else []
