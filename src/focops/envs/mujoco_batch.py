"""Our tasks on the CPU: E simulations of one model stepped together, on `mujoco.batch.Batch`."""

import logging
from collections.abc import Sequence

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError

from focops.core.spec import Constraint
from focops.core.types import Step
from focops.envs.simulator import Quiet, control_step_seconds, load, spec_of
from focops.envs.stagger import first_horizons
from focops.envs.tasks import Physics, Task
from focops.envs.tasks.task import numpy_draws
from focops.errors import UsageError

log = logging.getLogger(__name__)

ABSURD = 1e6
"""A simulation is unstable if a joint position or velocity is beyond this, or not finite."""


class MujocoBatch:
    """E environments of one task (a `VectorEnv`).

    Episode k of environment i starts from noise that depends on (seed, i, k) alone. The first episodes are cut at
    (i+1)/E of the time limit when `stagger` is set, so that later ones do not all end together. Results do not depend
    on `threads`.
    """

    def __init__(
        self,
        task: Task,
        num_envs: int,
        constraints: Sequence[Constraint] | None = None,
        threads: int = 1,
        stagger: bool = True,
    ):
        self.task, self.num_envs, self.stagger = task, num_envs, stagger
        self.model = model = load(task.robot)
        self._batch = batch = Batch(model, num_envs, threads)
        self._ctrl = batch.bind("ctrl")
        batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE)
        self._qpos0, self._blank = model.qpos0.copy(), batch.state[0].copy()
        self._physics = Physics(
            dt=control_step_seconds(task.robot, model),
            body_mass=model.body_mass.copy(),
            ctrlrange=model.actuator_ctrlrange.copy(),
            **{field: batch.bind(field) for field in ("qpos", "qvel", *task.robot.fields)},
        )
        self.diverged = 0
        self.reset(0)
        self.spec = spec_of(task, model, self.obs.shape[1], constraints)

    @property
    def qpos(self) -> np.ndarray:
        """Joint positions [E, nq] as they are now: a view."""
        return self._physics.qpos

    def reset(self, seed: int) -> None:
        self.diverged = 0
        self._seed = seed
        self._episode = np.zeros(self.num_envs, np.int64)
        self.restart()

    def restart(self) -> None:
        self.age = np.zeros(self.num_envs, np.int32)
        self._horizon = np.full(self.num_envs, self.task.time_limit, np.int32)
        self._begin(np.arange(self.num_envs))
        if self.stagger:
            self._horizon = first_horizons(self.num_envs, self.task.time_limit)

    def step(self, action: np.ndarray) -> Step:
        if action.shape != self._ctrl.shape:
            raise UsageError(f"actions have shape {action.shape}, {self.task.name} needs {self._ctrl.shape}")
        task, p = self.task, self._physics
        self._ctrl[...] = action
        broken = self._simulate()
        position = np.array(task.robot.position(np, p))  # a copy: the fields are live views
        reward, cost, terminated = task.outcome(np, p, self._position, position, self._ctrl)
        next_obs = self._observe()
        self.age = self.age + 1  # new arrays throughout, so that callers may keep what they were given
        truncated = self.age >= self._horizon
        cut = truncated & ~terminated & (self.age < task.time_limit)
        if broken.size:
            next_obs[broken] = self.obs[broken]
            reward[broken], cost[broken], terminated[broken], truncated[broken] = 0.0, 0.0, False, True
            cut[broken] = True
        self.obs, self._position = next_obs, position
        ended = terminated | truncated
        if ended.any():
            self._begin(np.flatnonzero(ended))
        return Step(reward, cost, terminated, truncated, cut, next_obs)

    def state(self) -> dict[str, np.ndarray]:
        return {
            "simulation": self._batch.state.copy(),
            "obs": self.obs.copy(),
            "position": self._position.copy(),
            "age": self.age.copy(),
            "horizon": self._horizon.copy(),
            "episode": self._episode.copy(),
            "seed": np.array(self._seed, np.int64),
            "diverged": np.array(self.diverged, np.int64),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        rows = state["simulation"]
        if rows.shape != self._batch.state.shape:
            raise UsageError(
                f"the saved simulations have shape {rows.shape}, {self.task.name} has {self._batch.state.shape} here:"
                " restore with the task and the number of environments it was saved with"
            )
        self._batch.state[...] = rows
        self.obs, self._position = state["obs"].copy(), state["position"].copy()
        self.age, self._horizon = state["age"].copy(), state["horizon"].copy()
        self._episode = state["episode"].copy()
        self._seed, self.diverged = int(state["seed"]), int(state["diverged"])

    def close(self) -> None:
        """Nothing to release: the batch's threads end with the object."""

    def _observe(self) -> np.ndarray:
        return np.concatenate(self.task.features(np, self._physics), axis=1, dtype=np.float32, casting="same_kind")

    def _begin(self, ids: np.ndarray) -> None:
        """Start the next episode of some environments."""
        p, batch = self._physics, self._batch
        with Quiet():
            batch.state[ids] = self._blank  # what batch.reset does, in a twentieth of the time
            for i in ids:
                rng = np.random.default_rng((self._seed, int(i), int(self._episode[i])))
                p.qpos[i], p.qvel[i] = self.task.start(numpy_draws(rng), self._qpos0, self.model.nv)
            batch.forward(ids)
        self._episode[ids] += 1
        self.age[ids] = 0
        self._horizon[ids] = self.task.time_limit
        # environments whose episode continues have not changed since the step, and neither have their rows here
        self.obs = self._observe()
        self._position = np.array(self.task.robot.position(np, p))

    def _simulate(self) -> np.ndarray:
        """One control step of every simulation. Returns the indices of unstable ones, which it has reset."""
        batch, robot, p = self._batch, self.task.robot, self._physics
        failed = np.zeros(0, np.int32)
        with Quiet():
            try:
                if robot.move:
                    p.qpos[...] = robot.move(np, p, self._ctrl)
                    batch.forward(stage=mujoco.mjtStage.mjSTAGE_POS)
                else:
                    batch.step(nstep=robot.frame_skip)
            except SimulationError as error:
                failed = error.ids
            # a bounded sum of squares bounds every number; NaN fails the comparison
            if not failed.size and np.vdot(batch.state, batch.state) < ABSURD**2:
                return failed
            sane = np.isfinite(batch.state).all(1) & (np.abs(p.qpos) < ABSURD).all(1) & (np.abs(p.qvel) < ABSURD).all(1)
            sane[failed] = False
            broken = np.flatnonzero(~sane)
            if broken.size:
                self._report(broken)
                batch.reset(broken)
        return broken

    def _report(self, broken: np.ndarray) -> None:
        if not self.diverged:
            log.warning(
                "%s: simulation %d became unstable at step %d of its episode; such episodes are cut and counted",
                self.task.name,
                broken[0],
                self.age[broken[0]],
            )
        self.diverged += len(broken)
