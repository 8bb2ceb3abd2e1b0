"""Runs as tasks of a Ray cluster, without a file system in common: a run's directory travels to the machine that trains
it, and what changes there, metrics and checkpoints above all, comes back with its reports. The run of a machine that is
lost continues elsewhere from the last checkpoint that came back.
"""

import contextlib
import importlib.util
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any

from focops.cli.engines import Job, State, Watch, mirror
from focops.cli.engines.local import POLL_SECONDS
from focops.cli.engines.ray_task import Order, Report, Stops, work
from focops.display.say import say
from focops.errors import UsageError
from focops.runs import checkpoint
from focops.runs.lock import Lock

REPORT_SECONDS = 2.0
"""Between two reports of a run."""
_SUBMITTED = 500
"""Tasks that Ray has at a time: each holds the lock of its run's directory, which is an open file."""
_LOSSES = 5
"""So often a run may lose its machine without a new checkpoint in between."""
_CONNECT_SECONDS = 5.0


class Task:
    """A run that Ray has, as this machine sees it."""

    def __init__(self, job: Job) -> None:
        self.job, self.losses = job, 0
        self._lock: Lock | None = None
        self._asked = False
        self._had: set[str] = set()
        self._newest = 0

    def order(self) -> Order:
        """Lock the run's directory and pack it."""
        job = self.job
        job.directory.mkdir(exist_ok=True)
        self._lock = self._lock or Lock(job.directory / ".lock")
        self._had, self._newest = set(), self.newest
        is_begun = (job.directory / "config.json").is_file()
        words = ["resume", str(job.directory), "--quiet", *_changes(job.words)] if is_begun else job.words
        pieces = mirror.pack(job.directory) if is_begun else []
        return Order(job.name, str(job.directory), words, job.cores, pieces, metadata.version("focops"), REPORT_SECONDS)

    def take(self, report: Report) -> None:
        mirror.write(self.job.directory, report.changes, self._had)
        self._had = report.changes.names

    def ask(self, stops: Any) -> None:
        """Ask its run to stop, once."""
        if not self._asked:
            self._asked = True
            stops.ask.remote(self.job.name)

    def lost(self) -> bool:
        """Its machine was lost; whether it may try another."""
        self.losses = 1 if self.newest > self._newest else self.losses + 1
        return self.losses < _LOSSES

    @property
    def newest(self) -> int:
        """The iteration of its newest checkpoint here."""
        return max(checkpoint.numbers(self.job.directory / "checkpoint"), default=0)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()


def _changes(words: Sequence[str]) -> list[str]:
    """What a command changes in a run that is begun: all flags of `resume RUN --quiet …`, of `train` hardly any."""
    return list(words[3:]) if words[0] == "resume" else [word for word in words if word == "--wandb"]


class RayCluster:
    """The engine; `address` is HOST:PORT of the cluster's head. Without it, that of RAY_ADDRESS, or a new cluster of
    this machine alone."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address

    def run(self, jobs: Sequence[Job], watch: Watch) -> None:
        with _connected(self._address) as ray:
            remote, stops = ray.remote(max_retries=0)(work), _stops(ray)
            waiting, tasks = [Task(job) for job in jobs], dict[Any, Task]()
            next_ones = lambda: [] if watch.stopped else waiting or _more(ray, len(tasks), watch)
            try:
                while (waiting := next_ones()) or tasks:
                    while waiting and len(tasks) < _SUBMITTED:
                        self._submit(remote, stops, waiting.pop(0), tasks, watch)
                    ready, _ = ray.wait(list(tasks), timeout=POLL_SECONDS, fetch_local=False) if tasks else ([], [])
                    for generator in ready:
                        waiting += self._receive(ray, generator, tasks, watch)
                    for generator in [each for each, t in tasks.items() if watch.stopped or watch.unwanted(t.job)]:
                        self._stop(ray, stops, generator, tasks, watch)
                    watch.progress()
            finally:
                for generator, task in tasks.items():
                    ray.cancel(generator)
                    task.close()
                    if task.job.state == "running":
                        watch.now(task.job, "stopped")

    def kill(self) -> None:
        """Ray ends the tasks of a process that has ended."""

    def _stop(self, ray: Any, stops: Any, generator: Any, tasks: dict[Any, Task], watch: Watch) -> None:
        """Ask a task's run to stop, with a checkpoint that comes with its last report; forget one that is not begun."""
        task = tasks[generator]
        if task.job.state == "running":
            task.ask(stops)
            return
        ray.cancel(generator)
        del tasks[generator]
        task.close()
        if not watch.stopped:
            watch.now(task.job, "stopped")

    def _submit(self, remote: Any, stops: Any, task: Task, tasks: dict[Any, Task], watch: Watch) -> None:
        if watch.unwanted(task.job):
            self._end(task, watch, "stopped")
            return
        try:
            order = task.order()
        except (OSError, UsageError) as error:
            task.close()
            watch.now(task.job, "failed", f"not begun: {getattr(error, 'strerror', None) or error}")
            return
        tasks[remote.options(num_cpus=max(1, order.cores), name=f"focops {order.name}").remote(order, stops)] = task

    def _receive(self, ray: Any, generator: Any, tasks: dict[Any, Task], watch: Watch) -> list[Task]:
        """Take a task's next report; the task if it is to be submitted again."""
        task = tasks[generator]
        try:
            report: Report = ray.get(next(generator))
            task.take(report)
            if report.state == "running":
                if task.job.state != "running":
                    watch.now(task.job, "running")
                return []
            ending = report.state, report.error
        except StopIteration:
            ending = "failed", "its task ended without a last report"
        except ray.exceptions.RayTaskError as error:
            said = str(error.cause or "").strip() or str(error).strip()  # a MemoryError says nothing
            ending = "failed", said.splitlines()[-1]
        except ray.exceptions.RayError as error:
            if watch.stopped:
                ending = "stopped", ""
            elif task.lost():
                del tasks[generator]
                where = f"from iteration {task.newest}" if task.newest else "from its start"
                say("lost", f"the machine of {task.job.name} ({type(error).__name__}); it continues elsewhere {where}")
                watch.now(task.job, "waiting")
                return [task]
            else:
                ending = "failed", f"lost its machine {_LOSSES} times without a new checkpoint ({type(error).__name__})"
        except OSError as error:
            ray.cancel(generator)
            ending = "failed", f"cannot write in {task.job.directory}: {error.strerror or error}"
        del tasks[generator]
        self._end(task, watch, *ending)
        return []

    def _end(self, task: Task, watch: Watch, state: State, error: str = "") -> None:
        task.close()
        watch.now(task.job, state, error)


def _more(ray: Any, running: int, watch: Watch) -> list[Task]:
    """Of jobs that can become more, as many as the cluster has CPUs are under way."""
    has_room = watch.most > 0 and running < ray.cluster_resources().get("CPU", 1)
    return [Task(job) for job in watch.more()] if has_room else []


def _stops(ray: Any) -> Any:
    """On the machine of this process, which lasts as long as anybody asks."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(Stops).options(num_cpus=0, scheduling_strategy=here).remote()


@contextlib.contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to the cluster. Nothing is sent to Ray's makers, and no dashboard is started."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    own: dict[str, Any] = {"address": _given(address)} if _given(address) else {"include_dashboard": False}
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UsageError(f"cannot connect to the Ray cluster at {address or 'this machine'}: {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def check(address: str | None) -> None:
    """Refuse Ray where it is not installed, and an address where nobody answers: Ray itself would wait for minutes."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--engine ray needs Ray, which is not installed: pip install 'focops[ray]'")
    address = _given(address)
    if address in (None, "auto"):  # Ray's word for the cluster that this machine is in
        return
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) < 2**16) or "/" in host:
        raise UsageError(f"--address is {address}; it must be HOST:PORT of the cluster's head, as 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise UsageError(
            f"no Ray cluster answers at {address} ({error.strerror or error}); start one there with: ray start --head"
        ) from error


def _given(address: str | None) -> str | None:
    return address or os.environ.get("RAY_ADDRESS") or None
