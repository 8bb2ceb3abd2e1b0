"""Whole loop against physics alone on an accelerator, and beside the CPU backend on one core of the same machine.

    python benchmarks/gpu.py [TASK ...] [--runs 256] [--envs 64] [--batch 2048] [--algo focops]

Physics alone is the same batch of simulations under random actions: simulation steps and nothing else. The loop is
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
from focops.fleet import Fleet
from focops.trainer import Trainer

STEPS = 32


def physics_rate(config: TrainConfig, sims: int) -> float:
    """Control steps per second of the physics alone, in the states that random actions lead to."""
    task = find(config.task)
    assert task is not None
    env = MjxTask(task)
    start = jax.jit(lambda: env.begin(jnp.zeros((sims, 2), jnp.uint32), jnp.arange(sims, dtype=jnp.int32), sims))()
    act = lambda key: 0.6 * jax.random.normal(key, (sims, env.spec.action_size))

    @jax.jit
    def warm(sims, key):
        step = lambda carry, key: (env.step(carry[0], carry[1], act(key))[:2], None)
        return jax.lax.scan(step, (env.load(sims), sims), jax.random.split(key, STEPS))[0][1]

    @jax.jit
    def alone(sims, key):
        step = lambda data, key: (env._simulate(data, act(key)), None)
        return jax.lax.scan(step, env.load(sims), jax.random.split(key, STEPS))[0].qpos

    state = warm(warm(start, jax.random.key(0)), jax.random.key(1))
    jax.block_until_ready(alone(state, jax.random.key(2)))
    best = np.inf
    for i in range(3):
        began = time.perf_counter()
        jax.block_until_ready(alone(state, jax.random.key(i)))
        best = min(best, time.perf_counter() - began)
    return sims * STEPS / best


def loop_rate(config: TrainConfig, runs: int, iterations: int) -> tuple[float, float, float]:
    """Seconds until the first iteration is done; samples per second of all runs after that; mean epochs used."""
    began = time.perf_counter()
    fleet = Fleet([dataclasses.replace(config, seed=seed) for seed in range(runs)])
    fleet.advance(ahead=True)
    compiled = time.perf_counter() - began
    fleet.advance(ahead=True)
    began = time.perf_counter()
    records = [fleet.advance(ahead=i + 1 < iterations) for i in range(iterations)]
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
        compiled, loop, epochs = loop_rate(config, options.runs, options.iterations)
        physics = physics_rate(config, options.runs * options.envs)
        cpu = f"{cpu_rate(config):,.0f}" if options.cpu else "–"
        rates = f"{physics:,.0f} | {loop:,.0f} | {loop / physics:.2f}"
        print(f"| {config.task} | {compiled:.0f} | {rates} | {epochs:.1f} | {cpu} |", flush=True)


if __name__ == "__main__":
    main()
