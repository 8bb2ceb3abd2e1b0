"""What worker processes give, as ratios measured side by side: steps of 2 ms and of 10 µs, and a whole training.

    python benchmarks/env_workers.py [--rounds 7]

A step computes for as long as it says, in CPU time, so that a machine that others use as well slows all alike. Rounds
of each kind are interleaved; a ratio is the median of the rounds' ratios.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

ENVS = 32
LONG, SHORT = 2e-3, 1e-5


class Compute(gymnasium.Env):
    """Computes for some seconds in each step, and does little else."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (8,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._obs = np.zeros(8, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._obs, {}

    def step(self, action: Any) -> Any:
        until = time.thread_time() + self._seconds
        while time.thread_time() < until:
            pass
        return self._obs, 0.0, False, False, {"cost": 0.0}


for _name, _seconds in {"Long-v0": LONG, "Short-v0": SHORT}.items():
    if _name not in gymnasium.registry:
        creator: Any = Compute
        gymnasium.register(_name, entry_point=creator, kwargs={"seconds": _seconds}, max_episode_steps=1000)


def stepping(name: str, workers: int | None, steps: int) -> Callable[[], None]:
    """A function that takes that many steps in all environments."""
    from focops.envs.gymnasium import GymnasiumVector

    env = GymnasiumVector(f"env_workers:{name}", ENVS, limits=[1.0], workers=workers)
    if workers is None:
        print(f"{name}: {env.note}")
    action = np.zeros((ENVS, 2), np.float32)

    def run() -> None:
        for _ in range(steps):
            env.step(action)

    return run


def training(workers: int) -> Callable[[], Any]:
    """A function that makes one iteration of 2048 samples with steps of 2 ms."""
    from focops.config import default_config
    from focops.training.host import Trainer

    config = default_config("env_workers:Long-v0")
    return Trainer(dataclasses.replace(config, cost_limit=(1.0,), env_workers=workers, num_envs=ENVS)).iterate


def ratio(slower: Callable[[], Any], faster: Callable[[], Any], rounds: int) -> float:
    """How many times as fast the second is."""
    for each in (slower, faster):
        each()
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        slower()
        middle = time.perf_counter()
        faster()
        found.append((middle - began) / (time.perf_counter() - middle))
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    rows = [
        ("steps of 2 ms: 2 workers / 1 worker", "1.8", stepping("Long-v0", 1, 10), stepping("Long-v0", 2, 10)),
        ("training with steps of 2 ms: 2 workers / 1 worker", "", training(1), training(2)),
        ("steps of 10 µs: by default / in this process", "1", *(stepping("Short-v0", n, 500) for n in (0, None))),
        ("steps of 10 µs: 2 workers / in this process", "", *(stepping("Short-v0", n, 500) for n in (0, 2))),
    ]
    print("| rate | goal | ratio |\n|---|---|---|")
    for what, goal, slower, faster in rows:
        print(f"| {what} | {goal} | {ratio(slower, faster, rounds):.2f} |", flush=True)


if __name__ == "__main__":
    main()
