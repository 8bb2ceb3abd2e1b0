"""Our tasks on an accelerator: N simulations of one model as pure functions of arrays, on MJX.

The tasks are the CPU backend's own; only the simulator differs: float32, MJX's contact and constraint solver (Newton
also for Humanoid, whose PGS it lacks), written in Warp on a CUDA device and in JAX elsewhere.

Between two batches a simulation is its `Simulations` row and nothing else; MuJoCo's large working arrays (`Data`) live
only while a batch is collected. A step recomputes whatever a row does not hold, so that a run resumes exactly.
"""

import copy
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from focops.core.spec import Constraint
from focops.envs.mjx_model import Impl, buffer_sizes, for_mjx, mjx, put_model
from focops.envs.simulator import control_step_seconds, load, spec_of
from focops.envs.stagger import first_horizons
from focops.envs.tasks import SELF_CONTACTS, Physics, Task
from focops.envs.tasks.task import Draws

Data = Any
"""`mjx.Data` of N simulations; `_Placed` for a robot that is moved without physics."""

ABSURD = 1e6
"""A simulation is unstable if a joint position or velocity is beyond this, or not finite."""
_STREAM = 0x73696D
"""Separates the random numbers of episode starts from those that the learner draws from the same seed."""


class Simulations(NamedTuple):
    """N simulations between two control steps, and the episodes they are in."""

    qpos: Float[Array, "N nq"]
    qvel: Float[Array, "N nv"]
    warmstart: Float[Array, "N nv"]
    """The solver's first guess: the accelerations of the last step."""
    obs: Float[Array, "N O"]
    """What the policy acts on next (after a reset where an episode has just ended)."""
    position: Float[Array, "N d"]
    """Where the robot was when `obs` was taken."""
    age: Int[Array, "N"]
    horizon: Int[Array, "N"]
    """Length at which the episode is truncated."""
    episode: Int[Array, "N"]
    """Episodes begun so far."""
    seed: UInt32[Array, "N 2"]
    """Low and high word of the run's seed."""
    number: Int[Array, "N"]
    """Index of the environment in its run. Episode k starts from noise that depends only on (seed, number, k)."""
    diverged: Int[Array, "N"]
    """Episodes that have ended because their simulation became unstable."""


class Transition(NamedTuple):
    """What N simulations return for N actions. `next_obs` is the true successor, also where the episode ends."""

    reward: Float[Array, "N"]
    cost: Float[Array, "N m"]
    terminated: Bool[Array, "N"]
    truncated: Bool[Array, "N"]
    cut: Bool[Array, "N"]
    """Truncated by us, not by the task."""
    next_obs: Float[Array, "N O"]


class _Placed(NamedTuple):
    """The part of `mjx.Data` that a robot moved without physics has."""

    qpos: Float[Array, "N nq"]
    qvel: Float[Array, "N nv"]
    qacc_warmstart: Float[Array, "N nv"]

    def replace(self, **fields: Any) -> "_Placed":
        return self._replace(**{name: value for name, value in fields.items() if name in self._fields})


class MjxTask:
    """One task's environments as functions: `begin`, then `load` and as many `step`s as wanted. In Warp a robot
    has room for `self_contacts` contacts with itself, beside all with the floor."""

    def __init__(
        self,
        task: Task,
        constraints: Sequence[Constraint] | None = None,
        impl: Impl | None = None,
        stagger: bool = True,
        self_contacts: int = SELF_CONTACTS,
        several_devices: bool = False,
    ):
        self.task, self.stagger, self._self_contacts = task, stagger, self_contacts
        self.impl: Impl = impl or ("warp" if jax.default_backend() == "gpu" else "jax")
        if self.impl == "warp":
            import warp

            warp.config.log_level = warp.LOG_WARNING  # otherwise it prints a line for each of a hundred kernels
        self.model = model = for_mjx(load(task.robot))
        self._mjx: Any = None if task.robot.move else put_model(model, self.impl, several_devices)
        self._blank: Any = None
        self._physics: dict[str, Any] = dict(
            dt=control_step_seconds(task.robot, model),
            body_mass=jnp.asarray(model.body_mass, jnp.float32),
            ctrlrange=jnp.asarray(model.actuator_ctrlrange, jnp.float32),
        )
        obs = jax.eval_shape(lambda: self.begin(jnp.zeros((1, 2), jnp.uint32), jnp.zeros(1, jnp.int32), 1)).obs
        self.spec = spec_of(task, model, obs.shape[1], constraints)

    @staticmethod
    @functools.lru_cache(maxsize=4)
    def of(*what: Any) -> "MjxTask":
        """The same for the same arguments, so that what is compiled of it is found again."""
        return MjxTask(*what)

    def arrays(self, num: int) -> Any:
        """The arrays that functions on `num` simulations use beside their arguments. A program takes them as one more
        argument (`using`), so that it does not contain 40 MB of constants (16,384 half-cheetahs)."""
        return (self._mjx, None) if self._mjx is None else (self._mjx, self._make_data(num))

    def using(self, arrays: Any) -> "MjxTask":
        """The same task with `arrays` in place of its own."""
        same = copy.copy(self)
        same._mjx, same._blank = arrays
        return same

    def begin(self, seed: UInt32[Array, "N 2"], index: Int[Array, "N"], num_envs: int) -> Simulations:
        """Environments `index` (of `num_envs`) of runs with those seeds, at the start of their first episodes."""
        n, model = len(index), self.model
        zeros = lambda *shape: jnp.zeros((n, *shape))
        sims = Simulations(
            qpos=zeros(model.nq), qvel=zeros(model.nv), warmstart=zeros(model.nv), obs=zeros(0), position=zeros(0),
            age=jnp.zeros(n, jnp.int32), horizon=jnp.zeros(n, jnp.int32), episode=jnp.zeros(n, jnp.int32),
            seed=seed, number=index, diverged=jnp.zeros(n, jnp.int32),
        )  # fmt: skip
        return self.restart(sims, num_envs)

    def restart(self, sims: Simulations, num_envs: int) -> Simulations:
        """Start a new episode in every environment, `num_envs` per run. With `stagger` it is cut at (i+1)/E of the time
        limit, so that later ones do not all end together."""
        everywhere = jnp.ones(sims.age.shape, bool)
        # before the first start `sims` lacks the widths of observations and positions
        shapes = jax.eval_shape(self._observe, self.load(sims))
        blank = [jnp.zeros(x.shape) for x in shapes]
        sims = self._reset(self.load(sims), sims._replace(obs=blank[0], position=blank[1]), everywhere)[1]
        first = jnp.asarray(first_horizons(num_envs, self.task.time_limit))
        return sims._replace(horizon=first[sims.number]) if self.stagger else sims

    def load(self, sims: Simulations) -> Data:
        """MuJoCo's working arrays for simulations in these states."""
        state = dict(qpos=sims.qpos, qvel=sims.qvel, qacc_warmstart=sims.warmstart)
        if self._mjx is None:
            return _Placed(**state)
        n = len(sims.age)
        blank = self._make_data(n) if self._blank is None else self._blank
        shared = _shared_fields() if self.impl == "warp" else frozenset()
        many = lambda path, x: x if _field(path) in shared else jnp.broadcast_to(x, (n, *x.shape))
        return jax.tree_util.tree_map_with_path(many, blank).replace(**state)

    def _make_data(self, num: int) -> Data:
        """One simulation's working arrays, and those that `num` share."""
        size = buffer_sizes(self.model, self._self_contacts)
        room: dict[str, Any] = dict(naconmax=size.contacts * num, njmax=size.constraints) if self.impl == "warp" else {}
        return mjx.make_data(self.model, impl=self.impl, **room)

    def step(self, data: Data, sims: Simulations, action: Float[Array, "N A"]) -> tuple[Data, Simulations, Transition]:
        """One control step of every simulation; an episode that ends restarts within it."""
        task = self.task
        data = self._simulate(data, action)
        p = self._fields(data)
        position = task.robot.position(jnp, p)
        reward, cost, terminated = task.outcome(jnp, p, sims.position, position, action)
        next_obs = task.observe(jnp, p)
        age = sims.age + 1
        truncated = age >= sims.horizon

        sane = _all(jnp.abs(p.qpos) < ABSURD) & _all(jnp.abs(p.qvel) < ABSURD)  # NaN fails the comparison
        sane &= _all(jnp.isfinite(next_obs)) & jnp.isfinite(reward) & _all(jnp.isfinite(cost))
        out = Transition(
            reward=jnp.where(sane, reward, 0.0),
            cost=jnp.where(sane[:, None], cost, 0.0),
            terminated=terminated & sane,
            truncated=truncated | ~sane,
            cut=~(terminated & sane) & ((truncated & (age < task.time_limit)) | ~sane),
            next_obs=jnp.where(sane[:, None], next_obs, sims.obs),
        )
        sims = sims._replace(
            qpos=data.qpos, qvel=data.qvel, warmstart=data.qacc_warmstart,
            obs=out.next_obs, position=position, age=age, diverged=sims.diverged + ~sane,
        )  # fmt: skip
        data, sims = self._reset(data, sims, out.terminated | out.truncated)
        return data, sims, out

    def overflow(self, data: Data) -> Int[Array, ""]:
        """Simulations whose contacts or constraints did not fit the buffers since `load`; those left out were
        ignored."""
        if self.impl != "warp" or self._mjx is None:
            return jnp.int32(0)  # JAX's buffers hold all that the model can have
        from mujoco.mjx.third_party.mujoco_warp import OverflowType as Kind

        kinds = Kind.NEFC | Kind.NJMAX_NNZ | Kind.BROADPHASE | Kind.NARROWPHASE
        return jnp.sum(data._impl.overflow & int(kinds) != 0, dtype=jnp.int32)

    def _simulate(self, data: Data, action: Float[Array, "N A"]) -> Data:
        robot, model = self.task.robot, self._mjx
        if robot.move:
            return data.replace(qpos=robot.move(jnp, self._fields(data), action))
        data = data.replace(ctrl=action)
        if self.impl == "warp":
            from focops.envs import mjx_warp

            return mjx_warp.steps(robot.frame_skip, robot.fields)(model, data)
        one = lambda _, d: jax.vmap(mjx.step, (None, 0))(model, d)
        return jax.lax.fori_loop(0, robot.frame_skip, one, data)

    def _reset(self, data: Data, sims: Simulations, ended: Bool[Array, "N"]) -> tuple[Data, Simulations]:
        """Start the next episode of some environments."""
        choose = lambda new, old: jnp.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old)
        qpos, qvel = jax.vmap(self._start)(sims.seed, sims.number, sims.episode)
        qpos, qvel = choose(qpos, sims.qpos), choose(qvel, sims.qvel)
        warmstart = choose(jnp.zeros_like(sims.warmstart), sims.warmstart)
        data = data.replace(qpos=qpos, qvel=qvel, qacc_warmstart=warmstart)
        if self.task.robot.fields:
            data = self._place(data)
        obs, position = self._observe(data)
        sims = sims._replace(
            qpos=qpos, qvel=qvel, warmstart=warmstart,
            obs=choose(obs, sims.obs), position=choose(position, sims.position),
            age=choose(jnp.zeros_like(sims.age), sims.age), episode=sims.episode + ended,
            horizon=choose(jnp.full_like(sims.horizon, self.task.time_limit), sims.horizon),
        )  # fmt: skip
        return data, sims

    def _place(self, data: Data) -> Data:
        """The derived fields that robots read, at rest: no control has acted yet."""
        data = data.replace(qfrc_actuator=jnp.zeros_like(data.qfrc_actuator))
        if self.impl == "warp":
            from focops.envs import mjx_warp

            return mjx_warp.place(self.task.robot.fields)(self._mjx, data)

        def one(d: Any) -> Any:
            return mjx.com_vel(self._mjx, mjx.com_pos(self._mjx, mjx.kinematics(self._mjx, d)))

        return jax.vmap(one)(data)

    def _start(
        self, seed: UInt32[Array, "2"], number: Int[Array, ""], episode: Int[Array, ""]
    ) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
        """`Task.start` with JAX's random numbers."""
        key = jax.random.wrap_key_data(seed, impl="threefry2x32")
        for part in (_STREAM, number, episode):
            key = jax.random.fold_in(key, part)
        each = iter(jax.random.split(key, 3))
        draws = Draws(
            xp=jnp,
            uniform=lambda shape: jax.random.uniform(next(each), shape, minval=-1.0, maxval=1.0),
            normal=lambda shape: jax.random.normal(next(each), shape),
            fraction=lambda: jax.random.uniform(next(each)),
        )
        return self.task.start(draws, jnp.asarray(self.model.qpos0, jnp.float32), self.model.nv)

    def _fields(self, data: Data) -> Physics:
        read: dict[str, Any] = {f: _read(data, f) for f in ("qpos", "qvel", *self.task.robot.fields)}
        return Physics(**self._physics, **read)

    def _observe(self, data: Data) -> tuple[Float[Array, "N O"], Float[Array, "N d"]]:
        p = self._fields(data)
        return self.task.observe(jnp, p), self.task.robot.position(jnp, p)


def _read(data: Data, field: str) -> Array:
    """A field of `Data`; some of `mjx.Data`'s are the implementation's own."""
    public = isinstance(data, _Placed) or field in {f.name for f in dataclasses.fields(data)}
    return getattr(data if public else data._impl, field)


def _all(x: Bool[Array, "N n"]) -> Bool[Array, "N"]:
    return jnp.all(x, axis=-1)


def _field(path: Any) -> str:
    return path[-1].name


def _shared_fields() -> frozenset[str]:
    """Fields of Warp's `Data` that all simulations share: they have no axis for them."""
    from mujoco.mjx.warp import types

    return frozenset(types.DATA_NON_VMAP)
