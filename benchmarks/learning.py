"""FOCOPS beside the paper: HalfCheetahSpeed and HopperSpeed, 1M samples, 3 seeds, both presets.

    python benchmarks/learning.py            # trains what is missing under runs/learning (about 25 core-minutes)
    python benchmarks/learning.py --table    # results/learning/README.md and curves.png from what is there

If it is killed, the same command resumes it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from focops.studies.published import published

TASKS = ("HalfCheetahSpeed", "HopperSpeed")
PRESETS = ("fast", "paper")
RUNS, RESULTS = Path("runs/learning"), Path("results/learning")
COLUMNS = (
    "samples",
    "return_mean",
    "discounted_cost_mean/speed",
    "cost_return_estimate/speed",
    "nu/speed",
    "kl",
    "epochs",
)


def train(seeds: str, side_by_side: bool) -> None:
    """All grids after one another on all cores, or side by side, each on its share of them."""
    grids = [(task, preset) for task in TASKS for preset in PRESETS]
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // len(grids) if side_by_side else len(cores)
    running = []
    for i, (task, preset) in enumerate(grids):
        out = RUNS / f"{task}-{preset}"
        words = ["resume", str(out)] if (out / "grid.json").exists() else ["train", task, "--preset", preset]
        words += [] if words[0] == "resume" else ["--seeds", seeds, "--out", str(out)]
        mine = set(cores[i * share : (i + 1) * share] if side_by_side else cores)
        process = subprocess.Popen(
            [sys.executable, "-m", "focops.cli", *words, "--quiet"],
            preexec_fn=lambda mine=mine: os.sched_setaffinity(0, mine),
        )
        running.append(process)
        if not side_by_side:
            process.wait()
    for process in running:
        process.wait()


def keep() -> None:
    """Copy config, summary and curve of finished runs to results/."""
    for summary in sorted(RUNS.glob("*/*/summary.json")):
        source, target = summary.parent, RESULTS / summary.parent.parent.name / summary.parent.name
        target.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "summary.json"):
            shutil.copy(source / name, target / name)
        records = [json.loads(line) for line in (source / "metrics.jsonl").read_text().splitlines()]
        rows = [[np.nan if r[key] is None else r[key] for key in COLUMNS] for r in records]
        np.savetxt(target / "curve.csv", rows, fmt="%.6g", delimiter=",", header=",".join(COLUMNS), comments="")


def curve(folder: Path) -> dict[str, np.ndarray]:
    """The stored metrics of a run, one value per iteration."""
    rows = np.loadtxt(folder / "curve.csv", delimiter=",", skiprows=1)
    return dict(zip(COLUMNS, rows.T, strict=True))


def tail(folder: Path) -> tuple[float, float]:
    """Return and discounted cost, each averaged over the last 50 iterations' means over 100 episodes."""
    metrics = curve(folder)
    return float(metrics["return_mean"][-50:].mean()), float(metrics["discounted_cost_mean/speed"][-50:].mean())


def table() -> None:
    rows = []
    for task in TASKS:
        paper = published(task, "focops")
        assert paper is not None
        rows.append(f"| {task} | the paper ({paper.seeds} seeds) | {paper.reward_text()} | {paper.cost_text()} | |")
        for preset in PRESETS:
            for folder in sorted((RESULTS / f"{task}-{preset}").iterdir()):
                summary = json.loads((folder / "summary.json").read_text())
                limit = summary["cost_limit"]["speed"]
                end = summary["discounted_cost_mean"]["speed"]
                mean_reward, mean_cost = tail(folder)
                rows.append(
                    f"| {task} | {preset}, {folder.name} | {summary['return_mean']:.0f} ({mean_reward:.0f}) "
                    f"| {end:.1f} ({mean_cost:.1f}) | {100 * (end / limit - 1):+.1f}% |"
                )
    head = (
        "# FOCOPS beside the paper, on a CPU\n\n"
        "`python benchmarks/learning.py`, then `python benchmarks/learning.py --table`: 1M samples, three seeds of "
        "each preset. Reward and discounted cost are means over the last 100 training episodes; in brackets, averaged "
        "over the last 50 iterations. Limits: HalfCheetahSpeed 151.99, HopperSpeed 82.75. The paper's rows are its "
        "Table 1 (`src/focops/studies/published.toml`).\n\n"
        "| task | run | reward | discounted cost | cost against its limit |\n|---|---|---|---|---|\n"
    )
    (RESULTS / "README.md").write_text(head + "\n".join(rows) + "\n\n![curves](curves.png)\n")
    print(head + "\n".join(rows))
    curves()


def curves() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(TASKS), figsize=(10, 6), sharex=True, layout="constrained")
    for column, task in enumerate(TASKS):
        limit = np.nan
        for preset, colour in zip(PRESETS, ("tab:blue", "tab:orange"), strict=True):
            for i, folder in enumerate(sorted((RESULTS / f"{task}-{preset}").iterdir())):
                metrics, label = curve(folder), preset if i == 0 else None
                limit = json.loads((folder / "summary.json").read_text())["cost_limit"]["speed"]
                for row, key in enumerate(("return_mean", "discounted_cost_mean/speed")):
                    axes[row, column].plot(
                        metrics["samples"] / 1e6, metrics[key], colour, alpha=0.8, lw=1.2, label=label
                    )
        if paper := published(task, "focops"):
            axes[0, column].axhline(paper.reward, color="grey", ls=":", label="the paper's reward")
        axes[1, column].axhline(limit, color="black", ls="--", label="limit")
        axes[0, column].set_title(task)
        axes[1, column].set_xlabel("samples (millions)")
    axes[0, 0].set_ylabel("return, last 100 episodes")
    axes[1, 0].set_ylabel("discounted cost, last 100 episodes")
    for ax in axes.flat:
        ax.legend(fontsize=8)
    figure.savefig(RESULTS / "curves.png", dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0..2")
    parser.add_argument(
        "--side-by-side", action="store_true", help="all four grids at once, on a machine with 12 cores"
    )
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.table:
        train(options.seeds, options.side_by_side)
        keep()
    else:
        table()
