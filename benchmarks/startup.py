"""Time to the first iteration and memory of `focops train`, with a cold and with a warm compilation cache.

python benchmarks/startup.py
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def first_iteration(cache: Path, out: Path) -> tuple[float, float]:
    """Seconds from the start of the process to its first report, and its peak memory in MB once it has ended."""
    command = [sys.executable, "-m", "focops.cli", "train", "--steps", "40k", "--out", str(out)]
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"XDG_CACHE_HOME": str(cache)}
    )
    assert process.stdout is not None
    seconds = 0.0
    for line in process.stdout:
        if "left" in line and not seconds:
            seconds = time.perf_counter() - began
    assert process.wait() == 0
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for label, goal in (("cold", 15), ("warm", 6)):
            seconds, memory = first_iteration(Path(folder) / "cache", Path(folder) / label)
            print(
                f"{label} cache: first iteration after {seconds:.1f} s (≤ {goal}), peak memory {memory:.0f} MB (≤ 1000)"
            )
