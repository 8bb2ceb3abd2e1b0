"""Evaluating runs: `evaluate` for one, `evaluate_all` for many."""

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from focops import confidence as bounds
from focops import envs
from focops.config import Backend, TrainConfig, require_mjx, where_environments_run
from focops.core.networks import Network
from focops.core.spec import Constraint
from focops.envs.names import Given, is_instance
from focops.errors import UsageError
from focops.evaluation import host
from focops.evaluation.judge import Evaluation, estimate, judge
from focops.evaluation.protocol import Protocol
from focops.runs.directory import RunDirectory, runs_in
from focops.runs.policy import Policy
from focops.runs.policy_file import load
from focops.training.host import configure_jax, make_envs

log = logging.getLogger(__name__)


Progress = Callable[[int, int, str], None]
"""Is told how many are done, of how many, and what is next."""


class Trained(NamedTuple):
    """A run that has a policy."""

    path: Path | str
    config: TrainConfig
    policy: Policy


def evaluate(
    run: Path | str,
    *,
    episodes: int = 100,
    seeds: Sequence[int] = (0,),
    deterministic: bool = False,
    confidence: float = 0.95,
    threads: int = 1,
    network: Network | None = None,
    env: Any = None,
    cost: Any = None,
    backend: Backend = "cpu",
    env_workers: int | None = None,
    env_python: Path | str | None = None,
) -> Evaluation:
    """Evaluate a run's policy on `episodes` episodes, shared out evenly among `seeds`. Nothing of the run is changed.

    focops.evaluate("cheetah", episodes=100, seeds=range(10)) is the paper's generalisation protocol. `network` is
    needed only if the run used one of your own, `env` and `cost` only if no name finds them; `env_workers` and
    `env_python` only where Gymnasium environments are to run elsewhere than in training.
    """
    protocol = Protocol(episodes, tuple(map(int, seeds)), deterministic, confidence)
    elsewhere = where_environments_run(env_workers, env_python)
    return _evaluate([run], protocol, backend, threads, network, Given(env, cost), elsewhere)[0]


def evaluate_all(
    runs: Path | str | Sequence[Path | str],
    *,
    episodes: int = 100,
    seeds: Sequence[int] = (0,),
    deterministic: bool = False,
    confidence: float = 0.95,
    threads: int = 1,
    network: Network | None = None,
    env: Any = None,
    cost: Any = None,
    backend: Backend = "cpu",
    env_workers: int | None = None,
    env_python: Path | str | None = None,
    progress: Progress = lambda done, total, note: None,
) -> list[Evaluation]:
    """Evaluate many runs, each as `evaluate` does: those of a grid, or of several paths (of runs or grids).

    focops.evaluate_all("runs/grid", episodes=1000, backend="mjx") evaluates all of them on the accelerator, as one
    program for each task and network shape; the physics is float32 there. `progress` is told before each run how many
    of how many are done, and which is next.
    """
    protocol = Protocol(episodes, tuple(map(int, seeds)), deterministic, confidence)
    paths = [runs] if isinstance(runs, Path | str) else list(runs)
    found = {run.resolve(): run for path in paths for run in runs_in(path)}  # each once, also if named twice
    elsewhere = where_environments_run(env_workers, env_python)
    return _evaluate(list(found.values()), protocol, backend, threads, network, Given(env, cost), elsewhere, progress)


def _evaluate(
    paths: Sequence[Path | str],
    protocol: Protocol,
    backend: Backend,
    threads: int,
    network: Network | None,
    given: Given,
    elsewhere: dict[str, Any],
    progress: Progress = lambda done, total, note: None,
) -> list[Evaluation]:
    protocol.check()
    configure_jax()
    runs = [
        run._replace(config=dataclasses.replace(run.config, **elsewhere)) for run in _trained(paths, network, given)
    ]
    if backend == "cpu":
        found = []
        for run in runs:
            progress(len(found), len(runs), str(run.path))
            found += on_host(run, [protocol], threads)
        return found
    for run in runs:
        require_mjx(run.config.task)
    if jax.default_backend() == "cpu":
        log.warning("--backend mjx: JAX sees no accelerator here: slow; --backend cpu is made for this")
    progress(0, len(runs), f"{len(runs)} policies as one program for each task and network shape")
    return [result for (result,) in on_device(runs, [protocol])]


def _trained(paths: Sequence[Path | str], network: Network | None, given: Given) -> list[Trained]:
    """The runs' configs and policies; every run must have one."""
    if not paths:
        raise UsageError("no run is given; give the directory of a run or of a grid, or several")
    directories = [RunDirectory.open(Path(path), lock=False) for path in paths]
    early = [str(directory.path) for directory in directories if not directory.policy.is_dir()]
    if early:
        named = ", ".join(early[:3]) + ", …" * (len(early) > 3)
        raise UsageError(
            f"{len(early)} of {len(paths)} run(s) have no policy yet ({named});"
            " it is written with the first checkpoint: let training go on (`focops resume`), or name only the others"
        )
    configs = [directory.config_with(network, given) for directory in directories]
    return [Trained(path, config, load(path, network)) for path, config in zip(paths, configs, strict=True)]


def on_host(
    run: Trained,
    protocols: Sequence[Protocol],
    threads: int,
    before_step: Callable[[int], None] = lambda number: None,
) -> list[Evaluation]:
    """An evaluation by each protocol, all of as many episodes; `before_step` is that of `host.run_episodes`."""
    config, first = run.config, protocols[0]
    each = first.episodes // len(first.seeds)
    at_once = host.AT_ONCE if envs.find(config.task) else 1 if is_instance(config.given.env) else config.num_envs
    env = make_envs(config, min(each, at_once), threads)
    found = []
    try:
        run.policy.require_fit(env.spec)
        for protocol in protocols:
            acting = protocol.deterministic
            ran = [host.run_episodes(run.policy, env, seed, each, acting, before_step) for seed in protocol.seeds]
            rows = np.concatenate([rows for rows, _, _ in ran])
            cut, diverged = (sum(counts) for counts in list(zip(*ran, strict=True))[1:])
            found.append(_judged(run, protocol, "cpu", env.spec.constraints, rows, cut, diverged))
    finally:
        env.close()
    return found


def on_device(runs: Sequence[Trained], protocols: Sequence[Protocol]) -> list[list[Evaluation]]:
    """Of each run, an evaluation by each protocol, which may differ only in how they act; all that can share a program
    as one."""
    groups: dict[Any, list[int]] = {}
    for i, run in enumerate(runs):
        groups.setdefault(_sharing_key(run), []).append(i)
    found: dict[int, list[Evaluation]] = {}
    for group in groups.values():
        results = _as_one_program([(runs[i], protocol) for i in group for protocol in protocols])
        n = len(protocols)
        found |= {i: results[k * n : (k + 1) * n] for k, i in enumerate(group)}
    return [found[i] for i in range(len(runs))]


def _as_one_program(asked: Sequence[tuple[Trained, Protocol]]) -> list[Evaluation]:
    """Runs that `_sharing_key` says can share a program."""
    from focops.evaluation.device import run_episodes

    (first, protocol), policies = asked[0], [run.policy for run, _ in asked]
    constraints = [_constraints(run.config) for run, _ in asked]
    params, stats = jax.tree.map(
        lambda *x: np.stack(x), *[jax.device_get((policy.params, policy.stats)) for policy in policies]
    )
    ran = run_episodes(
        first.config.task, constraints[0], first.policy.network, params, stats, protocol.seeds, protocol.episodes,
        [each.deterministic for _, each in asked], self_contacts=first.config.self_contacts,
    )  # fmt: skip
    each = zip(asked, constraints, ran.rows, ran.diverged.sum(1), strict=True)
    return [_judged(run, by, "mjx", own, rows, 0, int(diverged)) for (run, by), own, rows, diverged in each]


def _sharing_key(run: Trained) -> Any:
    """What is constant in a program of many policies, and the discounts, which they share; limits may differ."""
    leaves, structure = jax.tree.flatten((run.policy.params, run.policy.stats))
    discounts = tuple(c.discount for c in _constraints(run.config))
    shapes = structure, tuple(map(np.shape, leaves))
    return run.config.task, run.policy.network, shapes, run.config.self_contacts, discounts


def _constraints(config: TrainConfig) -> tuple[Constraint, ...]:
    task = envs.find(config.task)
    assert task is not None  # `require_mjx` has checked it
    return envs.constraints(task, config.cost_limit, config.cost_discount)


def _judged(
    run: Trained,
    protocol: Protocol,
    backend: Backend,
    constraints: Sequence[Constraint],
    rows: np.ndarray,
    cut: int,
    diverged: int,
) -> Evaluation:
    m, confidence = len(constraints), protocol.confidence
    task = envs.find(run.config.task)
    most = [math.inf if task is None else task.costliest(c.discount) for c in constraints]
    return Evaluation(
        task=run.config.task,
        run=str(run.path),
        iteration=run.policy.description["iteration"],
        backend=backend,
        physics="float32" if backend == "mjx" else "float64" if task is not None else None,
        episodes=len(rows),
        seeds=protocol.seeds,
        deterministic=protocol.deterministic,
        confidence=confidence,
        cut=cut,
        diverged=diverged,
        unseen_share=bounds.unseen_share(len(rows), confidence),
        reward=estimate(rows[:, 1], confidence),
        episode_length=estimate(rows[:, 0], confidence),
        constraints={
            c.name: judge(c, rows[:, 2 + i], rows[:, 2 + m + i], confidence, most[i]) for i, c in enumerate(constraints)
        },
    )
