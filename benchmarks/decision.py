"""How long one decision takes: `policy.predict`, the exported ONNX graph and the exported Python file, side by side.

python benchmarks/decision.py               # prints the table of results/decision.md
"""

import argparse
import os
import runpy
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import onnxruntime

from focops.core import normalize, policy
from focops.core.networks import MLP
from focops.core.spec import Spec
from focops.runs.policy import Policy

CASES: dict[str, tuple[Spec, MLP]] = {
    "HalfCheetah: 17 → 64 → 64 → 6": (Spec(17, 6, False, (), None, (-1.0,) * 6, (1.0,) * 6), MLP((64, 64))),
    "Humanoid: 348 → 64 → 64 → 17": (Spec(348, 17, False, (), None, (-0.4,) * 17, (0.4,) * 17), MLP((64, 64))),
}
BOUND_US = 100.0
"""Of `predict` with a small MLP."""


def make(spec: Spec, network: MLP) -> Policy:
    params = policy.init(jax.random.key(0), network, spec, -0.5)
    stats = normalize.observe(normalize.of(spec), jax.random.normal(jax.random.key(1), (100, spec.obs_size)))
    names = ("obs_size", "action_size", "discrete", "action_low", "action_high", "nvec", "image", "layout")
    described = {name: getattr(spec, name) for name in names}
    return Policy(network, params, stats, {"task": "none", "iteration": 0} | described)


def ways(made: Policy, folder: Path) -> dict[str, Callable[[np.ndarray], object]]:
    """What takes one observation and gives one action; the mean action, as exported."""
    for name in ("policy.onnx", "policy.py"):
        made.export(folder / name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "policy.onnx", options, providers=["CPUExecutionProvider"])
    predict = runpy.run_path(str(folder / "policy.py"))["predict"]
    return {
        "`policy.predict`": lambda obs: made.predict(obs, deterministic=True),
        "`policy.predict`, sampled": lambda obs: made.predict(obs),
        "policy.onnx in onnxruntime": lambda obs: session.run(["action"], {"observation": obs[None]}),
        "policy.py": predict,
    }


def measure(functions: dict[str, Callable[[np.ndarray], object]], obs: np.ndarray, calls: int) -> dict[str, np.ndarray]:
    """p50 and p99 in µs of each function. They take turns, so that other work on the machine disturbs all alike."""
    times = {name: np.empty(calls) for name in functions}
    for call in range(-20, calls):
        for name, function in functions.items():
            began = time.perf_counter()
            function(obs[call % len(obs)])
            if call >= 0:
                times[name][call] = time.perf_counter() - began
    return {name: 1e6 * np.percentile(each, [50, 99]) for name, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=5000)
    calls = parser.parse_args().calls
    print(
        f"{os.cpu_count()} cores; JAX {jax.__version__}, NumPy {np.__version__}, onnxruntime {onnxruntime.__version__}"
    )
    for title, (spec, network) in CASES.items():
        made, rng = make(spec, network), np.random.default_rng(0)
        obs = rng.standard_normal((50, spec.obs_size), np.float32)
        with tempfile.TemporaryDirectory() as folder:
            found = measure(ways(made, Path(folder)), obs, calls)
        own = found["`policy.predict`"][0]
        print(f"\n### {title}\n\n| one decision | p50, µs | p99, µs | p50 of `predict` = 1 |\n|---|---:|---:|---:|")
        for name, (half, most) in found.items():
            print(f"| {name} | {half:.1f} | {most:.1f} | {half / own:.2f} |")
        print(f"\n`predict` takes {'less' if own <= BOUND_US else 'MORE'} than {BOUND_US:g} µs (p50).")


if __name__ == "__main__":
    main()
