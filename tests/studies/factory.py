"""Run directories as `focops train` leaves them, without training: curves that learn and settle at their limit."""

import json
from pathlib import Path
from typing import Any

import numpy as np

LIMIT = 20.0


def make_run(
    path: Path,
    *,
    task: str = "HopperSpeed-v0",
    algorithm: str = "focops",
    seed: int = 0,
    reward: float = 1000.0,
    cost: float = 19.0,
    constraints: dict[str, float] | None = None,
    iterations: int = 40,
    done: int | None = None,
    algo: dict[str, Any] | None = None,
    evaluated: bool = True,
    **settings: Any,
) -> Path:
    """A run that ends near `reward` and `cost`; with `done` below `iterations` it is still in progress."""
    limits = {"speed": LIMIT} if constraints is None else constraints
    done = iterations if done is None else done
    path.mkdir(parents=True)
    config = {
        "format": 1, "algo": {"temperature": 1.5, "nu_max": 2.0, "hidden": [64, 64]} | (algo or {}),
        "algorithm": algorithm, "task": task, "preset": "fast", "steps": 2048 * iterations, "seed": seed,
        "cost_limit": None, "cost_discount": None, "num_envs": 32, "threads": 1, "out": str(path),
        "versions": {"python": "3.11.7", "focops": "0.1.0", "jax": "0.10.2"},
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config | settings))
    records = _records(limits, iterations, done, reward, cost, np.random.default_rng([seed, len(task), len(algorithm)]))
    (path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    if done == iterations:
        (path / "summary.json").write_text(json.dumps(_summary(config, records[-1], limits, evaluated)))
    return path


def make_grid(base: Path, seeds: int = 4, **options: Any) -> Path:
    """A grid of seeds whose ends differ."""
    reward, cost = options.pop("reward", 1000.0), options.pop("cost", 19.0)
    spread = np.random.default_rng(len(base.name)).normal(0, 1, (seeds, 2))
    for seed, (up, costly) in enumerate(spread):
        own = {"reward": reward * (1 + 0.06 * up), "cost": cost * (1 + 0.03 * costly)}
        make_run(base / f"seed={seed}", seed=seed, **own, **options)
    return base


def _records(
    limits: dict[str, float], iterations: int, done: int, reward: float, cost: float, rng: np.random.Generator
) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    nu = wobble = 0.0
    for i in range(1, done + 1):
        share, wobble = i / iterations, 0.8 * wobble + rng.normal(0, 0.02)
        known = i > 2  # no episode has ended before
        over = 1 + 0.35 * np.exp(-((share - 0.25) ** 2) / 0.01) - 0.8 * np.exp(-12 * share)
        now = cost * over * (1 + wobble / 3)
        nu = min(2.0, max(0.0, nu + 0.02 * (now - next(iter(limits.values()), 0.0))))
        record = {
            "iteration": i, "iterations": iterations, "samples": 2048 * i, "steps": 2048 * iterations,
            "return_mean": reward * (1 - np.exp(-6 * share)) * (1 + wobble) if known else None,
            "kl": 0.012 + rng.normal(0, 0.001), "samples_per_second": 10000.0, "elapsed_s": 0.2 * i,
        }  # fmt: skip
        for k, (name, limit) in enumerate(limits.items()):
            record[f"discounted_cost_mean/{name}"] = now * (1 + k) if known else None
            record[f"undiscounted_cost_mean/{name}"] = 12 * now if known else None
            record[f"cost_limit/{name}"] = limit
            record[f"nu/{name}"] = nu
        records.append(record)
    return records


def _summary(config: dict[str, Any], last: dict[str, Any], limits: dict[str, float], evaluated: bool) -> dict[str, Any]:
    costs = {name: last[f"discounted_cost_mean/{name}"] for name in limits}
    found = {
        "episodes": 100,
        "reward": 1.01 * last["return_mean"],
        "discounted_cost": {name: 0.99 * value for name, value in costs.items()},
        "verdict": {name: "satisfied" if costs[name] <= limits[name] else "violated" for name in limits},
    }
    return {
        "task": config["task"], "algo": config["algorithm"], "seed": config["seed"], "steps": last["steps"],
        "finished": True, "return_mean": last["return_mean"], "discounted_cost_mean": costs, "cost_limit": limits,
        "cost_discount": dict.fromkeys(limits, 0.99), "policy": {"sampled": found} if evaluated else None,
    }  # fmt: skip
