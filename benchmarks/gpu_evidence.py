"""Learning on an accelerator: many seeds of several settings of one task as one program, and what came out.

    python benchmarks/gpu_evidence.py HalfCheetahSpeed --seeds 32 --envs 64 --steps 1M \
        --setting base --setting scale_free=1 --setting scale_free=1,nu_lead=2 --out results/gpu/raw

One JSON file (gzip) per task: what `base` was, and per run the curve (every 10th iteration), the end's means over the
last 100 training episodes, and what the delivered policy earns and costs on `--episodes` fresh ones, with sampled and
with mean actions, each with its verdict. There are no run directories, so these runs cannot be resumed.
"""

import argparse
import dataclasses
import gzip
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from focops import confidence as bounds
from focops.cli.arguments import parse_count
from focops.config import TrainConfig, default_config
from focops.core.base import network
from focops.evaluation.device import device_episodes
from focops.training.device import DeviceTrainer

CURVE = ("samples", "return_mean", "discounted_cost_mean", "cost_return_estimate", "nu", "kl", "entropy")


def setting(config: TrainConfig, text: str) -> TrainConfig:
    """The config with "name=value,name=value" of the algorithm's numbers, or margin=auto."""
    values: dict[str, Any] = dict(part.split("=") for part in text.split(",") if "=" in part)
    margin = values.pop("margin", config.margin)
    margin = margin if margin == "auto" else float(margin)
    algo = {k: type(getattr(config.algo, k))(float(v)) for k, v in values.items()}
    return dataclasses.replace(config, margin=margin, algo=dataclasses.replace(config.algo, **algo))


def row(record: dict[str, Any]) -> list[float | None]:
    found = [next((record[k] for k in record if k.partition("/")[0] == name), None) for name in CURVE]
    return [None if value is None else float(f"{value:.5g}") for value in found]


def study(name: str, options: argparse.Namespace) -> dict[str, Any]:
    config = dataclasses.replace(
        default_config(name, options.algo), backend="mjx", num_envs=options.envs, steps=options.steps
    )
    if options.batch:
        config = dataclasses.replace(config, batch_size=options.batch)
    if options.minibatch:
        config = dataclasses.replace(config, algo=dataclasses.replace(config.algo, minibatch_size=options.minibatch))
    texts = options.setting or ["base"]
    configs = [dataclasses.replace(setting(config, text), seed=seed) for text in texts for seed in range(options.seeds)]
    began = time.perf_counter()
    trainer = DeviceTrainer(configs)
    last = trainer.advance(ahead=True)
    compiled = time.perf_counter() - began
    curves: list[list[Any]] = [[row(r)] if isinstance(r, dict) else [] for r in last]
    started, shown = time.perf_counter(), time.perf_counter()
    until = options.until and began + options.until

    def found() -> dict[str, Any]:
        runs = [
            {
                "setting": str(text),
                "seed": c.seed,
                "curve": curve,
                "end": end if isinstance(end, dict) else str(end.error),
            }
            for text, c, curve, end in zip(np.repeat(texts, options.seeds), configs, curves, last, strict=True)
        ]
        seconds = time.perf_counter() - started
        return {
            "task": config.task, "algorithm": options.algo, "device": jax.devices()[0].device_kind,
            "envs": options.envs, "batch": config.batch_size,
            "base": {k: v for k, v in vars(config.algo).items() if isinstance(v, (int, float))},
            "iterations": number, "of": config.iterations, "compile_s": compiled, "seconds": seconds,
            "samples_per_second": len(configs) * config.batch_size * (number - 1) / seconds,
            "columns": CURVE, "runs": runs,
        }  # fmt: skip

    number = trainer.iteration
    while number < config.iterations:
        number += 1
        enough = number == config.iterations or bool(until and time.perf_counter() > until)
        last = trainer.advance(ahead=not enough)
        if number % 10 == 0 or enough:
            for curve, record in zip(curves, last, strict=True):
                if isinstance(record, dict):
                    curve.append(row(record))
        if time.perf_counter() - shown > 15:
            shown = time.perf_counter()
            write(found(), options)  # so that a killed study leaves its results so far
            print(f"{name} {number}/{config.iterations} {found()['samples_per_second']:,.0f}/s", flush=True)
        if enough:
            break
    result = found()
    if options.episodes:
        for run, policy in zip(result["runs"], delivered(trainer, configs, options.episodes), strict=True):
            run["policy"] = policy
    trainer.close()
    return result


def delivered(trainer: DeviceTrainer, configs: list[TrainConfig], episodes: int) -> list[dict[str, Any]]:
    """[reward, J_C, standard deviation of an episode's, verdict] of each run's last policy, by kind of action."""
    states = trainer.states()
    stack = lambda trees: jax.tree.map(lambda *x: np.stack(x), *trees)
    policies = stack([state.learner.policy for state in states] * 2)
    stats = stack([state.stats for state in states] * 2)
    mean_action = np.repeat([False, True], len(states))
    specs = list(trainer.specs)
    rows = device_episodes(
        configs[0].task, specs[0].constraints, network(configs[0].algo), policies, stats, (0,), episodes, mean_action
    )
    found: list[dict[str, Any]] = [{} for _ in states]
    for entry, (is_mean, each) in enumerate(zip(mean_action, rows, strict=True)):
        run = entry % len(states)
        constraint, costs = specs[run].constraints[0], each[:, 2]
        upper, lower = bounds.upper_bound(bounds.sample(costs), 0.95), bounds.lower_bound(costs, 0.95)
        verdict = "satisfied" if upper <= constraint.limit else "violated" if lower > constraint.limit else "undecided"
        kind = "mean_action" if is_mean else "sampled"
        found[run][kind] = [float(each[:, 1].mean()), float(costs.mean()), float(costs.std(ddof=1)), verdict]
    return found


def write(found: dict[str, Any], options: argparse.Namespace) -> None:
    tag = f"-{options.tag}" if options.tag else ""
    with gzip.open(options.out / f"{found['task']}-{found['algorithm']}{tag}.json.gz", "wt") as file:
        json.dump(found, file)


def column(ends: list[dict[str, Any]], key: str) -> np.ndarray:
    return np.array([next(end[k] for k in end if k.partition("/")[0] == key) for end in ends], float)


def error(x: np.ndarray) -> float:
    """Standard error of the mean."""
    return float(np.nanstd(x, ddof=1) / np.sqrt(len(x))) if len(x) > 1 else float("nan")


def policies(found: dict[str, Any], text: str, kind: str) -> str:
    """Reward @ cost of the delivered policies, and the share that was found to satisfy the limit."""
    rows = [run["policy"][kind] for run in found["runs"] if run["setting"] == text and "policy" in run]
    if not rows:
        return "–"
    reward, cost, satisfied = (
        np.array(x) for x in zip(*[(r[0], r[1], r[3] == "satisfied") for r in rows], strict=True)
    )
    spread = f" ± {np.std(cost, ddof=1):.2f} over seeds" if len(cost) > 1 else ""
    return f"{reward.mean():.0f} ± {error(reward):.0f} @ {cost.mean():.2f}{spread}, {np.mean(satisfied):.0%} satisfied"


def table(found: dict[str, Any]) -> str:
    """Mean ± standard error over seeds, per setting."""
    lines = [
        f"{found['task']}: {found['iterations']}/{found['of']} iterations, compile {found['compile_s']:.0f} s,"
        f" {found['seconds']:.0f} s, {found['samples_per_second']:,.0f} samples/s",
        "| setting | seeds | reward | discounted cost | limit | within 2% | failed | delivered | mean action |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for text in dict.fromkeys(r["setting"] for r in found["runs"]):
        ends = [r["end"] for r in found["runs"] if r["setting"] == text]
        finished = [e for e in ends if isinstance(e, dict)]
        reward, cost, limit = (column(finished, key) for key in ("return_mean", "discounted_cost_mean", "cost_limit"))
        lines.append(
            f"| {text} | {len(finished)} | {np.nanmean(reward):.0f} ± {error(reward):.0f} | {np.nanmean(cost):.2f} ±"
            f" {error(cost):.2f} | {limit[0]:.2f} | {np.mean(cost <= 1.02 * limit):.2f} | {len(ends) - len(finished)} |"
            f" {policies(found, text, 'sampled')} | {policies(found, text, 'mean_action')} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--minibatch", type=int, default=0)
    parser.add_argument("--steps", type=parse_count, default=1_000_000)
    parser.add_argument("--algo", default="focops")
    parser.add_argument("--setting", action="append", help="name=value,name=value; `base` for the preset; repeat")
    parser.add_argument("--episodes", type=int, default=400, help="fresh episodes of the delivered policies")
    parser.add_argument("--until", type=float, default=0, help="stop a task after this many seconds, with what it has")
    parser.add_argument("--tag", default="", help="suffix of the file's name, to distinguish studies of one task")
    parser.add_argument("--out", type=Path, default=Path("results/gpu/raw"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.tasks:
        found = study(name, options)
        write(found, options)
        print(table(found), flush=True)


if __name__ == "__main__":
    main()
