"""What a run is made of: one frozen dataclass that is the command line, the run directory's config.json and the API."""

import dataclasses
import importlib.util
import itertools
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from focops.algorithms import ALGORITHMS, is_constrained
from focops.core.fields import ranges
from focops.core.spec import Spec
from focops.envs import tasks
from focops.envs.names import GIVEN_NOTHING, Given
from focops.errors import UsageError

Preset = Literal["fast", "paper"]
PRESETS: tuple[Preset, ...] = ("fast", "paper")
Backend = Literal["cpu", "mjx"]
_BACKENDS: tuple[Backend, ...] = ("cpu", "mjx")
DEFAULT_TASK = "HalfCheetahSpeed-v0"
CANDIDATES = 8
"""Policies that `--margin auto` chooses from, beside the last one."""


@dataclass(frozen=True)
class TrainConfig:
    """Everything needed to repeat a run."""

    algo: Any
    """The algorithm's own hyper-parameters."""
    algorithm: str = "focops"
    """The algorithm's name."""
    task: str = DEFAULT_TASK
    """One of `focops tasks`, or an environment whose steps carry a cost: a Gymnasium id (`CartPole-v1`,
    `module:Id-v0`), or a class or function that makes one (`module:Name`)."""
    preset: Preset = "fast"
    """fast: parallel environments, J_C by age, damped multipliers, the future valued beyond a time limit, critics in
    units of their targets, noise in units of the actions, a margin below the limits; for FOCOPS also other minibatches,
    and less noise at the end of speed tasks. paper: one environment,
    fresh episodes each batch, J_C of the episodes that ended, a time limit is an end, as published."""
    backend: Backend = "cpu"
    """cpu: MuJoCo or Gymnasium on the host, each run a process. mjx: our tasks on an accelerator, all runs one program
    (needs `focops[gpu]`)."""
    steps: int = 1_000_000
    """Samples to train for; rounded up to whole batches."""
    seed: int = 0
    """Seed of everything random in the run, in [0, 2⁶³)."""
    cost_limit: tuple[float, ...] | dict[str, float] | None = None
    """b: limit of each constraint's cost return, in order or by name (25 3, speed=25 torque=3); the task's own if not
    given. ≥ 0."""
    cost_discount: tuple[float, ...] | dict[str, float] | None = None
    """γ_C: discount of each constraint's cost, in (0, 1], in order or by name; 1 is the plain episode sum. The task's
    own if not given."""
    cost: str | None = None
    """A function of a module, `module:function`, that computes costs from (obs, action, reward, info) after each step,
    for environments that have none; if they have, it replaces them."""
    margin: Literal["auto"] | float = 0.0
    """How far below each limit to stay, as a share of it (0.02: by 2%), so that the last policy, whose cost is known
    only by estimate, keeps it. auto: by 0.5%, the standard error that this estimate will have at the end (5% at most),
    and 3.3 standard errors of a mean over 400 episodes (15% at most), so that an evaluation can find it satisfied; and
    of nine policies of its second half, a run delivers the best that is found within its limits. 0: aim at the limit
    itself, as published. In [0, 1)."""
    num_envs: int = 32
    """E: environments stepped side by side; must divide the batch. ≥ 1."""
    batch_size: int = 2048
    """Samples per update. ≥ 1."""
    fresh_episodes: bool = False
    """Start new episodes with every batch."""
    threads: int = 1
    """Threads for the physics; results do not depend on it. 0: one per core."""
    self_contacts: int = tasks.SELF_CONTACTS
    """mjx: contacts of a robot with itself that there is room for, beside all with the floor; ≥ 0. Those beyond it are
    ignored, with a warning."""
    checkpoint_every: int = 50
    """Iterations between checkpoints; 0 for one at the end only."""
    exact: bool = False
    """Start new episodes after each checkpoint, so that resuming is exact also where an environment's state cannot be
    saved. Our tasks and Gymnasium's MuJoCo environments resume exactly without it."""
    env_timeout: float = 300.0
    """Seconds that a step of environments that are not ours may take before the run ends: 0.001 to 1e9, or 0 to wait
    for ever."""
    env_workers: int | None = None
    """Processes that step environments that are not ours, each a share of them; results do not depend on it. 0: none.
    If not given, the time of some steps decides: one per core, or none where steps are short."""
    env_python: Path | None = None
    """An interpreter, or a virtual environment's folder, that such environments run under: Python 3.8 or newer with
    NumPy, and gym or Gymnasium. This one if not given."""
    final_episodes: int = 100
    """Episodes that judge the policy after training, with sampled and again with mean actions; 0 for none. Fewer where
    they would take more than 20% of the training's samples each way, or 7% in environments that are not ours."""
    init_from: Path | None = None
    """A run whose networks and normaliser this one starts from."""
    out: Path | None = None
    """The run's directory; runs/TASK-ALGO-SEED-TIME if not given."""
    layout: str = ""
    """`Spec.layout`: filled from the environment."""
    given: Given = GIVEN_NOTHING
    """What was given in Python and no name finds."""

    @property
    def iterations(self) -> int:
        return -(-self.steps // self.batch_size)

    @property
    def candidates(self) -> int:
        """How many policies of its second half a run keeps, to deliver the best that is found within its limits."""
        return CANDIDATES if self.margin == "auto" and is_constrained(self.algorithm) else 0


def default_config(
    task: str = DEFAULT_TASK, algorithm: str = "focops", preset: Preset = "fast", backend: Backend = "cpu"
) -> TrainConfig:
    """The preset's defaults for a task; `envs/tasks/families.py` has them as a table."""
    if algorithm not in ALGORITHMS:
        raise UsageError(f"unknown algorithm {algorithm!r}; there are: {', '.join(ALGORITHMS)}")
    if preset not in PRESETS:
        raise UsageError(f"unknown preset {preset!r}; there are: {', '.join(PRESETS)}")
    if backend not in _BACKENDS:
        raise UsageError(f"unknown backend {backend!r}; there are: {', '.join(_BACKENDS)}")
    found = tasks.find(task)
    families = (tasks.ANY,) if found is None else (tasks.ANY, found.family)
    settings: dict[str, Any] = {}
    for family in families:
        for column in family.columns(preset, backend):
            settings |= column
    algo = ALGORITHMS[algorithm].Config()
    names = {field.name for field in dataclasses.fields(algo)}
    shared = {name: value for name, value in _under("algo", settings).items() if name in names}
    algo = dataclasses.replace(algo, **shared | _under(algorithm, settings))
    return TrainConfig(
        algo, algorithm, task if found is None else found.name, preset, backend,
        **{name: value for name, value in settings.items() if "." not in name},
    )  # fmt: skip


def where_environments_run(env_workers: int | None, env_python: Path | str | None) -> dict[str, Any]:
    """The fields of a config that are given, as they are stored: a run may be resumed from another folder."""
    given: dict[str, Any] = {} if env_workers is None else {"env_workers": env_workers}
    return given if env_python is None else given | {"env_python": Path(env_python).absolute()}


def _under(prefix: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(f"{prefix}."): value for name, value in settings.items() if name.startswith(f"{prefix}.")}


_ENV_BYTES, _SAMPLE_BYTES, _WEIGHT_BYTES, _OBS_BYTES = 16 * 1024, 1024, 24, 24
"""Bytes assumed for an environment, for a sample of the batch with its activations, for a weight of the policy and of
one critic with Adam's moments, and for a number of a sample's observation: collected as it is, normalised, and after
the step, and each again in the update. The order of magnitude is enough to refuse what this machine cannot hold."""


def validate(config: TrainConfig) -> None:
    """Refuse what cannot work, before anything is compiled: the value, the range and the way out."""

    def require(ok: bool, flag: str, value: Any, allowed: str, way_out: str = "") -> None:
        if not ok:
            raise UsageError(f"{flag} is {value}; it must be {allowed}" + (f". {way_out}" if way_out else ""))

    whole = {"--steps": config.steps, "--num-envs": config.num_envs, "--batch-size": config.batch_size}
    for flag, value in whole.items():
        require(value >= 1, flag, value, "a whole number ≥ 1")
    for flag, value in {
        "--seed": config.seed, "--threads": config.threads, "--self-contacts": config.self_contacts,
        "--checkpoint-every": config.checkpoint_every, "--final-episodes": config.final_episodes,
        "--env-workers": config.env_workers or 0,
    }.items():  # fmt: skip
        require(value >= 0, flag, value, "a whole number ≥ 0")
    require(config.final_episodes != 1, "--final-episodes", 1, "≥ 2, or 0 for none", "One episode has no interval")
    for flag, value in {"--seed": config.seed, "--steps": config.steps}.items():
        require(value < 2**63, flag, value, "below 2⁶³")
    require(
        config.env_timeout == 0 or 1e-3 <= config.env_timeout <= 1e9, "--env-timeout", config.env_timeout,
        "a number of seconds from 0.001 to 1e9, or 0 for no limit",
    )  # fmt: skip
    require(
        not config.exact or config.checkpoint_every > 0, "--checkpoint-every", 0, "≥ 1 with --exact",
        "Such a run can only stop at its checkpoints",
    )  # fmt: skip
    if config.backend == "mjx":
        require_mjx(config.task)
    require(
        config.env_python is None or tasks.find(config.task) is None, "--env-python", config.env_python,
        f"left out for {config.task}", "It is for Gymnasium environments; our tasks run under this interpreter",
    )  # fmt: skip
    batch, envs = config.batch_size, config.num_envs
    hidden = getattr(config.algo, "hidden", ())
    _validate_algo(config.algo, require)
    room = _memory()
    for flag, value, needed in (
        ("--num-envs", envs, envs * _ENV_BYTES), ("--batch-size", batch, batch * _SAMPLE_BYTES),
        ("--algo.hidden", hidden, _WEIGHT_BYTES * sum(a * b for a, b in itertools.pairwise((1, *hidden, 1)))),
    ):  # fmt: skip
        require(
            needed <= room, flag, value, f"less: it needs about {min(needed, 10**30) / 1e9:.3g} GB of memory",
            f"This machine has {room / 1e9:.3g} GB",
        )  # fmt: skip
    require(
        batch % envs == 0, "--batch-size", batch, f"a multiple of --num-envs ({envs})",
        f"Nearest: {_nearest(batch, envs)}",
    )  # fmt: skip
    minibatch = getattr(config.algo, "minibatch_size", batch)
    require(
        batch % minibatch == 0, "--algo.minibatch-size", minibatch, f"a divisor of --batch-size ({batch})",
        f"Use a batch of {_nearest(batch, math.lcm(minibatch, envs))}, or a minibatch of {_divisor(batch, minibatch)}",
    )  # fmt: skip
    for limit in _values(config.cost_limit):
        require(0 <= limit < math.inf, "--cost-limit", limit, "a finite number ≥ 0, one for each cost")
    require(
        config.margin == "auto" or (isinstance(config.margin, int | float) and 0 <= config.margin < 1), "--margin",
        config.margin, "auto, or a number in [0, 1): a share of the limit",
    )  # fmt: skip
    for discount in _values(config.cost_discount):
        require(0 < discount <= 1, "--cost-discount", discount, "in (0, 1], one for each cost")


def require_room(config: TrainConfig, spec: Spec) -> None:
    """Refuse a batch whose observations this machine cannot hold, once the environment has told their size."""
    needed, room = config.batch_size * spec.obs_size * _OBS_BYTES, _memory()
    if needed > room:
        raise UsageError(
            f"--batch-size is {config.batch_size}; it must be less: with {spec.obs_size} numbers in an observation it"
            f" needs about {needed / 1e9:.3g} GB of memory. This machine has {room / 1e9:.3g} GB"
        )


def _values(per_cost: Mapping[str, float] | tuple[float, ...] | None) -> Iterable[float]:
    return per_cost.values() if isinstance(per_cost, Mapping) else per_cost or ()


def require_mjx(task: str) -> None:
    """Refuse a task that MJX cannot run here."""
    if tasks.find(task) is None:
        raise UsageError(
            f"--backend is mjx; it must be cpu for {task}. On an accelerator run the tasks that `focops tasks` lists"
        )
    if not all(importlib.util.find_spec(name) for name in ("mujoco.mjx", "mujoco")):
        raise UsageError("--backend is mjx; it must be cpu here. MJX is not installed: pip install 'focops[gpu]'")


def _validate_algo(algo: Any, require: Any) -> None:
    """Each field within the range that it declares."""
    for name, allowed in ranges(type(algo)).items():
        value = getattr(algo, name)
        require(allowed.holds(value), f"--algo.{name.replace('_', '-')}", value, allowed.text)


def _nearest(value: int, divisor: int) -> str:
    below, above = value // divisor * divisor, -(-value // divisor) * divisor
    return f"{below} or {above}" if below else str(above)


def _divisor(batch: int, near: int) -> int:
    small = [d for d in range(1, math.isqrt(batch) + 1) if batch % d == 0]
    return min([*small, *(batch // d for d in small)], key=lambda d: (abs(d - near), d))


def _memory() -> float:
    """Bytes of memory that this machine has; inf where that is not known."""
    if not hasattr(os, "sysconf"):  # Windows
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
