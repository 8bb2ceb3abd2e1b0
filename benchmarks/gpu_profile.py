"""Where an iteration's time goes on an accelerator: one iteration under JAX's profiler, its kernels by kind.

    python benchmarks/gpu_profile.py [TASK] [--runs 256] [--envs 64] [--minibatch 128] [--top 25]

Prints the time of undisturbed iterations, then of the traced one: the device's time in Warp's kernels (physics), in
XLA's (acting, learning), in copies, idle; and the kernels that took longest. Profiling slows the physics' graphs down.
"""

import argparse
import collections
import dataclasses
import tempfile
import time
from pathlib import Path

import jax

from focops.config import default_config
from focops.training.device import DeviceTrainer


def kind(name: str) -> str:
    """Whose kernel it is, by its name."""
    if name.startswith(("Memcpy", "Memset", "copy")) or "memcpy" in name.lower():
        return "copies"
    return "physics" if "_cuda_kernel" in name else "XLA"


def summary(folder: Path, top: int) -> str:
    """What a trace says about the device."""
    from jax.profiler import ProfileData

    lines = []
    for file in folder.rglob("*.xplane.pb"):
        for plane in ProfileData.from_file(str(file)).planes:
            if "GPU" not in plane.name:
                continue
            events = [(e.start_ns, e.duration_ns, e.name) for line in plane.lines for e in line.events]
            events = [e for e in events if e[1] > 0]
            if not events:
                continue
            by_kind, by_name, count = collections.Counter(), collections.Counter(), collections.Counter()
            busy, until = 0.0, 0.0
            for start, duration, name in sorted(events):
                by_kind[kind(name)] += duration
                by_name[name] += duration
                count[name] += 1
                busy += max(0.0, start + duration - max(start, until))
                until = max(until, start + duration)
            whole = until - min(e[0] for e in events)
            parts = ", ".join(f"{name} {ns / 1e6:.1f}" for name, ns in by_kind.most_common())
            lines.append(f"{plane.name}: {whole / 1e6:.1f} ms, idle {(whole - busy) / 1e6:.1f}; kernels, ms: {parts}")
            lines += [
                f"{ns / 1e6:9.2f} ms {count[name]:6d} x {ns / count[name] / 1e3:8.2f} us  {kind(name):8s} {name[:100]}"
                for name, ns in by_name.most_common(top)
            ]
    return "\n".join(lines) or "the trace has no GPU in it"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", default="HalfCheetahSpeed")
    parser.add_argument("--runs", type=int, default=256)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--minibatch", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--top", type=int, default=25)
    options = parser.parse_args()
    config = dataclasses.replace(default_config(options.task, backend="mjx"), num_envs=options.envs)
    if options.minibatch:
        config = dataclasses.replace(config, algo=dataclasses.replace(config.algo, minibatch_size=options.minibatch))
    trainer = DeviceTrainer([dataclasses.replace(config, seed=seed) for seed in range(options.runs)])
    took = []
    for i in range(options.iterations):
        began = time.perf_counter()
        trainer.advance(ahead=i + 1 < options.iterations)
        took.append(time.perf_counter() - began)
    print(f"{config.task}: iterations, ms:", *(f"{1e3 * t:.0f}" for t in took))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            trainer.advance()
        print(summary(Path(folder), options.top))


if __name__ == "__main__":
    main()
