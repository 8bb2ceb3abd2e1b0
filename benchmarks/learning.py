"""What FOCOPS learns and delivers on the speed tasks, beside the paper: 1M samples a run, on a CPU.

    python benchmarks/learning.py                       # trains and evaluates what is missing under runs/learning
    python benchmarks/learning.py --tasks AntSpeed --seeds 0..9
    python benchmarks/learning.py --table               # results/learning from what is there

If it is killed, the same command resumes it. A seed of all six tasks takes about an hour of one core.
"""

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from focops.studies import figures, report
from focops.studies.published import published
from focops.studies.results import read

TASKS = ("HalfCheetahSpeed", "HopperSpeed", "SwimmerSpeed", "Walker2dSpeed", "AntSpeed", "HumanoidSpeed")
RUNS, RESULTS = Path("runs/learning"), Path("results/learning")
EPISODES = 400
WAYS = {"sampled": [], "mean_action": ["--deterministic"]}
HEAD = """\
# FOCOPS beside the paper, on a CPU

`python benchmarks/learning.py`, then `python benchmarks/learning.py --table`: 1M samples a run; one row per run is in
[runs.csv](runs.csv).

- *training*: means over the last 100 training episodes, the paper's own score. Many policies share them.
- *delivered*: the policy that the run ends with, on {episodes} fresh episodes, with sampled and with mean actions
  (`focops evaluate --episodes {episodes}`); *satisfied* is the share of the runs with that verdict.
- Costs are discounted; ours are in units of the limit. ± is the standard error over seeds (the paper's: 95% interval).

| task | run | seeds | training: reward @ cost | delivered, sampled | satisfied | delivered, mean action | satisfied |
|---|---|---|---|---|---|---|---|
"""


def train(tasks: Sequence[str], preset: str, seeds: str) -> None:
    for task in tasks:
        out = RUNS / f"{task}-{preset}-{seeds.replace('..', '-')}"
        begun = (out / "grid.json").exists()
        _focops(
            *(
                ["resume", str(out)]
                if begun
                else ["train", task, "--preset", preset, "--seeds", seeds, "--out", str(out)]
            )
        )
        for way, flags in WAYS.items():
            file = out / f"{way}.json"
            if not file.exists():
                _focops("evaluate", str(out), "--episodes", str(EPISODES), "--json", str(file), *flags, quiet=False)


def _focops(*words: str, quiet: bool = True) -> None:
    subprocess.run([sys.executable, "-m", "focops.cli", *words, *["--quiet"] * quiet], check=True)


def rows() -> list[dict[str, Any]]:
    """A row for each run that is trained and evaluated."""
    found = []
    for grid in sorted(RUNS.iterdir()):
        if not all((grid / f"{way}.json").exists() for way in WAYS):
            continue
        evaluations = {way: json.loads((grid / f"{way}.json").read_text()) for way in WAYS}
        for i, each in enumerate(evaluations["sampled"]):
            summary = json.loads((Path(each["run"]) / "summary.json").read_text())
            ((name, limit),) = summary["cost_limit"].items()
            row = {"task": summary["task"].removesuffix("-v0"), "preset": summary["preset"], "seed": summary["seed"]}
            row |= {"reward": summary["return_mean"], "cost": summary["discounted_cost_mean"][name] / limit}
            row |= {"iteration": each["iteration"]}
            for way, evaluated in evaluations.items():
                cost = evaluated[i]["constraints"][name]
                row |= {f"{way}_reward": evaluated[i]["reward"]["mean"], f"{way}_verdict": cost["verdict"]}
                row |= {f"{way}_cost": cost["discounted_cost"]["mean"] / limit}
            found.append(row)
    return sorted(found, key=lambda row: (TASKS.index(row["task"]), row["preset"], row["seed"]))


def table() -> None:
    runs = rows()
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "runs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(runs[0]))
        writer.writeheader()
        writer.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in runs)
    lines = []
    for task in dict.fromkeys(row["task"] for row in runs):
        paper = published(task, "focops")
        assert paper is not None
        lines.append(f"| {task} | *the paper* | {paper.seeds} | {paper.reward_text()} @ {paper.cost_text()} | | | | |")
        for preset in ("fast", "paper"):
            own = [row for row in runs if (row["task"], row["preset"]) == (task, preset)]
            if own:
                lines.append(f"| {task} | {preset} | {len(own)} | {_mean(own, 'reward', 'cost')} | {_delivered(own)} |")
    page = HEAD.format(episodes=EPISODES) + "\n".join(lines) + "\n\n![curves](curves.png)\n"
    (RESULTS / "README.md").write_text(page)
    print(page)
    figures.save(figures.draw(report.Study(read([RUNS])).groups), RESULTS / "curves.png")


def _mean(own: Sequence[dict[str, Any]], reward: str, cost: str) -> str:
    values = np.array([row[reward] for row in own])
    error = f" ± {values.std(ddof=1) / len(values) ** 0.5:.3g}" if len(values) > 1 else ""
    return f"{values.mean():.4g}{error} @ {np.mean([row[cost] for row in own]):.3f}"


def _delivered(own: Sequence[dict[str, Any]]) -> str:
    cells = []
    for way in WAYS:
        kept = sum(row[f"{way}_verdict"] == "satisfied" for row in own)
        cells += [_mean(own, f"{way}_reward", f"{way}_cost"), f"{kept} of {len(own)}"]
    return " | ".join(cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--preset", choices=("fast", "paper"), default="fast")
    parser.add_argument("--seeds", default="0..1")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    table() if options.table else train(options.tasks, options.preset, options.seeds)
