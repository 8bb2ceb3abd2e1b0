"""Several programs on an accelerator at once, each a process of its own: one alone does not fill it.

`Local` starts and stops the processes. A process finds its runs in grid.json, and leaves their outcomes in a file.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from focops.cli.arguments import ResumeOptions
from focops.cli.engines import Job, State, Watch
from focops.cli.engines.gpu import Gpu
from focops.cli.engines.local import Local
from focops.cli.signals import stop_on_signals
from focops.display.say import say
from focops.runs.files import write_json
from focops.runs.sinks import asked_for

COMMAND = "program"
"""What `focops.cli.child` calls `train`."""
_ORDER, _OUTCOMES = "order.json", "outcomes.json"
_MEMORY = 0.5
"""Of the device's, the share that JAX takes for all programs together; Warp and the graphs need the rest. With 0.75, as
JAX takes by default for one, 11 programs of up to 142 runs filled an H200, and 5 of the 8 that followed could not
start."""


class Programs:
    """The engine; `options.jobs` programs are under way at once."""

    def __init__(self, options: ResumeOptions) -> None:
        self._options = options
        self._gpu = Gpu(options.sinks, options.steps, options.changes)
        self._local = Local(options.jobs)

    def run(self, jobs: Sequence[Job], watch: Watch) -> None:
        shared = self._gpu.programs(jobs)
        at_once = min(self._options.jobs, len(shared))
        if at_once < 2:
            self._gpu.run(jobs, watch)
            return
        _advise()
        with _folder(jobs[0].directory.parent) as folder, _share_of_memory(at_once):
            programs = {self._program(folder / str(i + 1), runs): runs for i, runs in enumerate(shared)}
            self._local.run(list(programs), _Told(watch, programs))

    def kill(self) -> None:
        self._local.kill()

    def _program(self, directory: Path, runs: Sequence[Job]) -> Job:
        """The process of a program, as a job of `Local`."""
        directory.mkdir()
        how = self._options
        order = {"base": os.path.abspath(runs[0].directory.parent), "runs": [run.name for run in runs]}
        order |= {"steps": how.steps, "changes": how.changes, "wandb": bool(how.sinks)}
        write_json(directory / _ORDER, order)
        return Job(f"program {directory.name}", directory, [COMMAND, str(directory)], cores=0)


class _Told(Watch):
    """What becomes of the programs, told of their runs."""

    def __init__(self, watch: Watch, programs: dict[Job, list[Job]]) -> None:
        super().__init__(watch.display, watch.stopped)
        self._watch, self._programs = watch, programs

    def now(self, job: Job, state: State, error: str = "") -> None:
        job.state = state
        found = _outcomes(job.directory)
        said = f"{error} (all that its program said: {job.output})" if error and job.output.is_file() else error
        for run in self._programs[job]:
            self._watch.now(run, *found.get(run.name, (state, said)))

    def progress(self, note: str | None = None) -> None:
        states = [program.state for program in self._programs]
        ended = sum(state not in ("waiting", "running") for state in states)
        self._watch.progress(f"of {len(states)} programs {states.count('running')} at once, {ended} ended")


def train(words: Sequence[str]) -> int:
    """The process of a program: its exit status."""
    from focops.cli import grid_runs

    folder = Path(words[0])
    order = json.loads((folder / _ORDER).read_bytes())
    options = ResumeOptions(
        Path(order["base"]), steps=order["steps"], changes=order["changes"], wandb=order["wandb"],
        sinks=asked_for(order["wandb"]),
    )  # fmt: skip
    described = grid_runs.read(options.run)
    jobs = [grid_runs.described_job(options.run, name, described[name], options) for name in order["runs"]]
    with stop_on_signals() as stopped:
        Gpu(options.sinks, options.steps, options.changes).run(jobs, Watch(_Unseen(), stopped))
    write_json(folder / _OUTCOMES, {job.name: [job.state, job.error] for job in jobs if job.state != "waiting"})
    return 128 + stopped[0] if stopped else 0


class _Unseen:
    """A display that shows nothing: the runs' directories tell what is to be told."""

    def update(self, note: str | None = None) -> None: ...

    def ended(self, job: Job) -> None: ...


def _outcomes(folder: Path) -> dict[str, tuple[State, str]]:
    """Of each run of a program that has ended: its state, and the error if it failed."""
    with contextlib.suppress(FileNotFoundError):
        return {name: (state, error) for name, (state, error) in json.loads((folder / _OUTCOMES).read_bytes()).items()}
    return {}


def _advise() -> None:
    """Without MPS, a driver's processes take turns."""
    pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    if shutil.which("nvidia-cuda-mps-control") and not Path(pipe).exists():
        say("note:", "NVIDIA's MPS is not running, so the programs take turns; `nvidia-cuda-mps-control -d` starts it")


@contextlib.contextmanager
def _folder(base: Path) -> Iterator[Path]:
    """A folder in the grid's for this call alone. It is kept if a process ended without an outcome."""
    folder = Path(tempfile.mkdtemp(prefix=".programs-", dir=base))
    yield folder
    if all((each / _OUTCOMES).is_file() or not (each / "output.txt").is_file() for each in folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _share_of_memory(programs: int) -> Iterator[None]:
    """Processes started here take an equal share of the device's memory, unless the environment says which."""
    name = "XLA_PYTHON_CLIENT_MEM_FRACTION"
    if name in os.environ:
        yield
        return
    os.environ[name] = f"{_MEMORY / programs:.3f}"
    try:
        yield
    finally:
        del os.environ[name]
