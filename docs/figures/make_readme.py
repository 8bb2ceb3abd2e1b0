"""The picture of the README:  MUJOCO_GL=egl python docs/figures/make_readme.py

Trains FOCOPS, as `focops train` does, and PPO, which knows no constraint, and draws the FOCOPS agent beside what both
cost. Runs in runs/readme-* are used again.
"""

import json
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib.pyplot as plt
import mujoco
import numpy as np

import focops

TASK, STEPS, SEED = "HalfCheetahSpeed", 1_000_000, 0
BLUE, ORANGE = "#0072B2", "#D55E00"  # of Okabe and Ito


def trained(algo: str) -> focops.Run:
    out = Path(f"runs/readme-{algo}")
    if (out / "summary.json").exists():
        return focops.Run(out, json.loads((out / "summary.json").read_text()))
    return focops.train(TASK, algo=algo, steps=STEPS, seed=SEED, out=out)


def curve(run: focops.Run, name: str) -> np.ndarray:
    records = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    return np.array([[record["samples"] / 1000, record[name]] for record in records], float).T


def frame(run: focops.Run, step: int) -> np.ndarray:
    """The robot at a step of an episode, from the side."""
    env: Any = gymnasium.make(f"focops/{TASK}-v0").unwrapped
    policy, (obs, _) = focops.load(run.path), env.reset(seed=SEED)
    for _ in range(step):
        obs, *_ = env.step(policy.predict(obs))
    camera = mujoco.MjvCamera()
    camera.type, camera.trackbodyid = mujoco.mjtCamera.mjCAMERA_TRACKING, env.model.body("torso").id
    camera.distance, camera.azimuth, camera.elevation = 3.2, 90, -12
    with mujoco.Renderer(env.model, 440, 600) as renderer:
        renderer.update_scene(env.data, camera)
        return renderer.render()


def main() -> None:
    runs = {algo: trained(algo) for algo in ("focops", "ppo")}
    limit = runs["focops"].summary["cost_limit"]["speed"]
    figure, (left, axes) = plt.subplots(1, 2, figsize=(10, 3.1), width_ratios=(0.72, 1), layout="constrained")
    left.imshow(frame(runs["focops"], 215))
    left.set_axis_off()
    axes.plot(*curve(runs["ppo"], "cost_return_estimate/speed"), color=ORANGE, label="PPO, no constraint")
    axes.plot(*curve(runs["focops"], "cost_return_estimate/speed"), color=BLUE, label="FOCOPS")
    axes.axhline(limit, color="black", linestyle="--", linewidth=1, label=f"limit {limit:.0f}")
    delivered = runs["focops"].summary["policy"]["sampled"]
    low, high = delivered["discounted_cost_interval"]["speed"]
    cost = delivered["discounted_cost"]["speed"]
    axes.errorbar(
        [STEPS / 1000], [cost], [[cost - low], [high - cost]], fmt="o", color=BLUE, clip_on=False, zorder=5,
        label="the delivered policy, on fresh episodes",
    )  # fmt: skip
    axes.set(xlabel="thousand samples", ylabel="J_C, cost of an episode", ylim=(0, None), xlim=(0, STEPS / 1000))
    axes.legend(frameon=False, loc=(0.4, 0.03))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig("docs/figures/readme.png", dpi=110)
    print({algo: run.summary["policy"]["sampled"]["discounted_cost"] for algo, run in runs.items()})


if __name__ == "__main__":
    main()
