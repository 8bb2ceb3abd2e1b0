"""What the constraint solver's limits cost and buy on MJX: rate, iterations used, and error against MuJoCo on the CPU.

    python benchmarks/mjx_solver.py [TASK ...] [--sims 16384] [--limits 100x50,20x20,8x10,4x8,100x50floor]

"floor" after the limits: the robot touches the floor only, never itself.

Errors are of joint velocities after one control step from the same states with the same actions (states of episodes
with random actions, MuJoCo in float64 on the CPU being the truth), in standard deviations of each joint.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from focops.envs.mjx import MjxTask, Simulations
from focops.envs.mjx_model import put_model
from focops.envs.mujoco_batch import MujocoBatch
from focops.envs.tasks import TASKS, Task, find

STEPS, SCALE = 20, 0.6


def with_limits(task: Task, limits: str) -> MjxTask:
    env = MjxTask(task)
    numbers = limits.removesuffix("floor")
    if numbers != limits:
        env.model.geom_conaffinity[env.model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE] = 0
    iterations, _, searches = numbers.partition("x")
    env.model.opt.iterations, env.model.opt.ls_iterations = int(iterations), int(searches)
    env._mjx = put_model(env.model, env.impl)
    return env


def pairs(task: Task, count: int = 1024, steps: int = 60) -> tuple[np.ndarray, ...]:
    """(qpos, qvel, action, qvel after one control step) of a CPU simulation on its way."""
    env = MujocoBatch(task, count, stagger=False)
    env.reset(0)
    rng = np.random.default_rng(0)
    draw = lambda: (SCALE * rng.normal(size=(count, env.spec.action_size))).astype(np.float32)
    for _ in range(steps):
        env.step(draw())
    qpos, qvel, action = env._physics.qpos.copy(), env._physics.qvel.copy(), draw()
    env._ctrl[...] = action
    env._simulate()
    return qpos, qvel, action, env._physics.qvel.copy()


def blank(env: MjxTask, num: int) -> Simulations:
    return jax.jit(lambda: env.begin(jnp.zeros((num, 2), jnp.uint32), jnp.arange(num), num))()


def measure(task: Task, limits: str, num: int, known: tuple[np.ndarray, ...]) -> str:
    own = with_limits(task, limits)
    qpos, qvel, action, after = known
    sims = blank(own, len(qpos))._replace(qpos=jnp.asarray(qpos, jnp.float32), qvel=jnp.asarray(qvel, jnp.float32))
    ours = np.asarray(jax.jit(lambda s, a: own._simulate(own.load(s), a).qvel)(sims, action))
    error = np.max(np.abs(ours - after) / after.std(0), 1)

    @jax.jit
    def run(arrays, sims, key):
        env = own.using(arrays)

        def step(carry, key):
            data, sims = carry
            action = SCALE * jax.random.normal(key, (num, env.spec.action_size))
            data, sims, _ = env.step(data, sims, action)
            used = data._impl.solver_niter if env.impl == "warp" else jnp.zeros(num)
            return (data, sims), (jnp.max(used), jnp.mean(used))

        (data, sims), used = jax.lax.scan(step, (env.load(sims), sims), jax.random.split(key, STEPS))
        return sims, used, env.overflow(data)

    arrays, sims = own.arrays(num), blank(own, num)
    go = lambda sims, key: run(arrays, sims, key)
    began = time.perf_counter()
    sims, *_ = jax.block_until_ready(go(sims, jax.random.key(0)))
    compiled = time.perf_counter() - began
    best, used, overflow = np.inf, (jnp.zeros(1), jnp.zeros(1)), 0
    for i in range(3):
        began = time.perf_counter()
        sims, used, overflow = jax.block_until_ready(go(sims, jax.random.key(i)))
        best = min(best, time.perf_counter() - began)
    again = go(sims, jax.random.key(9))[0].qpos == go(sims, jax.random.key(9))[0].qpos
    rate = f"{best / STEPS * 1e3:.2f} | {num * STEPS / best / 1e6:.3f}"
    errors = f"{np.median(error):.1e} | {np.quantile(error, 0.99):.1e}"
    iterations = f"{int(jnp.max(used[0]))}, {float(jnp.mean(used[1])):.2f}"
    same = float(jnp.mean(again))
    return (
        f"| {task.name} | {limits} | {rate} | {iterations} | {errors} | {int(overflow)} | {same:.4f} | {compiled:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=["HalfCheetahSpeed", "AntSpeed", "HumanoidSpeed", "HopperSpeed"])
    parser.add_argument("--sims", type=int, default=16384)
    parser.add_argument("--limits", default="100x50,20x20,8x10,4x8")
    options = parser.parse_args()
    columns = ["task", "iterations x line search", "ms/step", "M steps/s", "used max, mean", "error median", "99%"]
    columns += ["overflow", "repeats", "compile s"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for name in options.tasks:
        task = find(name) or TASKS[name]
        known = pairs(task)
        for limits in options.limits.split(","):
            print(measure(task, limits, options.sims, known), flush=True)


if __name__ == "__main__":
    main()
