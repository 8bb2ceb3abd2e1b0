"""R runs as one program: tasks and learners on an accelerator, every array with an axis of runs in front.

A run here is what it is on the CPU: its own seed, its own values of whatever is traced (temperature, limits, rates,
discounts), its own directory. All R step their R·E simulations together and update together; on several devices each
holds its share of the runs, and they never need to talk.
"""

import copy
import dataclasses
import inspect
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, UInt32

from focops import envs, finite
from focops.algorithms import ALGORITHMS
from focops.config import TrainConfig, validate
from focops.core import normalize, policy
from focops.core.types import Rollout
from focops.envs.mjx import Impl, MjxTask, Simulations
from focops.errors import RunError, UsageError
from focops.rollout import RECENT, actor
from focops.trainer import (
    Arrays,
    Record,
    configure_jax,
    fill,
    key_of,
    learn,
    named,
    report,
    save_policy_of,
    take_over,
    with_constraints,
)

log = logging.getLogger(__name__)

RUNS = PartitionSpec("runs")


class Book(NamedTuple):
    """One run's episodes: sums so far of those that run, and the latest whole ones."""

    running: Float[Array, "E w"]
    """reward, m discounted costs, m undiscounted costs"""
    recent: Float[Array, "K w+1"]
    """length, then as `running`; the next goes to row finished mod K."""
    finished: Int[Array, ""]


class Runs(NamedTuple):
    """Everything that makes the next iteration, each array [R, ...]."""

    learner: Any
    """(the algorithm's State, RunningStats)"""
    sims: Simulations
    """[R, E, ...]"""
    book: Book
    key: UInt32[Array, "R 2"]
    good: Bool[Array, "R"]
    """Whether every iteration so far was finite; a run that failed stays as it was before."""


class Report(NamedTuple):
    """What an iteration tells the host, each array [R, ...]."""

    info: Any
    good: Bool[Array, "R"]
    means: Any
    """Over the latest whole episodes; 0 before the first."""
    finished: Int[Array, "R"]
    diverged: Int[Array, "R"]
    overflow: Int[Array, "R"]
    """Simulations of the device whose contacts did not fit, in this iteration."""


class Evidence(NamedTuple):
    """What is looked at only if a run fails: its batch, and the learner that it would have had."""

    rollout: Rollout
    """[T, R, E, ...]"""
    learner: Any


class Fleet:
    """R runs in memory. `advance` is one iteration of all of them."""

    def __init__(self, configs: Sequence[TrainConfig], impl: Impl | None = None, devices: Sequence[Any] | None = None):
        for config in configs:
            validate(config)
        configure_jax()
        first = require_alike(configs)
        self.task = envs.find(first.task)
        assert self.task is not None  # `validate` has seen to it
        self.configs = list(configs)
        self.iterations, self.batch_size = first.iterations, first.batch_size
        constraints = [envs.constraints(self.task, c.cost_limit, c.cost_discount) for c in configs]
        self.env = MjxTask(self.task, constraints[0], impl, stagger=not first.fresh_episodes)
        self.algorithm = ALGORITHMS[first.algorithm]
        self._algo = [with_constraints(c.algo, each) for c, each in zip(configs, constraints, strict=True)]
        self._network = self.algorithm.network(self._algo[0])
        self.specs = [dataclasses.replace(self.env.spec, constraints=each) for each in constraints]
        devices = list(devices or jax.devices())[: len(configs)]
        self._mesh = Mesh(np.array(devices), ("runs",))
        # runs that do not fill the last device's share are made up; nobody hears of them
        self._slots = -(-len(configs) // len(devices)) * len(devices)
        self._config = self._spread(_stack([*self._algo, *[self._algo[-1]] * (self._slots - len(configs))]))
        self.iteration = 0
        self.members = [Member(self, i) for i in range(len(configs))]
        shares = self._slots // len(devices) * first.num_envs
        self._arrays = jax.device_put(self.env.arrays(shares), NamedSharding(self._mesh, PartitionSpec()))
        self._step = self._compiled(Fleet._iterate_impl, donate=True)
        self._cutting = self._compiled(Fleet._cut, donate=True)
        self._runs = self._compiled(Fleet._begin_impl)(*map(self._spread, self._seeds()), self._config)
        self._pending: tuple[Report, Evidence] | None = None
        self._evidence: Evidence | None = None
        self._host: tuple[int, Runs] | None = None
        self._told: Report | None = None
        self._overflowed = False

    # ---- the loop's side -------------------------------------------------------------------------------------------

    def advance(self, ahead: bool = False) -> list[Record | RunError]:
        """One more iteration of all runs: a record of each, or what went wrong in it. With `ahead` the device starts
        on the next iteration before this one's numbers are looked at; the state is then no longer this one's."""
        if self._pending is None:
            self._dispatch()
        assert self._pending is not None
        waiting, self._evidence = self._pending
        self._pending = None
        number = self.iteration + 1
        if ahead:
            self._dispatch(number)
        self._told = told = jax.device_get(waiting)
        for member, good in zip(self.members, told.good, strict=False):  # there may be made-up ones
            if not good and member.failed_after is None:
                member.failed_after = self.iteration
                member.error = RunError(member.fault())
        self.iteration = number
        self._warn(told)
        return [member.error or self._record(told, i) for i, member in enumerate(self.members)]

    @property
    def ahead(self) -> bool:
        """Whether the device is at work on an iteration that has not been reported."""
        return self._pending is not None

    def go_ahead(self) -> None:
        """Start on the next iteration; what `snapshot` took stays."""
        if self._pending is None and self.iteration < self.iterations:
            self._dispatch()

    def snapshot(self) -> None:
        """Copy all runs to the host, for their members' `arrays` and `save_policy`."""
        assert self._pending is None, "the state is already another iteration's"
        self._host = self.iteration, jax.device_get(self._runs)

    def cut_episodes(self) -> None:
        """Start a new episode in every environment; those that are cut are not counted."""
        self._runs = self._cutting(self._runs)

    def restore(self, arrays: Sequence[Arrays]) -> None:
        """Go on from the members' arrays, all of one iteration."""
        self.snapshot()
        numbers = {int(each["iteration"]) for each in arrays}
        if len(numbers) > 1:
            raise UsageError(f"runs of one program stand at different iterations: {sorted(numbers)}")
        trees = [member.filled(each) for member, each in zip(self.members, arrays, strict=True)]
        self._put(trees)
        self.iteration = numbers.pop()

    def start_from(self, arrays: Arrays, source: str) -> None:
        """Take over the networks and the normaliser of another run in every one of these."""
        self.snapshot()
        trees = []
        for member in self.members:
            tree = member.tree()
            trees.append(tree._replace(learner=take_over(tree.learner, arrays, source, member.config.task)))
        self._put(trees)

    def close(self) -> None:
        """Nothing to release."""

    # ---- the device's side -----------------------------------------------------------------------------------------

    def _dispatch(self, number: int | None = None) -> None:
        number = self.iteration if number is None else number
        counts = np.full(self._slots, number, np.int32)
        progress = np.full(self._slots, number / self.iterations, np.float32)
        self._runs, waiting, evidence = self._step(
            self._runs, self._config, self._spread(counts), self._spread(progress)
        )
        self._pending = waiting, evidence

    def _begin_impl(self, key: UInt32[Array, "R 2"], seed: UInt32[Array, "R 2"], config: Any) -> Runs:
        runs, num = key.shape[0], self.configs[0].num_envs
        spec, w = self.env.spec, 1 + 2 * len(self.env.spec.constraints)
        init = lambda k, c: self.algorithm.init(jax.random.fold_in(jax.random.wrap_key_data(k), 0), spec, c)
        index = jnp.tile(jnp.arange(num, dtype=jnp.int32), runs)
        sims = self.env.begin(jnp.repeat(seed, num, 0), index, num)
        many = partial(jax.tree.map, lambda x: jnp.broadcast_to(x, (runs, *x.shape)))
        return Runs(
            learner=(jax.vmap(init)(key, config), many(normalize.init(spec.obs_size))),
            sims=_by_run(sims, runs),
            book=many(Book(jnp.zeros((num, w)), jnp.zeros((RECENT, w + 1)), jnp.int32(0))),
            key=key,
            good=jnp.ones(runs, bool),
        )

    def _cut(self, runs: Runs) -> Runs:
        sims = _by_run(self.env.restart(_flat(runs.sims)), runs.key.shape[0])
        return runs._replace(sims=sims, book=runs.book._replace(running=jnp.zeros_like(runs.book.running)))

    def _iterate_impl(
        self, before: Runs, config: Any, number: Int[Array, "R"], progress: Float[Array, "R"]
    ) -> tuple[Runs, Report, Evidence]:
        runs = self._cut(before) if self.configs[0].fresh_episodes else before
        split = lambda k, n: jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(k), n + 1))
        keys = jax.vmap(split)(runs.key, number)
        (state, stats), sims = runs.learner, runs.sims
        rollout, stats, sims, overflow = self._collect(keys[:, 0], state.policy, stats, sims, progress)
        axes = Rollout(*[1] * (len(Rollout._fields) - 1), progress=0)  # type: ignore[arg-type]
        update = jax.vmap(learn(self.algorithm), (0, 0, 0, axes, 0))
        state, info, finite_now = update(keys[:, 1], state, stats, rollout, config)
        book = jax.vmap(partial(_enter, limit=self.env.spec.time_limit), (0, axes, 0))(
            runs.book, rollout, jnp.array(config.cost_discounts).T
        )
        good = runs.good & finite_now
        after = Runs((state, stats), sims, book, runs.key, good)
        after = jax.tree.map(
            lambda new, old: jnp.where(good.reshape(-1, *[1] * (new.ndim - 1)), new, old), after, before
        )
        told = Report(
            info, good, jax.vmap(_means)(after.book), after.book.finished, jnp.sum(after.sims.diverged, 1),
            jnp.broadcast_to(overflow, good.shape),
        )  # fmt: skip
        return after._replace(good=good), told, Evidence(rollout, (state, stats))

    def _collect(
        self, keys: Any, params: Any, stats: normalize.RunningStats, sims: Simulations, progress: Float[Array, "R"]
    ) -> tuple[Rollout, normalize.RunningStats, Simulations, Int[Array, ""]]:
        """T steps of every simulation; arrays of the rollout are [T, R, E, ...]."""
        runs, num = sims.age.shape
        steps, spec = self.batch_size // num, self.env.spec
        act = jax.vmap(actor(self._network))
        noise = jax.vmap(lambda key: policy.noise(key, spec, (steps, num)), out_axes=1)(keys)
        flat = _flat(sims)

        def step(carry: Any, noise: Any) -> Any:
            data, sims, stats = carry
            grouped = lambda x: x.reshape(runs, num, *x.shape[1:])
            stats, obs, action = act(params, stats, grouped(sims.obs), noise)
            age = grouped(sims.age)
            data, sims, out = self.env.step(data, sims, action.reshape(runs * num, -1))
            out = jax.tree.map(grouped, out)
            return (data, sims, stats), (obs, action, *out, age)

        (data, flat, stats), seen = jax.lax.scan(step, (self.env.load(flat), flat, stats), noise)
        return Rollout(*seen, progress=progress), stats, _by_run(flat, runs), self.env.overflow(data)

    # ---- between the two -------------------------------------------------------------------------------------------

    def _compiled(self, function: Any, donate: bool = False) -> Any:
        """`function(self, *arrays)` jitted, each device doing its share of the runs."""

        def program(arrays: Any, *own: Any) -> Any:
            here = copy.copy(self)
            here.env = self.env.using(arrays)
            return function(here, *own)

        if self._mesh.size > 1:
            count = len(inspect.signature(function).parameters) - 1
            wherever, out = (PartitionSpec(), *[RUNS] * count), _OUT.get(function.__name__, RUNS)
            program = jax.shard_map(program, mesh=self._mesh, in_specs=wherever, out_specs=out, check_vma=False)
        return partial(jax.jit(program, donate_argnums=(1,) if donate else ()), self._arrays)

    def _spread(self, tree: Any) -> Any:
        """Arrays [R, ...] on the devices."""
        return jax.device_put(tree, NamedSharding(self._mesh, RUNS))

    def _put(self, trees: Sequence[Runs]) -> None:
        made_up = [trees[-1]] * (self._slots - len(trees))
        self._runs = self._spread(jax.tree.map(lambda *x: np.stack(x), *trees, *made_up))

    def _seeds(self) -> tuple[np.ndarray, np.ndarray]:
        """Each run's key for learning and its words for resets."""
        numbers = [c.seed for c in self.configs]
        numbers += [numbers[-1]] * (self._slots - len(numbers))
        keys = [np.asarray(jax.random.key_data(key_of(seed))) for seed in numbers]
        words = [(seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF) for seed in numbers]
        return np.array(keys, np.uint32), np.array(words, np.uint32)

    def _record(self, told: Report, i: int) -> Record:
        means = told.means[i] if told.finished[i] else None
        info = jax.tree.map(lambda x: x[i], told.info)
        return report(
            self.configs[i], self.specs[i], self._algo[i], self.iteration, means, int(told.finished[i]),
            int(told.diverged[i]), info,
        )  # fmt: skip

    def _warn(self, told: Report) -> None:
        if not self._overflowed and np.any(told.overflow):
            self._overflowed = True
            log.warning(
                "%s: %d simulations had more contacts than there is room for at iteration %d; those beyond it were "
                "ignored. Raise SELF_CONTACTS in focops/envs/mjx.py if this goes on",
                self.task.name if self.task else "", int(np.max(told.overflow)), self.iteration,
            )  # fmt: skip


_OUT = {"_iterate_impl": (RUNS, RUNS, Evidence(Rollout(*[PartitionSpec(None, "runs")] * 8, progress=RUNS), RUNS))}  # type: ignore[arg-type]
"""Where the runs' axis is, of functions that have it elsewhere than in front."""


class Member:
    """One run of a fleet, for those who keep it: what `Trainer` is for a run on its own."""

    def __init__(self, fleet: Fleet, index: int):
        self._fleet, self._index = fleet, index
        self.config, self.spec = fleet.configs[index], fleet.specs[index]
        self.failed_after: int | None = None
        """The last good iteration of a run that has failed."""
        self.error: RunError | None = None

    @property
    def iteration(self) -> int:
        return self._fleet.iteration if self.failed_after is None else self.failed_after

    def tree(self) -> Runs:
        """What the run was at the last snapshot; one that has failed, what it was before."""
        return self._at()[1]

    def arrays(self) -> Arrays:
        """`tree` as named arrays."""
        iteration, tree = self._at()
        return self._named(tree) | {"iteration": np.array(iteration)}

    def _at(self) -> tuple[int, Runs]:
        fleet, i = self._fleet, self._index
        if self.failed_after is not None:  # as it is now, since it changes no more
            return self.failed_after, jax.device_get(jax.tree.map(lambda x: x[i], fleet._runs))
        assert fleet._host is not None, "take a snapshot first"
        iteration, runs = fleet._host
        return iteration, jax.tree.map(lambda x: np.asarray(x[i]), runs)

    def filled(self, arrays: Arrays) -> Runs:
        """The run with all of its arrays replaced by those."""
        tree = self.tree()
        mine = self._named(tree)
        for name, value in mine.items():
            if name not in arrays or arrays[name].shape != value.shape:
                found = arrays[name].shape if name in arrays else "nothing"
                raise UsageError(f"the checkpoint does not fit this run: {name} should be {value.shape}, found {found}")
        part = lambda kind, prefix: kind(**{f: arrays[f"{prefix}/{f}"] for f in kind._fields})
        learner = jax.tree.map(np.asarray, fill(tree.learner, arrays))
        return tree._replace(learner=learner, sims=part(Simulations, "env"), book=part(Book, "episodes"))

    def means(self) -> np.ndarray | None:
        """Mean length, reward, discounted and undiscounted costs over the latest episodes; None before the first."""
        told, i = self._fleet._told, self._index
        if told is not None:
            return told.means[i] if told.finished[i] else None
        self._fleet.snapshot()  # a run that has been restored and needs no more iterations
        book = self.tree().book
        return np.asarray(np.mean(book.recent[: book.finished], 0)) if book.finished else None

    def save_policy(self, folder: Path) -> None:
        """Write the policy on its own, for `focops.load`."""
        (state, stats), fleet = self.tree().learner, self._fleet
        save_policy_of(folder, state.policy, stats, self.config, self.spec, fleet._algo[self._index], self._at()[0])

    def fault(self) -> str:
        """Which number of a failed iteration was not finite, and who made it."""
        rollout, rejected = self._failed()
        return finite.first_fault(rollout, self.tree().learner, rejected)

    def evidence(self) -> Arrays:
        """What a failed iteration leaves to look at: the last good state, the batch, and the state it rejected."""
        rollout, rejected = self._failed()
        batch = {f"rollout/{k}": np.asarray(v) for k, v in rollout._asdict().items()}
        return {**self.arrays(), **batch, **named(rejected, "rejected")}

    def _failed(self) -> tuple[Rollout, Any]:
        assert self._fleet._evidence is not None
        i, (rollout, learner) = self._index, self._fleet._evidence
        own = Rollout(*[np.asarray(x[:, i]) for x in rollout[:-1]], progress=np.asarray(rollout.progress[i]))  # type: ignore[arg-type]
        return own, jax.tree.map(lambda x: np.asarray(x[i]), learner)

    def _named(self, tree: Runs) -> Arrays:
        sims = {f"env/{name}": value for name, value in tree.sims._asdict().items()}
        book = {f"episodes/{name}": value for name, value in tree.book._asdict().items()}
        return {**named(tree.learner), **sims, **book}


def require_alike(configs: Sequence[TrainConfig]) -> TrainConfig:
    """Refuse runs that cannot share a program; the first of them."""
    first = program_of(configs[0])
    for config in configs:
        if program_of(config) != first:
            raise UsageError("runs of one program may differ in seed and in traced numbers only; group them first")
    return configs[0]


def program_of(config: TrainConfig) -> Any:
    """What is built into a run's program; runs that agree in it are trained as one."""
    fields = dataclasses.fields(config.algo)
    static = tuple((f.name, getattr(config.algo, f.name)) for f in fields if f.metadata.get("static"))
    sizes = (config.num_envs, config.batch_size, config.iterations, config.fresh_episodes, config.exact)
    return config.task, config.algorithm, static, sizes, config.checkpoint_every, config.init_from


def _stack(configs: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *x: np.array(x, np.float32), *configs)


def _flat(tree: Any) -> Any:
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def _by_run(tree: Any, runs: int) -> Any:
    return jax.tree.map(lambda x: x.reshape(runs, -1, *x.shape[1:]), tree)


def _enter(book: Book, rollout: Rollout, discount: Float[Array, "m"], *, limit: int | None) -> Book:
    """Enter one run's batch [T, E], as `EpisodeBook.add` does."""
    steps = jnp.arange(rollout.age.shape[0])[:, None]
    ended = rollout.terminated | rollout.truncated
    length = rollout.age + 1
    whole = ended & (rollout.terminated | (limit is None or length >= limit))
    discounted = discount ** rollout.age[..., None].astype(jnp.float32) * rollout.cost
    paid = jnp.concatenate([rollout.reward[..., None], discounted, rollout.cost], -1)
    total = book.running + jnp.cumsum(paid, 0)
    # the total at the end of the episode before, which is none of this episode's
    last_end = jax.lax.cummax(jnp.where(ended, steps, -1), axis=0)
    before_this = jnp.concatenate([jnp.full_like(last_end[:1], -1), last_end[:-1]])
    at = lambda when: jnp.where(
        (when >= 0)[..., None], jnp.take_along_axis(total, jnp.maximum(when, 0)[..., None], 0), 0.0
    )
    episodes = jnp.concatenate([length[..., None].astype(jnp.float32), total - at(before_this)], -1)
    order = jnp.cumsum(whole.reshape(-1))
    latest = whole.reshape(-1) & (order[-1] - order < RECENT)
    row = jnp.where(latest, (book.finished + order - 1) % RECENT, RECENT)
    recent = book.recent.at[row].set(episodes.reshape(len(row), -1), mode="drop")
    return Book(total[-1] - at(last_end)[-1], recent, book.finished + order[-1].astype(jnp.int32))


def _means(book: Book) -> Float[Array, "w"]:
    number = jnp.clip(book.finished, 0, RECENT)
    return jnp.sum(book.recent * (jnp.arange(RECENT) < number)[:, None], 0) / jnp.maximum(number, 1)
