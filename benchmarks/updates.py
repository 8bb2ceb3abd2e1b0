"""What an update costs, algorithm by algorithm: CPU milliseconds on one core, side by side in one process.

    python benchmarks/updates.py [focops NAME ...] [--rounds 15] [--out results/algorithms/updates.md]

Ant's sizes (27 observations, 8 actions), one constraint, a batch of 2048, the defaults of each algorithm. FOCOPS does
all of its 10 epochs: its stopping rule is looked at after each, and never met. `policy` is the update with the critics'
steps taken out, less the estimates of J_C and of advantages; `critics` is what their steps add. Every round times every
program once, so that all see the same machine; the table has medians.
"""

import argparse
import dataclasses
import os
import platform
import time
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from focops.algorithms import ALGORITHMS
from focops.core import critics, policy
from focops.core.base import network
from focops.core.estimate import estimate
from focops.core.normalize import RunningStats
from focops.core.spec import Constraint, Spec
from focops.core.types import Rollout

SPEC = Spec(27, 8, False, (Constraint("speed", 100.0),), 1000)
STEPS, ENVS = 128, 16
STATS = RunningStats(jnp.zeros(27), jnp.ones(27), jnp.float32(1))
BOUND = 1.5
BOUNDED = ("trpo", "trpo_lagrangian", "cpo", "pcpo")


def rollout(theta, net) -> Rollout:
    """Samples of the policy itself, with rewards and costs that depend on the action."""
    rng = np.random.default_rng(0)
    shape = (STEPS, ENVS)
    obs = rng.normal(size=(*shape, 27)).astype(np.float32)
    action = policy.distribution(net, theta, jnp.asarray(obs)).sample(
        jnp.asarray(rng.normal(size=(*shape, 8)), jnp.float32)
    )
    age = (np.arange(STEPS)[:, None] + np.arange(ENVS) * 60) % 1000
    return Rollout(
        obs=jnp.asarray(obs),
        raw_obs=jnp.asarray(obs),
        action=action,
        reward=action[..., 0] + obs[..., 0],
        cost=jnp.abs(action[..., :1]),
        terminated=jnp.zeros(shape, bool),
        truncated=jnp.asarray(age == 999),
        cut=jnp.zeros(shape, bool),
        next_obs=jnp.asarray(np.roll(obs, -1, 0)),
        age=jnp.asarray(age, jnp.int32),
    )


def programs(name: str) -> dict:
    """The compiled update: whole, without the critics' steps, and the estimates alone; each a call."""
    module = ALGORITHMS[name]
    config = dataclasses.replace(module.Config(), limits=(100.0,), cost_discounts=(0.99,))
    if name == "focops":
        config = dataclasses.replace(config, trust_region=1e9)
    state = jax.jit(module.init, static_argnums=1)(jax.random.key(0), SPEC, config)
    batch = rollout(state.policy, network(config))
    arguments = (jax.random.key(1), state, batch, STATS, jnp.float32(0), config)
    whole = jax.jit(lambda *a: module.update(*a)).lower(*arguments).compile()
    with mock.patch.object(critics, "step", lambda learned, *_: learned):
        without = jax.jit(lambda *a: module.update(*a)).lower(*arguments).compile()
    inputs = (state.critics, state.policy, batch, STATS, config)
    estimates = jax.jit(estimate).lower(*inputs).compile()
    return {
        "whole": lambda: whole(*arguments),
        "without": lambda: without(*arguments),
        "estimates": lambda: estimates(*inputs),
    }


def measure(rounds: int, names: list[str]) -> dict[str, dict[str, float]]:
    """Median CPU milliseconds of each part of each algorithm's update."""
    compiled = {name: programs(name) for name in names}
    times: dict = {name: {part: [] for part in parts} for name, parts in compiled.items()}
    for _ in range(rounds):
        for name, parts in compiled.items():
            for part, program in parts.items():
                start = time.process_time()
                jax.block_until_ready(program())
                times[name][part].append(1e3 * (time.process_time() - start))
    found = {}
    for name, parts in times.items():
        whole, without, estimates = (float(np.median(parts[p])) for p in ("whole", "without", "estimates"))
        found[name] = {"whole": whole, "policy": without - estimates, "critics": whole - without}
    return found


def table(found: dict[str, dict[str, float]]) -> str:
    base = found["focops"]
    lines = [
        "| algorithm | update, ms | ratio | policy, ms | ratio | critics, ms | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, parts in found.items():
        cells = [f"{parts[p]:.1f} | {parts[p] / base[p]:.2f}" for p in ("whole", "policy", "critics")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(ALGORITHMS), help="focops first")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    found = measure(options.rounds, options.names)
    slow = [name for name in BOUNDED if name in found and found[name]["policy"] > BOUND * found["focops"]["policy"]]
    verdict = (
        f"Policy steps of {', '.join(BOUNDED)} at most {BOUND} times FOCOPS's 10 epochs: "
        + (f"no, not of {', '.join(slow)}." if slow else "yes.")
    )  # fmt: skip
    verdict += (
        " FOCOPS's count its stopping rule, a full-batch KL per epoch; beside epochs without one, see ppo's ratio."
    )
    text = f"{table(found)}\n\n{verdict}\n"
    print(text)
    if options.out:
        machine = f"{platform.machine()}, one core, jax {jax.__version__}, median of {options.rounds} rounds"
        head = (
            "# What an update costs\n\n`python benchmarks/updates.py`: batch 2048, Ant's sizes (27, 8), one constraint;"
        )
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(f"{head} CPU milliseconds ({machine}).\n\n{text}")
    return bool(slow)


if __name__ == "__main__":
    raise SystemExit(main())
