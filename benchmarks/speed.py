"""Speed as ratios measured side by side in one process: the whole loop against its own physics, and against PPO.

    python benchmarks/speed.py                 # one core, one thread (needs the extra `bench` for Stable-Baselines3)
    python benchmarks/speed.py --two-cores     # what a second core gives one run, and two runs

Whole loop: act, step, rewards and costs, GAE, J_C, 10 epochs of the preset's minibatches (no early end) for a
policy and two critics of 64×64. Physics only: the same simulation states and controls, replayed on the same
`mujoco.batch`. Rounds of each are interleaved, so that a noisy machine slows all of them alike.
"""

import argparse
import dataclasses
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

ROBOTS = {"HalfCheetahSpeed": "HalfCheetah-v5", "AntSpeed": "Ant-v5", "HumanoidSpeed": "Humanoid-v5"}
GOALS = {"HalfCheetahSpeed": (0.50, 12), "AntSpeed": (0.80, 4), "HumanoidSpeed": (0.78, None)}
BATCH = 2048


def trainer(task: str, threads: int = 1) -> Any:
    from focops.config import default_config
    from focops.training.host import Trainer

    config = default_config(task)
    algo = dataclasses.replace(config.algo, trust_region=math.inf)
    return Trainer(dataclasses.replace(config, algo=algo, threads=threads, steps=10_000_000))


def physics_of(run: Any) -> Callable[[], None]:
    """A function that replays the physics of the latest iteration of `run`, and nothing else of it."""
    batch, robot, rows = run.env._batch, run.env.task.robot, []
    simulate, iterate = run.env._simulate, run.iterate

    def recorded() -> Any:
        rows.append(batch.state.copy())  # controls are part of a row; 3 µs for 16 environments
        return simulate()

    def fresh() -> Any:
        rows.clear()
        return iterate()

    def replay() -> None:
        keep = batch.state.copy()
        for row in rows:
            batch.state[...] = row
            batch.step(nstep=robot.frame_skip)
        batch.state[...] = keep

    run.env._simulate, run.iterate = recorded, fresh
    return replay


def ppo(gym_id: str) -> Callable[[], None]:
    """One more batch of Stable-Baselines3's PPO: two networks, no costs, its default sizes (2048, 64, 10)."""
    import gymnasium
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    small = {} if "Cheetah" in gym_id else {"include_cfrc_ext_in_observation": False}
    model = PPO("MlpPolicy", gymnasium.make(gym_id, **small), n_steps=BATCH, batch_size=64, n_epochs=10, device="cpu")
    return lambda: model.learn(BATCH, reset_num_timesteps=False)


def interleave(parts: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each part in each round, the parts taking turns."""
    for part in parts.values():
        part()
    seconds: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(rounds):
        for name, part in parts.items():
            began = time.perf_counter()
            part()
            seconds[name].append(time.perf_counter() - began)
    return seconds


def one_core(rounds: int, with_ppo: bool) -> None:
    print(f"one core, one thread, {rounds} interleaved rounds of {BATCH} samples; samples/s are medians of this run\n")
    print(
        "| task | physics | whole loop | loop / physics (goal) | SB3 PPO | loop / PPO (goal) |\n"
        "|---|---|---|---|---|---|"
    )
    for task, gym_id in ROBOTS.items():
        run = trainer(task)
        for _ in range(12):  # past the first, untypical states
            run.iterate()
        physics = physics_of(run)
        parts = {"loop": run.iterate, "physics": physics}
        if with_ppo:
            parts["ppo"] = ppo(gym_id)
        seconds = {name: statistics.median(times) for name, times in interleave(parts, rounds).items()}
        rate = {name: BATCH / s for name, s in seconds.items()}
        goal, times = GOALS[task]
        row = [task, f"{rate['physics']:,.0f}", f"{rate['loop']:,.0f}"]
        row.append(f"**{seconds['physics'] / seconds['loop']:.2f}** (≥ {goal:.2f})")
        if with_ppo:
            row += [f"{rate['ppo']:,.0f}", f"**{rate['loop'] / rate['ppo']:.1f}**" + (f" (≥ {times})" if times else "")]
        print("| " + " | ".join(row) + " |", flush=True)


def _timed_run(core: int, task: str, barrier: Any, result: Any, iterations: int) -> None:
    os.sched_setaffinity(0, {core})
    run = trainer(task)
    for _ in range(3):
        run.iterate()
    barrier.wait()
    began = time.perf_counter()
    for _ in range(iterations):
        run.iterate()
    result.put(time.perf_counter() - began)


def side_by_side(task: str, cores: list[int], iterations: int) -> float:
    """Samples/s of one run per core, all at once, in all."""
    context = multiprocessing.get_context("spawn")
    barrier, result = context.Barrier(len(cores)), context.Queue()
    args = (task, barrier, result, iterations)
    processes = [context.Process(target=_timed_run, args=(core, *args)) for core in cores]
    for process in processes:
        process.start()
    seconds = [result.get() for _ in processes]
    for process in processes:
        process.join()
    return sum(iterations * BATCH / s for s in seconds)


def two_cores(rounds: int) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    print("| task | one run: 2 threads / 1 thread (goal) | two runs / one run (goal) |\n|---|---|---|")
    for task, goal in {"HalfCheetahSpeed": 1.25, "AntSpeed": 1.5}.items():
        runs = {threads: trainer(task, threads) for threads in (1, 2)}
        for run in runs.values():
            for _ in range(5):
                run.iterate()
        seconds = interleave({str(threads): run.iterate for threads, run in runs.items()}, rounds)
        gain = statistics.median(seconds["1"]) / statistics.median(seconds["2"])
        ratios = []
        for _ in range(3):
            alone = side_by_side(task, cores[:1], rounds)
            ratios.append(side_by_side(task, cores, rounds) / alone)
        both = statistics.median(ratios)
        print(f"| {task} | **{gain:.2f}** (≥ {goal}) | **{both:.2f}** (≥ 1.8) |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--two-cores", action="store_true")
    parser.add_argument("--no-ppo", action="store_true", help="without Stable-Baselines3")
    options = parser.parse_args()
    if options.two_cores:
        two_cores(options.rounds)
    else:
        # before JAX and PyTorch count the cores
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        one_core(options.rounds, not options.no_ppo)
