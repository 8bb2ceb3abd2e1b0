"""What FOCOPS learns and delivers, beside the paper and other algorithms: 1M samples a run, 10M on the circles.

    python benchmarks/learning.py                       # trains and evaluates what is missing under runs/learning
    python benchmarks/learning.py --tasks AntSpeed --seeds 0..31 --backend mjx
    python benchmarks/learning.py --algos ppo_lagrangian --seeds 0..9 --backend mjx --training-only
    python benchmarks/learning.py --table               # results/learning from what is there

If it is killed, the same command resumes it. A seed of all six speed tasks takes about an hour of one core; on a GPU
start several tasks at once (docs/many-runs.md).
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
TASKS += ("AntCircle", "HumanoidCircle", "PointCircle")
RUNS, RESULTS = Path("runs/learning"), Path("results/learning")
EPISODES = 400
ALGORITHMS = ("focops", "ppo_lagrangian", "trpo_lagrangian", "cpo", "ppo")
WAYS = {"sampled": [], "mean_action": ["--deterministic"]}
HEAD = """\
# FOCOPS beside the paper and other algorithms

`python benchmarks/learning.py`, then `python benchmarks/learning.py --table`: 1M samples a run (circles 10M); one row
per run is in [runs.csv](runs.csv).

- *training*: means over the last 100 training episodes, the paper's own score. Many policies share them. They aim below
  the limit, at *aim*.
- *delivered*: the policy that the run ends with, on {episodes} fresh episodes, with sampled and with mean actions
  (`focops evaluate --episodes {episodes}`); *satisfied* is the share of the runs with that verdict.
- Costs are discounted; ours are in units of the limit. ± is the standard error over seeds (the paper's: 95% interval).

| task | run | seeds | training: reward @ cost | aim | delivered, sampled | satisfied | mean action | satisfied |
|---|---|---|---|---|---|---|---|---|
"""


def train(options: argparse.Namespace) -> None:
    for task in options.tasks:
        for algo in options.algos:
            out = RUNS / f"{task}-{algo}-{options.preset}-{options.seeds.replace('..', '-')}"
            if (out / "grid.json").exists():
                _focops("resume", str(out))
            else:
                words = ["--algo", algo, "--preset", options.preset, "--seeds", options.seeds, "--out", str(out)]
                none = ["--final-episodes", "0"] if options.training_only else []
                _focops("train", task, "--backend", options.backend, *words, *none)
            for way, flags in WAYS.items():
                file = out / f"{way}.json"
                if not (file.exists() or options.training_only):
                    words = ["--episodes", str(EPISODES), "--json", str(file), "--backend", options.backend]
                    _focops("evaluate", str(out), *words, *flags, quiet=False)


def _focops(*words: str, quiet: bool = True) -> None:
    subprocess.run([sys.executable, "-m", "focops.cli", *words, *["--quiet"] * quiet], check=True)


def rows() -> list[dict[str, Any]]:
    """A row for each run of the grids that are trained, and evaluated if they are to be."""
    found = []
    for grid in sorted(RUNS.iterdir()):
        summaries = [json.loads(file.read_text()) for file in sorted(grid.glob("*/summary.json"))]
        names = [run["name"] for run in json.loads((grid / "grid.json").read_text())["runs"]]
        if len(summaries) < len(names) or not all(summary["finished"] for summary in summaries):
            print(f"not finished: {grid}")
            continue
        evaluated = {way: _evaluations(grid / f"{way}.json") for way in WAYS}
        for run in names:
            found.append(_row(grid / run, {way: each[run] for way, each in evaluated.items() if run in each}))
    order = lambda row: (TASKS.index(row["task"]), ALGORITHMS.index(row["algo"]), row["preset"], row["seed"])
    return sorted(found, key=order)


def _evaluations(file: Path) -> dict[str, Any]:
    """By the run's name."""
    return {Path(each["run"]).name: each for each in json.loads(file.read_text())} if file.exists() else {}


def _row(run: Path, evaluated: dict[str, Any]) -> dict[str, Any]:
    summary = json.loads((run / "summary.json").read_text())
    ((name, limit),) = summary["cost_limit"].items()
    row = {"task": summary["task"].removesuffix("-v0"), "algo": summary["algo"], "preset": summary["preset"]}
    row |= {"seed": summary["seed"], "reward": summary["return_mean"]}
    row |= {"cost": summary["discounted_cost_mean"][name] / limit, "aim": summary["cost_aim"][name] / limit}
    for way in WAYS:
        row |= dict.fromkeys((f"{way}_reward", f"{way}_cost", f"{way}_verdict"))
        if way in evaluated:
            cost = evaluated[way]["constraints"][name]
            row |= {f"{way}_reward": evaluated[way]["reward"]["mean"], f"{way}_verdict": cost["verdict"]}
            row |= {f"{way}_cost": cost["discounted_cost"]["mean"] / limit, "iteration": evaluated[way]["iteration"]}
    return row


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
        if paper is not None:
            lines.append(
                f"| {task} | *the paper* | {paper.seeds} | {paper.reward_text()} @ {paper.cost_text()} | | | | | |"
            )
        for key in dict.fromkeys((row["algo"], row["preset"]) for row in runs if row["task"] == task):
            own = [row for row in runs if (row["task"], row["algo"], row["preset"]) == (task, *key)]
            aim = np.mean([row["aim"] for row in own])
            cells = f"{len(own)} | {_mean(own, 'reward', 'cost')} | {aim:.3f} | {_delivered(own)}"
            lines.append(f"| {task} | {key[0]}, {key[1]} | {cells} |")
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
        if any(row[f"{way}_reward"] is None for row in own):
            cells += ["", ""]
            continue
        kept = sum(row[f"{way}_verdict"] == "satisfied" for row in own)
        cells += [_mean(own, f"{way}_reward", f"{way}_cost"), f"{kept} of {len(own)}"]
    return " | ".join(cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS[:6])
    parser.add_argument("--algos", nargs="+", choices=ALGORITHMS, default=["focops"])
    parser.add_argument("--preset", choices=("fast", "paper"), default="fast")
    parser.add_argument("--seeds", default="0..1")
    parser.add_argument("--backend", choices=("cpu", "mjx"), default="cpu")
    parser.add_argument("--training-only", action="store_true", help="no evaluation of what is delivered")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    table() if options.table else train(options)
