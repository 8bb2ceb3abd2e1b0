"""Tables and curves of what benchmarks/gpu_evidence.py measured.

    python benchmarks/gpu_report.py results/gpu/raw --out results/gpu      # needs the extra `plot`

Intervals are 95%, bootstrapped over seeds (SciPy).
"""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import bootstrap

from focops.studies.published import published


def interval(x: np.ndarray, digits: int) -> str:
    """mean [low, high]"""
    found = bootstrap((x,), np.mean, n_resamples=9999, rng=np.random.default_rng(0)).confidence_interval
    return f"{x.mean():.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def of_setting(found: dict[str, Any], text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Samples [K], returns and discounted costs [seeds, K], limit."""
    runs = [run for run in found["runs"] if run["setting"] == text and isinstance(run["end"], dict)]
    curves = np.array([run["curve"] for run in runs], float)
    limit = next(value for key, value in runs[0]["end"].items() if key.startswith("cost_limit/"))
    return curves[0, :, 0], curves[..., 1], curves[..., 2], limit


def rows(found: dict[str, Any]) -> list[str]:
    lines, limit = [], np.nan
    for text in dict.fromkeys(run["setting"] for run in found["runs"]):
        samples, reward, cost, limit = of_setting(found, text)
        digits = 0 if abs(reward[:, -1].mean()) > 100 else 1
        runs = [run for run in found["runs"] if run["setting"] == text and "policy" in run]
        name = found["algorithm"] if text == "base" else f"{found['algorithm']}, {text}"
        trained = f"{interval(reward[:, -1], digits)} | {interval(cost[:, -1], 1)} | {limit:.1f}"
        cells = [delivered([run["policy"][kind] for run in runs], digits) for kind in ("sampled", "mean_action")]
        lines.append(
            f"| {found['task']} | {name} | {len(reward)} | {samples[-1] / 1e6:.2f}M | {trained} | {' | '.join(cells)} |"
        )
    paper = published(found["task"], found["algorithm"])
    if paper:
        lines.append(
            f"| {found['task']} | *{found['algorithm']}, published* | {paper.seeds} | {paper.samples} |"
            f" {paper.reward_text()} | {paper.cost_text()} | {limit:.1f} | | |"
        )
    return lines


def delivered(rows: list[Any], digits: int) -> str:
    """Reward @ cost ± standard deviation over seeds, and the share of policies found to satisfy the limit."""
    if not rows:
        return "–"
    reward, cost, verdict = (np.array(x) for x in zip(*((r[0], r[1], r[3]) for r in rows), strict=True))
    satisfied, violated = np.mean(verdict == "satisfied"), np.mean(verdict == "violated")
    return (
        f"{reward.mean():.{digits}f} @ {cost.mean():.1f} ± {cost.std(ddof=1):.1f}; {satisfied:.0%} satisfied,"
        f" {violated:.0%} violated"
    )


def plot(studies: list[dict[str, Any]], file: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(studies), 2, figsize=(11, 3.2 * len(studies)), squeeze=False, layout="constrained")
    for line, found in zip(axes, studies, strict=True):
        limit, count = np.nan, 0
        for text in dict.fromkeys(run["setting"] for run in found["runs"]):
            samples, reward, cost, limit = of_setting(found, text)
            count = len(reward)
            for axis, values in zip(line, (reward, cost), strict=True):
                seen = ~np.isnan(values).any(0)
                mean, error = values[:, seen].mean(0), values[:, seen].std(0, ddof=1) / np.sqrt(len(values))
                axis.plot(samples[seen], mean, label=text, linewidth=1.2)
                axis.fill_between(samples[seen], mean - 1.96 * error, mean + 1.96 * error, alpha=0.2)
        title = f"{found['task']}: return ({count} runs, {found['envs']} environments each)"
        line[0].set_title(title, fontsize=9)
        if paper := published(found["task"], found["algorithm"]):
            line[0].axhline(paper.reward, color="gray", linestyle=":", label="the paper, after training")
        line[1].set_title("discounted cost of the last 100 episodes, limit dashed", fontsize=9)
        line[1].axhline(limit, color="black", linestyle="--", linewidth=0.8)
        line[0].legend(fontsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("samples")
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/gpu"))
    options = parser.parse_args()
    studies = [json.loads(gzip.decompress(file.read_bytes())) for file in sorted(options.raw.glob("*.json.gz"))]
    head = ["task", "algorithm", "runs", "samples", "training: reward [95%]", "discounted cost [95%]", "limit"]
    head += ["delivered, sampled actions", "delivered, mean action"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(line for study in studies for line in rows(study))]
    plot([study for study in studies if study["algorithm"] == "focops"], options.out / "curves.png")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
