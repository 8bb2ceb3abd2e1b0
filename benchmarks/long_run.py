"""Memory and time per iteration of a long run on a toy task: neither grows.

    python benchmarks/long_run.py --iterations 10000

The task is a coin (one step per episode) through the Gymnasium adapter, with everything a run does: metrics,
TensorBoard, checkpoints, policies. Prints, for each tenth of the run, resident memory and the median wall and processor
time of an iteration; fails if memory or processor time grow after the first tenth.
"""

import argparse
import dataclasses
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import gymnasium
import numpy as np

from focops import api as runs
from focops.config import default_config

PAGE = os.sysconf("SC_PAGE_SIZE")


class Coin(gymnasium.Env):
    """Action 1 pays 1 and costs 1."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action):
        return np.ones(1, np.float32), float(action), True, False, {"cost": float(action)}


class Watch:
    """A display that notes time and memory instead."""

    def __init__(self) -> None:
        self.wall, self.processor, self.memory = [], [], []

    def start(self, config, spec) -> None: ...

    def update(self, record) -> None:
        self.wall.append(time.perf_counter())
        self.processor.append(time.process_time())
        self.memory.append(int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20)

    def note(self, message: str) -> None: ...

    def stop(self, message: str = "") -> None: ...


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=10_000)
    options = parser.parse_args()
    gymnasium.register("LongCoin-v0", entry_point=lambda **_: Coin())
    config = default_config("LongCoin-v0")
    algo = dataclasses.replace(config.algo, hidden=(8,), minibatch_size=32, epochs=2)
    folder, watch = Path(tempfile.mkdtemp()), Watch()
    config = dataclasses.replace(
        config, algo=algo, batch_size=64, num_envs=8, steps=64 * options.iterations, cost_limit=(0.3,),
        checkpoint_every=10, out=folder / "run",
    )  # fmt: skip
    runs.run(config, display=watch)
    size = sum(f.stat().st_size for f in (folder / "run").rglob("*") if f.is_file()) / 2**20
    shutil.rmtree(folder)
    wall, processor = (np.diff(t, prepend=np.nan) * 1e3 for t in (watch.wall, watch.processor))
    tenths = np.array_split(np.arange(options.iterations), 10)
    median = lambda times, tenth: np.nanmedian(times[tenth])
    print("iterations | ms per iteration | processor ms | resident MiB\n---|---|---|---")
    for tenth in tenths:
        times = f"{median(wall, tenth):.2f} | {median(processor, tenth):.2f}"
        print(f"{tenth[0] + 1} to {tenth[-1] + 1} | {times} | {watch.memory[tenth[-1]]:.1f}")
    grown = watch.memory[-1] - watch.memory[tenths[0][-1]]
    slower = median(processor, tenths[-1]) / median(processor, tenths[0])
    print(f"\nfrom the first tenth to the last: memory {grown:+.1f} MiB, processor time ×{slower:.2f}")
    print(f"the run's directory at the end: {size:.1f} MiB")
    sys.exit(int(grown > 10 or slower > 1.2))


if __name__ == "__main__":
    main()
