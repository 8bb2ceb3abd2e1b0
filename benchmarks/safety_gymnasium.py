"""Safety-Gymnasium 1.0: three tasks, FOCOPS and PPO with a Lagrangian multiplier, 2M samples, two seeds, evaluated.

    scripts/safety-gymnasium DIR
    python benchmarks/safety_gymnasium.py DIR          # trains what is missing under runs/safety_gymnasium
    python benchmarks/safety_gymnasium.py --table      # results/safety_gymnasium.md from what is stored

One run at a time; `--seeds 0` and `--seeds 1`, started side by side, share the runs between two cores. If it is killed,
the same command resumes it. The summaries are stored in results/safety_gymnasium/.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TASKS = ("SafetyPointGoal1", "SafetyPointCircle1", "SafetyCarGoal1")
ALGORITHMS, SEEDS = ("focops", "ppo_lagrangian"), (0, 1)
SETTING = ("--cost-limit", "25", "--cost-discount", "1")
WORKERS = ("--env-workers", "1")
RUNS, RESULTS = Path("runs/safety_gymnasium"), Path("results/safety_gymnasium")


def train(name: str, task: str, algorithm: str, seed: int, python: Path, steps: str) -> None:
    """Train or resume one run, and store its summary."""
    saved, out = RESULTS / f"{name}.json", RUNS / name
    if saved.exists():
        return
    words = ["train", f"safety_gymnasium:{task}-v0", "--algo", algorithm, "--seed", str(seed), "--steps", steps]
    words += [*SETTING, "--out", str(out)]
    if (out / "config.json").exists():
        words = ["resume", str(out)]
    if not evaluated(out):
        command = [sys.executable, "-m", "focops.cli", *words, "--env-python", str(python), *WORKERS, "--quiet"]
        subprocess.run(command, check=True)
    if evaluated(out):
        summary = json.loads((out / "summary.json").read_text())
        RESULTS.mkdir(parents=True, exist_ok=True)
        versions = json.loads((out / "config.json").read_text())["versions"]
        saved.write_text(json.dumps(summary | {"out": name, "versions": versions}, indent=2) + "\n")


def evaluated(out: Path) -> bool:
    """Whether the run is finished and its policy evaluated."""
    file = out / "summary.json"
    summary = json.loads(file.read_text()) if file.exists() else {"finished": False}
    return summary["finished"] and summary["policy"] is not None


def row(found: list[dict[str, Any]]) -> str:
    def each(of: Any, digits: int) -> str:
        return ", ".join(f"{of(summary):.{digits}f}" for summary in found)

    cells = [each(lambda s: s["return_mean"], 1), each(lambda s: s["undiscounted_cost_mean"]["cost"], 1)]
    for acting in ("sampled", "mean_action"):
        policies = [summary["policy"][acting] for summary in found]
        cells.append(", ".join(f"{policy['reward']:.1f}" for policy in policies))
        cells.append(", ".join(f"{p['undiscounted_cost']['cost']:.1f} {p['verdict']['cost']}" for p in policies))
    return " | ".join([*cells, each(lambda s: s["wall_s"] / 3600, 1)])


def table() -> str:
    stored = {file.stem: json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))}
    lines = [
        "# Safety-Gymnasium 1.0",
        "",
        "2M samples, seeds 0 and 1, preset `fast`: `scripts/safety-gymnasium DIR`, then",
        "`python benchmarks/safety_gymnasium.py DIR`, which runs `focops train safety_gymnasium:TASK-v0 --env-python",
        "DIR --cost-limit 25 --cost-discount 1`. The limit is on the plain sum of an episode's costs (1000 steps; in",
        "the Circle task 500). Training: means over the last 100 episodes. Policy: 100 fresh episodes with sampled",
        "actions, and 100 with the mean action, with the verdict on the limit",
        "([what it promises](../docs/dependable.md#the-verdict)).",
        "Two seeds show what works, not which algorithm is better. The settings were not tuned on these tasks.",
        "",
        "SafetyCarGoal1 was measured with the preset as it is, on 19 November 2026. The others are older:",
        "SafetyPointGoal1 with `focops`, 19 November 2026, with a ν_max of 20 (seed 1: 2 up to 494,000 samples)",
        "where it is 5 now, for ν beyond that only followed noise; the rest, 18 November 2026, with a ν_max of",
        "2 and 1, without `nu_noise`, and for `focops` with larger steps.",
        "",
        "| task | algorithm | training: return | cost | policy: return | cost | mean action: return | cost | hours |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for task in TASKS:
        for algorithm in ALGORITHMS:
            found = [stored[name] for seed in SEEDS if (name := f"{task}-{algorithm}-{seed}") in stored]
            if found:
                lines.append(f"| {task} | `{algorithm}` | {row(found)} |")
    for versions in [summary["versions"] for summary in stored.values()][:1]:
        there = ", ".join(f"{name.removeprefix('env_')} {v}" for name, v in versions.items() if name.startswith("env_"))
        here = ", ".join(f"{name} {versions[name]}" for name in ("python", "numpy", "jax"))
        lines += ["", f"Environments: {there}; MuJoCo 2.3.3. Learner: {here}. On {versions['machine']}."]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="?", type=Path, help="what scripts/safety-gymnasium made")
    parser.add_argument("--steps", default="2M")
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=SEEDS)
    parser.add_argument("--finished", action="store_true", help="store the runs that are finished, and train nothing")
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    names = [(task, algo, seed) for seed in options.seeds for task in TASKS for algo in ALGORITHMS]
    if options.finished:
        for task, algorithm, seed in names:
            if evaluated(RUNS / f"{task}-{algorithm}-{seed}"):
                train(f"{task}-{algorithm}-{seed}", task, algorithm, seed, Path(), options.steps)
    elif not options.table:
        if options.python is None:
            parser.error("give the folder that scripts/safety-gymnasium made, or --table")
        for task, algorithm, seed in names:
            train(f"{task}-{algorithm}-{seed}", task, algorithm, seed, options.python, options.steps)
    Path("results/safety_gymnasium.md").write_text(table())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
