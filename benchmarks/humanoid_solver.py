"""What the constraint solver does to learning on HumanoidSpeed: PGS (the model's, on the CPU) or Newton (as on MJX).

    python benchmarks/humanoid_solver.py [--seeds 3] [--steps 1M] [--jobs 2]

Both on the CPU backend, everything else equal. Prints reward and discounted cost of the last 100 episodes.
"""

import argparse
import dataclasses
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from focops.arguments import parse_count


def train(solver: str, seed: int, steps: int) -> tuple[float, float]:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    import mujoco

    from focops.config import default_config
    from focops.envs import mujoco_batch
    from focops.trainer import Trainer

    load = mujoco_batch.load

    def with_solver(robot: Any) -> Any:
        model = load(robot)
        model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON if solver == "Newton" else mujoco.mjtSolver.mjSOL_PGS
        return model

    mujoco_batch.load = with_solver
    trainer = Trainer(dataclasses.replace(default_config("HumanoidSpeed"), seed=seed, steps=steps))
    record: dict[str, Any] = {}
    while trainer.iteration < trainer.config.iterations:
        record = trainer.iterate()
    end = record["return_mean"], record["discounted_cost_mean/speed"]
    print(f"{solver} seed {seed}: {end[0]:.0f} at {end[1]:.2f}", flush=True)
    return end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=parse_count, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        waiting = {
            (solver, seed): pool.submit(train, solver, seed, options.steps)
            for seed in range(options.seeds)
            for solver in ("PGS", "Newton")
        }
        found = {key: future.result() for key, future in waiting.items()}
    for solver in ("PGS", "Newton"):
        ends = np.array([end for (name, _), end in found.items() if name == solver])
        error = ends.std(0, ddof=1) / np.sqrt(len(ends)) if len(ends) > 1 else ends[0] * np.nan
        reward, cost = (f"{mean:.2f} ± {by:.2f}" for mean, by in zip(ends.mean(0), error, strict=True))
        print(f"| {solver} | {len(ends)} | {reward} | {cost} |")


if __name__ == "__main__":
    main()
