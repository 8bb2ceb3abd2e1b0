"""What the reward under the constraint hangs on: variants of the `fast` preset, one factor at a time or many at once.

    python benchmarks/gap.py [VARIANT ...] [--task HalfCheetahSpeed] [--seeds 0..3] [--jobs N] [--out DIR]
    python benchmarks/gap.py --list
    python benchmarks/gap.py --table --out DIR

A variant is a name in VARIANTS, several of them joined by "+" (later ones win), or `mix0..99`: those take for each of
FACTORS its first or its second setting at random, one seed each, and the table then ends with the effect of every
factor estimated from all of them together, which needs far fewer runs than one factor at a time.

Each run is a process on one core that prints its result; finished ones stand in DIR/results.jsonl and are not run
again. Nothing of a run is kept but that line.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Patch = Callable[[], None]


class Variant(NamedTuple):
    """Settings of TrainConfig or of the algorithm's Config, and what has to be changed in the code itself."""

    settings: dict[str, Any] = {}  # noqa: RUF012 - never written to
    patches: tuple[Patch, ...] = ()
    algorithm: str = "focops"


def settings(**values: Any) -> Variant:
    return Variant(values)


def patched(*patches: Patch, **values: Any) -> Variant:
    return Variant(values, patches)


# What `epochs_of_steps` below changes, one entry per patch.
TUNING: dict[str, Any] = dict(std_rate=1.0, policy_floor=0.0, critic_floor=0.0, critics_go_on=False, entropy=0.0)


def tuning(**values: Any) -> Patch:
    """Replace `first_order.improve` by one that knows more settings: log σ's own learning rate (× `std_rate`), floors
    below which the annealed rates do not fall, critics that go on after the KL has ended the policy's epochs, and a
    price on log σ (`entropy` < 0)."""

    def patch() -> None:
        from focops.core import first_order

        TUNING.update(values)
        first_order.improve = epochs_of_steps

    return patch


def epochs_of_steps(key, state, batch, policy_loss, max_kl, progress, config):
    import jax
    import jax.numpy as jnp

    from focops.core import critics, policy, sgd
    from focops.core.base import network

    floor = lambda least: jnp.maximum(1.0 - progress, least)
    policy_rate, critic_share = floor(TUNING["policy_floor"]) * config.policy_rate, floor(TUNING["critic_floor"])

    def loss(theta, minibatch):
        return policy_loss(theta, minibatch) - TUNING["entropy"] * jnp.sum(theta.log_std)

    def critics_step(state, b):
        return state._replace(critics=critics.step(state.critics, b.obs, b.target, b.cost_target, critic_share, config))

    def both_step(state, b):
        state = critics_step(state, b)
        gradient = sgd.clip_norm(jax.grad(loss)(state.policy, b), config.max_grad_norm)
        theta, adam = sgd.descend(state.policy, state.policy_adam, gradient, policy_rate)
        log_std = state.policy.log_std + TUNING["std_rate"] * (theta.log_std - state.policy.log_std)
        return state._replace(policy=theta._replace(log_std=log_std), policy_adam=adam)

    def mean_kl(state):
        return jnp.mean(policy.distribution(network(config), state.policy, batch.obs).kl(batch.old))

    size, rows = config.epochs, config.minibatch_size
    state, used, kl = sgd.epochs(key, state, batch, both_step, mean_kl, max_kl, size, rows)
    if TUNING["critics_go_on"]:
        # one epoch at a time, so that exactly the epochs which the policy left unused are run
        once = lambda i, s: sgd.epochs(jax.random.fold_in(key, i), s, batch, critics_step, mean_kl, None, 1, rows)[0]
        state = jax.lax.fori_loop(used, size, once, state)
    return state, used, kl


def newton() -> None:
    """Humanoid's constraints by Newton's method, as on MJX, instead of its model's PGS."""
    import mujoco

    from focops.envs import mujoco_batch

    load = mujoco_batch.load

    def with_newton(robot):
        model = load(robot)
        model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
        return model

    mujoco_batch.load = with_newton


def annealed_multiplier() -> None:
    """α_ν falls to 0 as the policy's rate does, that of the lead does not."""
    import dataclasses

    from focops.algorithms import focops

    update = focops.update

    def annealed(key, state, rollout, config):
        left = 1.0 - rollout.progress
        rates = dict(nu_rate=config.nu_rate * left, nu_lead=config.nu_lead / left)
        return update(key, state, rollout, dataclasses.replace(config, **rates))

    focops.update = annealed


def frozen_statistics(samples: float) -> Patch:
    """Observations' statistics stop moving after so many samples: later the network alone moves the policy."""

    def patch() -> None:
        import jax
        import jax.numpy as jnp

        from focops.core import normalize

        observe = normalize.observe

        def until_enough(stats, obs):
            return jax.tree.map(lambda new, old: jnp.where(stats.count < samples, new, old), observe(stats, obs), stats)

        normalize.observe = until_enough

    return patch


def fading_statistics(samples: float) -> Patch:
    """Statistics of about the latest so many samples instead of all since the start."""

    def patch() -> None:
        import jax.numpy as jnp

        from focops.core import normalize

        observe = normalize.observe
        normalize.observe = lambda stats, obs: observe(stats._replace(count=jnp.minimum(stats.count, samples)), obs)

    return patch


def orthogonal() -> None:
    """Orthogonal weights (gain √2; policy's last layer 0.01, critics' 1), biases 0: the usual start of PPO programs."""
    import jax
    import jax.numpy as jnp

    from focops.core.networks import MLP, Layer

    def init(self, key, in_size, out_size):
        sizes, layers = (in_size, *self.hidden, out_size), []
        for i, k in enumerate(jax.random.split(key, len(sizes) - 1)):
            gain = 2**0.5 if i < len(sizes) - 2 else 1.0 if out_size == 1 else 0.01
            weight = jax.nn.initializers.orthogonal(gain)(k, (sizes[i], sizes[i + 1]))
            layers.append(Layer(weight, jnp.zeros(sizes[i + 1])))
        return layers

    MLP.init = init


def last_scale(scale: float) -> Patch:
    """Another scale of the last layer's first weights than 0.1."""

    def patch() -> None:
        from focops.core import base
        from focops.core.networks import MLP

        base.MLP = lambda hidden: MLP(hidden, scale)

    return patch


def clipped_actions() -> None:
    """The environment gets the action clipped to its bounds (effort is then paid on the clipped one); log-prob of the
    raw sample as before."""
    import numpy as np

    from focops.envs.mujoco_batch import MujocoBatch

    step = MujocoBatch.step
    MujocoBatch.step = lambda self, action: step(self, np.clip(action, self.spec.action_low, self.spec.action_high))


def bounded_mean() -> None:
    """The Gaussian's mean is tanh of the network's output: it cannot leave the actuators' bounds (here all ±1)."""
    import jax.numpy as jnp

    from focops.core import policy
    from focops.core.distributions import DiagonalGaussian

    def distribution(network, params, obs):
        return DiagonalGaussian(jnp.tanh(network.apply(params.network, obs)), params.log_std)

    policy.distribution = distribution


def critic_units(scale: float) -> Patch:
    """Critics' networks predict in units of `scale`: values of a hundred or more are otherwise far from a new
    network's outputs, and Adam gets there slowly."""

    def patch() -> None:
        from focops.core import critics

        value = critics.value
        critics.value = lambda params, unit, obs, config: scale * value(params, unit, obs, config)

    return patch


def adam(**values: Any) -> Patch:
    """Other constants of Adam, for policy and critics."""

    def patch() -> None:
        import optax

        from focops.core import sgd

        sgd.ADAM = optax.flatten(optax.scale_by_adam(**values))

    return patch


def no_indicator() -> None:
    """No state is left out of the loss for its own KL; the mean KL still ends the epochs."""
    import dataclasses

    from focops.algorithms import focops

    loss = focops.policy_loss

    def without(theta, b, nu, config: Any):
        return loss(theta, b, nu, dataclasses.replace(config, trust_region=math.inf))

    focops.policy_loss = without


def rescaled_advantage() -> None:
    """(Â − ν·Â_C)/(1 + ν), as the library's PPO-L has it: the step does not lengthen with the multiplier."""
    import jax.numpy as jnp

    from focops.algorithms import focops

    loss = focops.policy_loss

    def rescaled(theta, b, nu, config):
        share = 1 / (1 + jnp.sum(nu))
        b = b._replace(advantage=share * b.advantage, cost_advantage=share * b.cost_advantage)
        return loss(theta, b, nu, config)

    focops.policy_loss = rescaled


def unit_advantage(most: float = math.inf, least: float = 1e-6) -> Patch:
    """Â − ν·Â_C standardised again over the batch: where cost follows reward the two cancel at the limit, what is left
    is small against the temperature, and the policy hardly moves. The deviation is first clipped to [least, most]:
    with `most` = 1 the advantage is only ever made larger, with `least` = 0.5 at most twice as large."""

    def patch() -> None:
        import jax.numpy as jnp

        from focops.algorithms import focops

        improve, loss, lead = focops.first_order.improve, focops.policy_loss, focops.multipliers.lead

        def improve_units(key, state, batch, policy_loss, *rest):
            whole = batch.advantage - batch.cost_advantage @ focops._pressure
            whole = (whole - jnp.mean(whole)) / jnp.clip(jnp.std(whole), least, most)
            return improve(key, state, batch._replace(advantage=whole), policy_loss, *rest)

        def remember(*arguments):
            focops._pressure = lead(*arguments)
            return focops._pressure

        focops.first_order.improve, focops.multipliers.lead = improve_units, remember
        focops.policy_loss = lambda theta, b, nu, config: loss(theta, b, 0 * nu, config)

    return patch


def aged_cost(power: float = 1.0) -> Patch:
    """Cost advantages weighted by (γ_C^age)^power, to unit deviation: J_C counts what is paid t steps after the start
    γ_C^t-fold, and so does its exact gradient; the usual one, and ours, counts all ages alike."""

    def patch() -> None:
        import jax.numpy as jnp

        from focops.algorithms import focops

        estimate = focops.estimate

        def weighted(critics, theta, rollout, config):
            critics, batch, cost = estimate(critics, theta, rollout, config)
            age = rollout.age.reshape(-1, 1).astype(jnp.float32)
            aged = batch.cost_advantage * jnp.array(config.cost_discounts) ** (power * age)
            return critics, batch._replace(cost_advantage=aged / (jnp.std(aged, 0) + 1e-6)), cost

        focops.estimate = weighted

    return patch


def cost_memory(share: float) -> Patch:
    """J_C from sums that fade to `share` per batch instead of a tenth: less noise, more lag."""

    def patch() -> None:
        from focops.core import cost_return

        cost_return.MEMORY = share

    return patch


VARIANTS: dict[str, Variant] = {
    "base": Variant(),
    # references
    "trpo_l": Variant(algorithm="trpo_lagrangian"),
    "trpo_l_std-0.5": Variant(dict(init_log_std=-0.5), algorithm="trpo_lagrangian"),
    "cpo": Variant(algorithm="cpo"),
    "ppo": Variant(algorithm="ppo"),
    "newton": patched(newton),
    "ppo_l": Variant(algorithm="ppo_lagrangian"),
    "ppo_l_std-1": Variant(dict(init_log_std=-1.0), algorithm="ppo_lagrangian"),
    # exploration
    "std0": settings(init_log_std=0.0),
    "std-1": settings(init_log_std=-1.0),
    "std-1.5": settings(init_log_std=-1.5),
    "std-2": settings(init_log_std=-2.0),
    "std_rate3": patched(tuning(std_rate=3.0)),
    "std_rate10": patched(tuning(std_rate=10.0)),
    "std_price": patched(tuning(entropy=-0.003)),
    "clip_action": patched(clipped_actions),
    "bounded_mean": patched(bounded_mean),
    # size of the policy's step
    "scale_free": settings(scale_free=1.0),
    "unit": patched(unit_advantage()),
    "unit_up": patched(unit_advantage(1.0)),
    "unit_twice": patched(unit_advantage(1.0, 0.5)),
    "temp0.3": settings(temperature=0.3),
    "temp0.5": settings(temperature=0.5),
    "temp0.75": settings(temperature=0.75),
    "temp1": settings(temperature=1.0),
    "temp3": settings(temperature=3.0),
    "tr0.01": settings(trust_region=0.01),
    "tr0.04": settings(trust_region=0.04),
    "tr0.08": settings(trust_region=0.08),
    "no_stop": settings(early_stop=False),
    "no_indicator": patched(no_indicator),
    "rescaled": patched(rescaled_advantage),
    "rate1e-4": settings(policy_rate=1e-4),
    "rate6e-4": settings(policy_rate=6e-4),
    "rate1e-3": settings(policy_rate=1e-3),
    "epochs5": settings(epochs=5),
    "epochs20": settings(epochs=20),
    "mb32": settings(minibatch_size=32),
    "mb128": settings(minibatch_size=128),
    "mb250": settings(minibatch_size=250),
    "mb256": settings(minibatch_size=256),
    "mb512": settings(minibatch_size=512),
    "clip1": settings(max_grad_norm=1.0),
    "floor0.1": patched(tuning(policy_floor=0.1, critic_floor=0.1)),
    "floor0.3": patched(tuning(policy_floor=0.3, critic_floor=0.3)),
    "no_anneal": patched(tuning(policy_floor=1.0, critic_floor=1.0)),
    "anneal_policy": patched(tuning(critic_floor=1.0)),
    "adam_eps": patched(adam(eps=1e-5)),
    "adam_b2": patched(adam(b2=0.99)),
    # critics and advantages
    "critics_go_on": patched(tuning(critics_go_on=True)),
    "v_rate1e-3": settings(value_rate=1e-3, cost_value_rate=1e-3),
    "v_rate1e-4": settings(value_rate=1e-4, cost_value_rate=1e-4),
    "c_rate1e-3": settings(cost_value_rate=1e-3),
    "v_rate3e-4": settings(value_rate=3e-4, cost_value_rate=3e-4),
    "l2_3e-4": settings(value_l2=3e-4),
    "l2_0": settings(value_l2=0.0),
    "units10": patched(critic_units(10.0)),
    "units50": patched(critic_units(50.0)),
    "value_units": settings(value_units=1.0),
    "gae0.9": settings(gae=0.9),
    "gae0.97": settings(gae=0.97),
    "gae0.99": settings(gae=0.99),
    "c_gae0.9": settings(cost_gae=0.9),
    "c_gae0.97": settings(cost_gae=0.97),
    "c_gae0.99": settings(cost_gae=0.99),
    "both_gae0.97": settings(gae=0.97, cost_gae=0.97),
    "discount0.98": settings(discount=0.98),
    "discount0.995": settings(discount=0.995),
    "discount0.999": settings(discount=0.999),
    "discount0.9999": settings(discount=0.9999),
    # multiplier
    "aged": patched(aged_cost()),
    "aged0.3": patched(aged_cost(0.3)),
    "nu_rate0.003": settings(nu_rate=0.003),
    "nu_rate0.005": settings(nu_rate=0.005),
    "nu_rate0.02": settings(nu_rate=0.02),
    "nu_lead0": settings(nu_lead=0.0),
    "nu_lead2": settings(nu_lead=2.0),
    "nu_lead5": settings(nu_lead=5.0),
    "nu_anneal": patched(annealed_multiplier),
    "memory0.5": patched(cost_memory(0.5)),
    "memory0.8": patched(cost_memory(0.8)),
    "nu_max5": settings(nu_max=5.0),
    # observations, networks, batches
    "frozen50k": patched(frozen_statistics(5e4)),
    "frozen200k": patched(frozen_statistics(2e5)),
    "fading100k": patched(fading_statistics(1e5)),
    "orthogonal": patched(orthogonal),
    "last0.01": patched(last_scale(0.01)),
    "width128": settings(hidden=(128, 128)),
    "width32": settings(hidden=(32, 32)),
    "envs8": settings(num_envs=8),
    "envs16": settings(num_envs=16),
    "envs64": settings(num_envs=64),
    "envs128": settings(num_envs=128),
    "envs256": settings(num_envs=256),
    "batch1024": settings(batch_size=1024),
    "batch4096": settings(batch_size=4096),
    "no_bootstrap": settings(bootstrap_time_limit=False),
}

FACTORS = (
    "std-1", "std_rate3", "temp0.75", "memory0.5", "tr0.04", "epochs20", "mb128", "rate6e-4", "v_rate1e-3",
    "critics_go_on", "floor0.3", "gae0.97", "c_gae0.97", "l2_3e-4", "frozen200k", "orthogonal", "units10",
    "nu_rate0.02", "nu_lead2", "discount0.995", "envs8", "clip_action", "batch1024",
)  # fmt: skip
"""What `mix` variants switch on or off, in addition to MIX_BASE."""
MIX_BASE = "unit"


def factors_of(name: str) -> list[str]:
    """The names that a variant is put together from."""
    if name.startswith("mix"):
        import numpy as np

        number = int(name.removeprefix("mix"))
        # in pairs of opposites: every factor is on in exactly half of the runs of an even range that starts even
        on = np.random.default_rng((20, number // 2)).integers(0, 2, len(FACTORS)) != number % 2
        return [MIX_BASE, *(factor for factor, yes in zip(FACTORS, on, strict=True) if yes)]
    return name.split("+")


def build(name: str) -> Variant:
    merged = Variant({}, ())
    for part in factors_of(name):
        variant = VARIANTS[part]
        algorithm = variant.algorithm if variant.algorithm != "focops" else merged.algorithm
        merged = Variant(merged.settings | variant.settings, merged.patches + variant.patches, algorithm)
    return merged


def run_one(name: str, task: str, seed: int, steps: int) -> dict[str, Any]:
    """Train one variant in this process."""
    import dataclasses

    import numpy as np

    from focops.config import TrainConfig, default_config
    from focops.trainer import Trainer

    variant = build(name)
    wraps = lambda patch: patch.__qualname__.startswith("unit_advantage")  # what others replace, so it comes last
    for patch in sorted(variant.patches, key=wraps):
        patch()
    config = default_config(task, variant.algorithm, "fast")
    of_run = {field.name for field in dataclasses.fields(TrainConfig)}
    own = {k: v for k, v in variant.settings.items() if k not in of_run}
    config = dataclasses.replace(
        config, steps=steps, seed=seed, algo=dataclasses.replace(config.algo, **own),
        **{k: v for k, v in variant.settings.items() if k in of_run},
    )  # fmt: skip
    started = time.perf_counter()
    trainer, records, log_std = Trainer(config), [], []
    for _ in range(config.iterations):
        records.append(trainer.iterate())
        log_std.append(float(np.mean(trainer.state.policy.log_std)))
    wall = time.perf_counter() - started

    last, tail = records[-1], records[-len(records) // 10 :]
    constraint = trainer.spec.constraints[0]
    mean = lambda key: float(np.mean([r[key] for r in tail]))
    sigma = np.exp(np.asarray(trainer.state.policy.log_std, np.float64))
    points = [records[round((i + 1) * len(records) / 20) - 1] for i in range(20)]
    result = {
        "variant": name, "factors": factors_of(name), "task": task, "seed": seed, "steps": last["samples"],
        "reward": last["return_mean"],
        "cost": last[f"discounted_cost_mean/{constraint.name}"],
        "limit": constraint.limit,
        "undiscounted_cost": last[f"undiscounted_cost_mean/{constraint.name}"],
        "length": last["episode_length_mean"],
        "sum_sigma2": float(np.sum(sigma**2)),
        "log_std": log_std[-1],
        "cost_estimate": mean(f"cost_return_estimate/{constraint.name}"),
        "nu": mean(f"nu/{constraint.name}"),
        "nu_deviation": float(np.std([r[f"nu/{constraint.name}"] for r in records[len(records) // 2 :]])),
        "kl": mean("kl"), "epochs": mean("epochs"), "entropy": mean("entropy"),
        "value_loss": mean("value_loss"), "cost_value_loss": mean(f"cost_value_loss/{constraint.name}"),
        "diverged": last["diverged"], "wall_s": wall,
        "curve": [
            [r["samples"], r["return_mean"], r[f"discounted_cost_mean/{constraint.name}"],
             r[f"nu/{constraint.name}"], log_std[r["iteration"] - 1], r["epochs"], r["kl"]] for r in points
        ],
    }  # fmt: skip
    return _rounded(result)


def _rounded(x: Any) -> Any:
    if isinstance(x, float):
        return float(f"{x:.5g}")
    if isinstance(x, list):
        return [_rounded(y) for y in x]
    return {k: _rounded(y) for k, y in x.items()} if isinstance(x, dict) else x


def run_all(todo: list[tuple[str, str, int]], options: argparse.Namespace) -> None:
    """`jobs` processes at a time, each on a core of its own where there are enough."""
    results = options.out / "results.jsonl"
    cores = sorted(os.sched_getaffinity(0))
    free = cores[: options.jobs] if options.pin else [None] * options.jobs
    one_thread = {
        "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    }  # fmt: skip
    started, running, walls = time.monotonic(), [], []
    waiting = list(todo)
    while waiting or running:
        expected = sorted(walls)[len(walls) // 2] * 1.1 if walls else options.expect
        if options.until and time.monotonic() - started + expected > options.until and waiting:
            print(f"no time for {len(waiting)} more", flush=True)
            waiting = []
        while waiting and free:
            name, task, seed = waiting.pop(0)
            core = free.pop(0)
            words = [sys.executable, __file__, "--one", name, task, str(seed), str(options.steps)]
            errors = open(options.out / f"{name}-{task}-{seed}.err", "w")  # noqa: SIM115
            pin = None if core is None else lambda core=core: os.sched_setaffinity(0, {core})
            process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | one_thread, preexec_fn=pin
            )
            running.append((process, core, errors, time.monotonic(), (name, task, seed)))
        time.sleep(0.5)
        for entry in [e for e in running if e[0].poll() is not None]:
            process, core, errors, began, what = entry
            running.remove(entry)
            free.append(core)
            errors.close()
            out = process.stdout.read()
            if process.returncode:
                print(f"FAILED {what}: {Path(errors.name).read_text()[-400:]}", flush=True)
                continue
            Path(errors.name).unlink()
            walls.append(time.monotonic() - began)
            with results.open("a") as file:
                file.write(out.splitlines()[-1] + "\n")
            r = json.loads(out.splitlines()[-1])
            print(f"{what}: {r['reward']} / {r['cost']}, {walls[-1]:.0f} s; {len(waiting)} wait", flush=True)


def read(folder: Path) -> list[dict[str, Any]]:
    file = folder / "results.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def table(found: list[dict[str, Any]]) -> str:
    """Mean ± standard error over seeds per variant and task, best first, then the factors' effects."""
    import numpy as np

    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for r in found:
        if not r["variant"].startswith("mix"):
            groups.setdefault((r["task"], r["variant"]), []).append(r)

    def spread(rows, key):
        values = np.array([r[key] for r in rows])
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        return values.mean(), error

    lines = [
        "| task | variant | seeds | reward | cost | above limit by > 2% | log σ | ν | ν dev. | epochs | KL | wall, s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (task, name), rows in sorted(groups.items(), key=lambda g: (g[0][0], -spread(g[1], "reward")[0])):
        mean = lambda key, rows=rows: spread(rows, key)[0]
        reward, cost = spread(rows, "reward"), spread(rows, "cost")
        above = sum(r["cost"] > 1.02 * r["limit"] for r in rows)
        lines.append(
            f"| {task} | {name} | {len(rows)} | {reward[0]:.0f} ± {reward[1]:.0f} | {cost[0]:.1f} ± {cost[1]:.1f} "
            f"| {above}/{len(rows)} | {mean('log_std'):.2f} | {mean('nu'):.2f} | {mean('nu_deviation'):.2f} "
            f"| {mean('epochs'):.1f} | {mean('kl'):.4f} | {mean('wall_s'):.0f} |"
        )
    for task in sorted({r["task"] for r in found}):
        mixes = [r for r in found if r["variant"].startswith("mix") and r["task"] == task and MIX_BASE in r["factors"]]
        if len(mixes) > len(FACTORS) + 5:
            lines += ["", *effects(task, mixes)]
    return "\n".join(lines)


def effects(task: str, mixes: list[dict[str, Any]]) -> list[str]:
    """Least squares of reward and cost on the factors, each coded 0 or 1, with standard errors."""
    import numpy as np

    on = np.array([[f in r["factors"] for f in FACTORS] for r in mixes], float)
    design = np.column_stack([np.ones(len(mixes)), on - 0.5])
    fits = {}
    for key in ("reward", "cost", "log_std"):
        y = np.array([r[key] for r in mixes])
        coefficients, *_ = np.linalg.lstsq(design, y, rcond=None)
        residual = y - design @ coefficients
        variance = residual @ residual / max(1, len(y) - design.shape[1])
        fits[key] = coefficients, np.sqrt(np.diag(np.linalg.pinv(design.T @ design)) * variance)
    lines = [
        f"{task}: effects of factors over {len(mixes)} mixtures (mean reward {fits['reward'][0][0]:.0f}, "
        f"cost {fits['cost'][0][0]:.1f})",
        "",
        "| factor | reward | cost | log σ |",
        "|---|---|---|---|",
    ]
    for i in sorted(range(len(FACTORS)), key=lambda i: -fits["reward"][0][i + 1]):
        cells = [f"{c[i + 1]:+.{d}f} ± {e[i + 1]:.{d}f}" for d, (c, e) in zip((0, 1, 2), fits.values(), strict=True)]
        lines.append(f"| {FACTORS[i]} | {' | '.join(cells)} |")
    return lines


def numbers(text: str) -> list[int]:
    """0..3 or 0,2,5."""
    first, dots, last = text.partition("..")
    return list(range(int(first), int(last) + 1)) if dots else [int(x) for x in text.split(",")]


def expand(words: list[str]) -> list[str]:
    names = []
    for word in words:
        names += [f"mix{i}" for i in numbers(word.removeprefix("mix"))] if word.startswith("mix") else [word]
    for name in names:
        build(name)
    return names


def main() -> int:
    if sys.argv[1:2] == ["--one"]:
        name, task, seed, steps = sys.argv[2:]
        print(json.dumps(run_one(name, task, int(seed), int(steps))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", help="names; mix0..99; default: all of VARIANTS")
    parser.add_argument("--task", default="HalfCheetahSpeed", help="one task or several, with commas")
    parser.add_argument("--seeds", default="0..3", help="0..3 or 0,2,5; mixtures take their own number instead")
    parser.add_argument("--steps", default="1M")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/gap"))
    parser.add_argument("--until", type=float, default=0, help="seconds from now by which all should have ended")
    parser.add_argument("--expect", type=float, default=120, help="seconds that a run is thought to take at first")
    parser.add_argument("--pin", action="store_true", help="each process on its own core, on a machine of one's own")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(VARIANTS))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.table:
        units = {"k": 1_000, "M": 1_000_000}
        text = options.steps
        options.steps = round(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)
        done = {(r["variant"], r["task"], r["seed"]) for r in read(options.out)}
        names = expand(options.variants or list(VARIANTS))
        mixes, plain = [n for n in names if n.startswith("mix")], [n for n in names if not n.startswith("mix")]
        tasks = options.task.split(",")
        todo = [(n, t, int(n.removeprefix("mix"))) for n in mixes for t in tasks]
        todo += [(n, t, s) for s in numbers(options.seeds) for t in tasks for n in plain]
        run_all([each for each in todo if each not in done], options)
    print(table(read(options.out)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
