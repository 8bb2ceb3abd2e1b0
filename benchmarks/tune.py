"""A search from a deliberately bad start, and its best setting beside the default on seeds that it never used.

python benchmarks/tune.py            # searches and trains under runs/tune; if it is killed, the same goes on
python benchmarks/tune.py --table    # writes results/tune.md from what is there
"""

import argparse
import json
import shlex
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

from focops import cli
from focops.cli import arguments
from focops.studies.results import read
from focops.tuning import space as spaces
from focops.tuning.search import Search, Trial

TASK, STEPS, TRIALS, FRESH = "HalfCheetahSpeed", "200k", 30, "10..14"
BASE, PAGE = Path("runs/tune"), Path("results/tune.md")
SEARCH = BASE / "search"
START = "--algo.temperature 30 --algo.policy-rate 3e-5"
COMMAND = f"focops tune {TASK} --trials {TRIALS} --steps {STEPS} {START} --out {SEARCH}"


def measure() -> None:
    """Search; then train the best setting, the default and the start on fresh seeds."""
    _run(shlex.split(COMMAND)[1:])
    for name, words in compared().items():
        out = BASE / name
        begun = ["resume", str(out)] if (out / "grid.json").exists() else ["train", *words, "--out", str(out)]
        _run([*begun, "--quiet"])


def _run(words: list[str]) -> None:
    status = cli.main(words)
    if status:
        raise SystemExit(status)


def compared() -> dict[str, list[str]]:
    """The settings, each as words of `focops train`."""
    words = {
        "default": [TASK, "--steps", STEPS],
        "best": shlex.split(best()["command"])[2:],
        "start": [TASK, "--steps", STEPS, *START.split()],
    }
    return {name: [*each, "--seeds", FRESH] for name, each in words.items()}


def best() -> dict[str, Any]:
    return json.loads((SEARCH / "best.json").read_text())


def trials() -> list[Trial]:
    found = json.loads((SEARCH / "tune.json").read_text())
    config = arguments.parse(shlex.split(found["command"])[2:]).config
    return Search(SEARCH, spaces.parse(found["search"], config), 0, None).trials


def write() -> None:
    """results/tune.md."""
    rewards = {name: [run.delivered.reward for run in read([BASE / name]).runs if run.delivered] for name in compared()}
    error = {name: statistics.stdev(each) / len(each) ** 0.5 for name, each in rewards.items()}
    difference = statistics.mean(rewards["best"]) - statistics.mean(rewards["default"])
    deviation = (error["best"] ** 2 + error["default"] ** 2) ** 0.5
    states, found = Counter(trial.state for trial in trials()), best()
    within = sum(trial.outcome is not None and trial.outcome.worst == 0 for trial in trials())
    settings = ", ".join(f"`{name}` {value}" for name, value in found["settings"].items())
    reached = "at least as good as" if difference >= -deviation else "worse than"
    lines = [
        "# A search finds its way from a bad start",
        "",
        f"`focops tune` began at temperature 30 (default 1.5) and policy-rate 3e-5 (default 3e-4) on {TASK}, {STEPS}"
        f" samples and one seed a trial. Of {sum(states.values())} trials {states['done']} were trained to their end,"
        f" {within} of them within the limit, {states['pruned']} were given up and {states['failed']} failed. The best,"
        f" trial {found['trial']}, has {settings}.",
        "",
        f"On seeds {FRESH}, which the search never used, the best setting is **{reached} the default**: its return is"
        f" {difference:+.0f} ± {deviation:.0f} (standard error of the difference) beside it.",
        "",
        "| setting | return of the delivered policy | cost, limit | within the limit |",
        "|---|---|---|---|",
        *(_row(name) for name in compared()),
        "",
        "Mean ± standard deviation over seeds; 50 episodes each, with sampled actions.",
        "",
        "```sh",
        COMMAND,
        "python benchmarks/tune.py            # the same, and the fresh seeds",
        "python benchmarks/tune.py --table    # this page",
        "```",
    ]
    PAGE.write_text("\n".join(lines) + "\n")


def _row(name: str) -> str:
    runs = read([BASE / name]).runs
    found = [run.delivered for run in runs if run.delivered]
    rewards, costs = [each.reward for each in found], [each.costs["speed"] for each in found]
    limit = runs[0].constraints[0].limit
    kept = f"{sum(cost <= limit for cost in costs)} of {len(costs)}"
    spread = [f"{statistics.mean(each):.1f} ± {statistics.stdev(each):.1f}" for each in (rewards, costs)]
    return f"| {name} | {spread[0]} | {spread[1]}, {limit:.1f} | {kept} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="write the page")
    if parser.parse_args().table:
        write()
    else:
        measure()
