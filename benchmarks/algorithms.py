"""Every algorithm on HalfCheetahSpeed: 1M samples, two seeds, beside the paper's row.

    python benchmarks/algorithms.py [NAME ...]     # trains what is missing under runs/algorithms, one run at a time
    python benchmarks/algorithms.py --table        # results/algorithms/README.md from the summaries that are there

If it is killed, the same command resumes it. The summaries are stored in results/algorithms/.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from focops.algorithms import ALGORITHMS
from focops.studies.published import published

TASK, SEEDS = "HalfCheetahSpeed", (0, 1)
RUNS, RESULTS = Path("runs/algorithms"), Path("results/algorithms")


def command(name: str, seed: int) -> list[str]:
    out = RUNS / f"{name}-{seed}"
    if (out / "config.json").exists():
        return ["resume", str(out), "--quiet"]
    return ["train", TASK, "--algo", name, "--seed", str(seed), "--steps", "1M", "--out", str(out), "--quiet"]


def train(name: str, seed: int) -> None:
    """Train or resume one run, and store its summary."""
    saved = RESULTS / f"{name}-{seed}.json"
    if saved.exists():
        return
    subprocess.run([sys.executable, "-m", "focops.cli", *command(name, seed)], check=True)
    summary = json.loads((RUNS / f"{name}-{seed}" / "summary.json").read_text())
    if summary["finished"]:
        RESULTS.mkdir(parents=True, exist_ok=True)
        saved.write_text(json.dumps(summary, indent=2) + "\n")


def table() -> str:
    lines = [
        f"# Every algorithm on {TASK}",
        "",
        "1M samples, seeds 0 and 1, preset `fast` with each algorithm's defaults: `python benchmarks/algorithms.py`,",
        "which runs `focops train HalfCheetahSpeed --algo NAME --seed S --steps 1M`. Figures are means over the last",
        "100 training episodes: undiscounted return, *discounted* cost (γ_C = 0.99, limit 151.99). Two seeds show what",
        "works, not which algorithm is best. The paper's columns are its Table 1 (published.toml): 10 seeds,",
        "one environment, MuJoCo of 2020. `fast` damps the multiplier of `focops`, `ppo_lagrangian`, `trpo_lagrangian`",
        "and `cvar` (`nu_lead`); the paper does not.",
        "",
        "| algorithm | return, seeds 0, 1 | cost, seeds 0, 1 | paper: return | paper: cost | wall, s |",
        "|---|---|---|---|---|---|",
    ]
    for name in ALGORITHMS:
        files = [RESULTS / f"{name}-{seed}.json" for seed in SEEDS]
        found = [json.loads(f.read_text()) for f in files if f.exists()]
        if not found:
            continue
        returns = ", ".join(f"{s['return_mean']:.0f}" for s in found)
        costs = ", ".join(f"{s['discounted_cost_mean']['speed']:.1f}" for s in found)
        walls = ", ".join(f"{s['wall_s']:.0f}" for s in found)
        paper = published(TASK, name)
        theirs = f"{paper.reward_text()} | {paper.cost_text()}" if paper else "– | –"
        lines.append(f"| `{name}` | {returns} | {costs} | {theirs} | {walls} |")
    notes = [
        "",
        "`ppo` and `trpo` ignore the constraint. `cvar` limits the mean cost of the worst 5% of episodes, so its mean",
        "cost is meant to be below the limit.",
        "",
        "`nu_rate` of `rcpo`, and the form and `nu_max` of `cvar`, were chosen by their results on this very task. The",
        "other algorithms have their first defaults. `updates.md` compares the time of an update.",
    ]
    return "\n".join(lines + notes) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(ALGORITHMS))
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    if not options.table:
        for seed in SEEDS:
            for name in options.names:
                train(name, seed)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text(table())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
