"""Whole loop against physics alone on an accelerator, and beside the CPU backend on one core of the same machine.

    python benchmarks/gpu.py [TASK ...] [--runs 256] [--envs 64] [--batch 2048] [--algo focops]

Physics alone is the simulation steps of such a batch, replayed from the states it went through. The loop is
what `focops train --backend mjx` does between two checkpoints: acting, resets, J_C, advantages, 10 epochs, records.
"""

import argparse
import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np

from focops.config import TrainConfig, default_config
from focops.envs.mjx import MjxTask
from focops.envs.tasks import find
from focops.training.device import DeviceTrainer
from focops.training.host import Trainer

STEPS = 32
WARM = 3
"""Batches before the one that is timed, in both."""


def physics_rate(config: TrainConfig, sims: int) -> float:
    """Control steps per second of the physics alone: the simulation steps of a batch, from the very states that the
    batch went through, resets included (a robot that nobody lifts up again would simulate slower)."""
    task = find(config.task)
    assert task is not None
    env = MjxTask(task)
    arrays = env.arrays(sims)
    act = lambda key: 0.6 * jax.random.normal(key, (sims, env.spec.action_size))  # as a new policy acts

    @jax.jit
    def begin(arrays):
        return env.using(arrays).begin(jnp.zeros((sims, 2), jnp.uint32), jnp.arange(sims, dtype=jnp.int32), sims)

    @jax.jit
    def batch(arrays, sims, key):
        task = env.using(arrays)

        def step(carry, key):
            data, sims = carry
            data, after, _ = task.step(data, sims, act(key))
            return (data, after), (sims.qpos, sims.qvel, sims.warmstart)

        (_, sims), states = jax.lax.scan(step, (task.load(sims), sims), jax.random.split(key, STEPS))
        return sims, states

    @jax.jit
    def alone(arrays, sims, states, key):
        task = env.using(arrays)

        def step(data, given):
            (qpos, qvel, warmstart), key = given
            return task._simulate(data.replace(qpos=qpos, qvel=qvel, qacc_warmstart=warmstart), act(key)), None

        return jax.lax.scan(step, task.load(sims), (states, jax.random.split(key, STEPS)))[0].qpos

    state, key = begin(arrays), jax.random.key(0)
    for i in range(WARM):
        state, _ = batch(arrays, state, jax.random.key(i))
    _, states = batch(arrays, state, key)
    jax.block_until_ready(alone(arrays, state, states, key))
    best = np.inf
    for _ in range(3):
        began = time.perf_counter()
        jax.block_until_ready(alone(arrays, state, states, key))
        best = min(best, time.perf_counter() - began)
    return sims * STEPS / best


def loop_rate(config: TrainConfig, runs: int, iterations: int) -> tuple[float, float, float]:
    """Seconds until the first iteration is done; samples per second of all runs after that; mean epochs used."""
    began = time.perf_counter()
    trainer = DeviceTrainer([dataclasses.replace(config, seed=seed) for seed in range(runs)])
    trainer.advance(ahead=True)
    compiled = time.perf_counter() - began
    for _ in range(WARM - 1):
        trainer.advance(ahead=True)
    began = time.perf_counter()
    records = [trainer.advance(ahead=i + 1 < iterations) for i in range(iterations)]
    rate = runs * config.batch_size * iterations / (time.perf_counter() - began)
    return compiled, rate, float(np.mean([r["epochs"] for r in records[-1] if isinstance(r, dict)]))


def cpu_rate(config: TrainConfig, iterations: int = 5) -> float:
    trainer = Trainer(dataclasses.replace(config, backend="cpu", num_envs=32))
    trainer.iterate()
    began = time.perf_counter()
    for _ in range(iterations):
        trainer.iterate()
    return config.batch_size * iterations / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["HalfCheetahSpeed", "AntSpeed", "HumanoidSpeed"])
    parser.add_argument("--runs", type=int, default=256)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--minibatch", type=int, default=0)
    parser.add_argument("--algo", default="focops")
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--cpu", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    print(
        f"{jax.devices()[0].device_kind}; {options.runs} runs x {options.envs} environments, batches of {options.batch}"
    )
    print("| task | compile s | physics alone /s | whole loop /s | ratio | epochs | CPU backend, one core /s |")
    print("|---|---|---|---|---|---|---|")
    for name in options.tasks:
        config = default_config(name, options.algo)
        steps = options.batch * 1000
        config = dataclasses.replace(
            config, backend="mjx", num_envs=options.envs, batch_size=options.batch, steps=steps
        )
        if options.minibatch:
            config = dataclasses.replace(
                config, algo=dataclasses.replace(config.algo, minibatch_size=options.minibatch)
            )
        compiled, loop, epochs = loop_rate(config, options.runs, options.iterations)
        physics = physics_rate(config, options.runs * options.envs)
        cpu = f"{cpu_rate(config):,.0f}" if options.cpu else "–"
        rates = f"{physics:,.0f} | {loop:,.0f} | {loop / physics:.2f}"
        print(f"| {config.task} | {compiled:.0f} | {rates} | {epochs:.1f} | {cpu} |", flush=True)


if __name__ == "__main__":
    main()
