"""Kill training processes at random instants, resume, and compare with a run that was never interrupted, to the byte.

    python benchmarks/crash.py --kills 1000

Each process is an ordinary `focops train` or `focops resume`, killed with SIGKILL: half of them at a random moment of
their work, a third while a temporary of a save exists, the rest at any moment since they were started, imports and
compilation included. When a run comes to its end it is compared (newest checkpoint, policy, metrics but for their time
fields) and the next one begins. Everything is stored in `--folder`: if the benchmark itself is
stopped, the same command resumes it.
"""

import argparse
import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

TIME_FIELDS = {"samples_per_second", "elapsed_s"}
TASKS = {"PointCircle-v0": [], "HopperSpeed-v0": [], "tests.resume.worlds:CostedHopper-v0": ["--cost-limit", "1"]}
"""Ours with and without contacts, and one of Gymnasium's own MuJoCo environments."""
SMALL = "--steps 3840 --batch-size 64 --num-envs 4 --checkpoint-every 2 --quiet --final-episodes 0"
SMALL += " --algo.hidden 8 --algo.epochs 2 --algo.minibatch-size 32"
WAYS = ("at work", "at work", "at work", "in a save", "in a save", "any time")


def results(run: Path) -> dict[str, Any]:
    newest = max((run / "checkpoint").glob("*.safetensors"))
    lines = (run / "metrics.jsonl").read_text().splitlines()
    metrics = [{k: v for k, v in json.loads(line).items() if k not in TIME_FIELDS} for line in lines]
    return {
        newest.name: newest.read_bytes(),
        "policy": (run / "policy/policy.safetensors").read_bytes(),
        "log": metrics,
    }


def start(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "focops.cli", *words], stderr=subprocess.PIPE)


def train_words(task: str, out: Path) -> list[str]:
    return ["train", task, *TASKS[task], *SMALL.split(), "--out", str(out)]


def being_saved(run: Path, since: float) -> set[str]:
    """Names of checkpoints' temporaries written since then; earlier ones were left by kills."""
    found = set()
    for file in (run / "checkpoint").glob("*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_mtime > since:
                found.add(file.name)
    return found


def kill(process: subprocess.Popen[bytes], run: Path, way: str, rng: random.Random) -> bool:
    """Wait for the moment, kill; False if the process ended before."""
    log, started = run / "metrics.jsonl", time.time()
    if way == "any time":
        time.sleep(rng.uniform(0, 3))
    else:
        low = size = log.stat().st_size if log.exists() else 0
        while process.poll() is None and size <= low:  # resuming makes it shorter, an iteration longer
            low = min(low, size)
            time.sleep(0.001)
            size = log.stat().st_size if log.exists() else 0
        if way == "at work":
            time.sleep(rng.uniform(0, 0.3))
        else:
            saves: set[str] = set()
            wanted = rng.randint(1, 6)
            while process.poll() is None and len(saves) < wanted:
                saves |= being_saved(run, started)
    process.send_signal(signal.SIGKILL)
    said = process.communicate()[1].decode()
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"{run}: exit status {process.returncode}: {said}")
    return process.returncode == -signal.SIGKILL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/focops-crash"))
    options = parser.parse_args()
    state_file, run = options.folder / "state.json", options.folder / "run"
    state: dict[str, Any] = {"kills": 0, "runs": 0, "ways": {}, "seconds": 0.0}
    if state_file.exists():
        state = json.loads(state_file.read_text())
    for task in TASKS:
        path = options.folder / f"reference-{task.rpartition(':')[2]}"
        if not (path / "summary.json").exists():
            shutil.rmtree(path, ignore_errors=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([sys.executable, "-m", "focops.cli", *train_words(task, path)], check=True)
    began, before = time.perf_counter(), state["seconds"]
    while state["kills"] < options.kills or run.exists():
        task = list(TASKS)[state["runs"] % len(TASKS)]
        rng = random.Random(f"{options.seed} {state['kills']} {state['runs']}")
        begun = (run / "config.json").exists()
        process = start(["resume", str(run), "--quiet"] if begun else train_words(task, run))
        way = rng.choice(WAYS)
        if state["kills"] < options.kills and kill(process, run, way, rng):
            state["kills"] += 1
            state["ways"] = dict(Counter(state["ways"]) + Counter([way]))
        elif process.wait() == 0:
            if results(run) != results(options.folder / f"reference-{task.rpartition(':')[2]}"):
                sys.exit(f"{task}: {run} differs from its reference")
            state["runs"] += 1
            shutil.rmtree(run)
        else:
            sys.exit(f"{run}: exit status {process.returncode}")
        state["seconds"] = before + time.perf_counter() - began
        state_file.write_text(json.dumps(state))
        print(f"\r{state['kills']} kills, {state['runs']} runs ended in the same bytes", end="", flush=True)
    ways = ", ".join(f"{n} {way}" for way, n in sorted(state["ways"].items()))
    print(f"\n{state['kills']} kills ({ways}) of {state['runs']} runs in {state['seconds']:.0f} s: no byte differs")


if __name__ == "__main__":
    main()
