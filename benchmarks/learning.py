"""What FOCOPS learns and delivers, beside the paper and other algorithms: 1M samples a run, 10M on the circles.

What is compared are studies in folders of runs/learning; each command resumes what it has begun:

    python benchmarks/paper.py begin runs/paper && focops resume runs/paper --jobs 8                # on a GPU
    python benchmarks/paper.py split runs/paper runs/studies && mv runs/studies/speed-limit runs/learning/speed
    python benchmarks/learning.py --evaluate runs/learning/speed --match "*,focops,*" --backend mjx   # 400 episodes
    focops study circle --preset fast --algos focops --seeds 10 --engine gpu --jobs 2 --out runs/learning/circle
    focops train PointCircle --seeds 0..9 --out runs/learning/point
    focops study speed-limit --algos focops --seeds 3 --out runs/learning/paper                   # on a CPU
    python benchmarks/learning.py                                                                 # results/learning

The page is made from whatever is there and finished.
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
EPISODES, SEED = 400, 3
"""Of `--evaluate`. Runs choose their policies by episodes of the seeds 0 and 1."""
ALGORITHMS = ("focops", "ppo_lagrangian", "trpo_lagrangian", "cpo", "ppo")
WAYS = {"sampled": [], "mean_action": ["--deterministic"]}
BEGIN, END = "<!-- made by benchmarks/learning.py -->", "<!-- end of what it made -->"
HEAD = """\
One row per run is in [runs.csv](runs.csv), the curves and settings of all runs in [runs.tar.xz](runs.tar.xz): `tar -xf
runs.tar.xz`, then `focops report learning`, makes a page to look around in.

- *training*: means over the last 100 training episodes, the paper's own score. Many policies share them. They aim below
  the limit, at *aim*.
- *delivered*: the policy that the run ends with, on fresh *episodes*, with sampled and with mean actions; *satisfied*
  is the share of the runs with that verdict.
- Costs are discounted; ours are in units of the limit. ± is the standard error over seeds (the paper's: 95% interval).

| task | run | seeds | training, reward @ cost | aim | episodes | delivered, sampled | satisfied | mean | satisfied |
|---|---|---|---|---|---|---|---|---|---|
"""


def evaluate(grid: Path, tasks: Sequence[str], match: str, backend: str) -> None:
    """The delivered policies of a grid on more episodes, task by task."""
    for task in tasks:
        files = sorted(grid.glob(f"{match}/summary.json"))
        runs = [str(file.parent) for file in files if json.loads(file.read_text())["task"] == f"{task}-v0"]
        for way, flags in WAYS.items():
            file = grid / f"evaluated-{task}-{way}.json"
            if runs and not file.exists():
                words = ["--episodes", str(EPISODES), "--seeds", str(SEED), "--json", str(file), "--backend", backend]
                subprocess.run([sys.executable, "-m", "focops.cli", "evaluate", *runs, *words, *flags], check=True)


def rows() -> list[dict[str, Any]]:
    """A row for each finished run."""
    found = []
    for grid in sorted(RUNS.iterdir()):
        evaluated = {way: _evaluations(grid, way) for way in WAYS}
        for file in sorted(grid.glob("*/summary.json")):
            summary = json.loads(file.read_text())
            if summary["finished"]:
                name = file.parent.name
                config = json.loads((file.parent / "config.json").read_text())
                mine = {way: each[name] for way, each in evaluated.items() if name in each}
                # what older runs do not name, they did not have
                row = {"backend": config["backend"], "solve_dual": config["algo"].get("solve_dual", False)}
                found.append(row | _row(summary, mine))
    order = lambda row: (TASKS.index(row["task"]), ALGORITHMS.index(row["algo"]), *_run(row), row["seed"])
    return sorted(found, key=order)


def _run(row: dict[str, Any]) -> tuple[str, ...]:
    fast_speed = (row["algo"], row["preset"]) == ("focops", "fast") and row["task"].endswith("Speed")
    how = row["preset"] + " with Eq. 14 and a lead" * (fast_speed and not row["solve_dual"])
    return row["algo"], how, {"cpu": "CPU", "mjx": "GPU"}[row["backend"]]


def _evaluations(grid: Path, way: str) -> dict[str, Any]:
    """By the run's name."""
    files = grid.glob(f"evaluated-*-{way}.json")
    return {Path(each["run"]).name: each for file in files for each in json.loads(file.read_text())}


def _row(summary: dict[str, Any], evaluated: dict[str, Any]) -> dict[str, Any]:
    """Of the delivered policy, what `--evaluate` has found, or else the evaluation at the run's end, if it has one."""
    ((name, limit),) = summary["cost_limit"].items()
    row: dict[str, Any] = {"task": summary["task"].removesuffix("-v0"), "algo": summary["algo"]}
    row |= {"preset": summary["preset"], "seed": summary["seed"], "reward": summary["return_mean"]}
    row |= {"cost": summary["discounted_cost_mean"][name] / limit, "aim": summary["cost_aim"][name] / limit}
    row |= dict.fromkeys([f"{way}_{what}" for way in WAYS for what in ("reward", "cost", "verdict")])
    episodes, at_the_end = [], summary["policy"] or {}
    for way in WAYS:
        if way in evaluated:
            found, cost = evaluated[way], evaluated[way]["constraints"][name]
            reward, paid, verdict = found["reward"]["mean"], cost["discounted_cost"]["mean"], cost["verdict"]
        elif way in at_the_end:
            found = at_the_end[way]
            reward, paid, verdict = found["reward"], found["discounted_cost"][name], found["verdict"][name]
        else:
            continue
        row |= {f"{way}_reward": reward, f"{way}_cost": paid / limit, f"{way}_verdict": verdict}
        episodes.append(str(found["episodes"]))
    return row | {"episodes": ", ".join(dict.fromkeys(episodes)) or None}


def write() -> None:
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
            score = f"{paper.reward_text()} @ {paper.cost_text()}"
            lines.append(f"| {task} | *the paper* | {paper.seeds} | {score} | | | | | | |")
        for key in dict.fromkeys(_run(row) for row in runs if row["task"] == task):
            own = [row for row in runs if (row["task"], *_run(row)) == (task, *key)]
            aim, episodes = np.mean([row["aim"] for row in own]), {row["episodes"] for row in _evaluated(own)}
            cells = f"{len(own)} | {_mean(own, 'reward', 'cost')} | {aim:.3f} | {'–'.join(sorted(episodes))}"
            lines.append(f"| {task} | {', '.join(key)} | {cells} | {_delivered(_evaluated(own))} |")
    made = HEAD + "\n".join(lines) + "\n\n![curves](curves.png)\n"
    page = RESULTS / "README.md"
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{made}{END}{rest.partition(END)[2]}")
    print(made)
    figures.save(figures.draw(report.Study(read([RUNS])).groups), RESULTS / "curves.png")


def _mean(own: Sequence[dict[str, Any]], reward: str, cost: str) -> str:
    values = np.array([row[reward] for row in own])
    error = f" ± {values.std(ddof=1) / len(values) ** 0.5:.3g}" if len(values) > 1 else ""
    return f"{values.mean():.4g}{error} @ {np.mean([row[cost] for row in own]):.3f}"


def _evaluated(own: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in own if row["episodes"] is not None]


def _delivered(own: Sequence[dict[str, Any]]) -> str:
    if not own:
        return "not evaluated | | |"
    cells = []
    for way in WAYS:
        kept = sum(row[f"{way}_verdict"] == "satisfied" for row in own)
        cells += [_mean(own, f"{way}_reward", f"{way}_cost"), f"{kept} of {len(own)}"]
    return " | ".join(cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluate", type=Path, metavar="GRID", help="run 400 episodes of each of its policies")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS, help="of --evaluate")
    parser.add_argument("--match", default="*", metavar="GLOB", help="of --evaluate: only runs of such names")
    parser.add_argument("--backend", choices=("cpu", "mjx"), default="cpu", help="of --evaluate")
    options = parser.parse_args()
    evaluate(options.evaluate, options.tasks, options.match, options.backend) if options.evaluate else write()
