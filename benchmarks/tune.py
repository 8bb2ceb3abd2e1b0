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
from focops.config import default_config
from focops.studies.results import read
from focops.tuning import space as spaces
from focops.tuning.search import Outcome, Search, Trial, mean

TASK, STEPS, TRIALS, FRESH = "HalfCheetahSpeed", "200k", 30, "10..14"
BASE, PAGE = Path("runs/tune"), Path("results/tune.md")
SEARCH = BASE / "search"
START = "--algo.temperature 30 --algo.policy-rate 3e-5"
COMMAND = f"focops tune {TASK} --trials {TRIALS} --steps {STEPS} {START} --out {SEARCH}"


def measure() -> None:
    """Search; then train the best setting and the default on fresh seeds."""
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
    states, found, first = Counter(trial.state for trial in trials()), best(), trials()[0].outcome
    within = sum(trial.outcome is not None and trial.outcome.worst == 0 for trial in trials())
    settings = ", ".join(f"`{name}` {value}" for name, value in found["settings"].items())
    assert first is not None
    default = default_config(f"{TASK}-v0").algo
    lines = [
        "# A search from a bad start",
        "",
        f"`focops tune` began at temperature 30 (default {default.temperature:g}) and policy-rate 3e-5 (default"
        f" {default.policy_rate:g}) on {TASK}, {STEPS}"
        f" samples and one seed a trial. That start has a return of {first.reward:.0f}. Of {sum(states.values())}"
        f" trials {states['done']} were trained to their end, {within} of them within the limit;"
        f" {states['pruned']} were given up, {states['failed']} failed. The best, trial {found['trial']}, has a"
        f" return of {found['return']:.0f} on its seed, with {settings}.",
        "",
        f"It and the default on seeds {FRESH}, which the search never used:",
        "",
        "| setting | return of the delivered policy | cost (limit) | within the limit |",
        "|---|---|---|---|",
        *(_row(name, runs) for name, runs in _delivered().items()),
        "",
        f"Mean ± standard deviation over seeds; {_episodes()} episodes each, with sampled actions. {_verdict()}",
        "",
        "```sh",
        COMMAND,
        "python benchmarks/tune.py            # the same, and the fresh seeds",
        "python benchmarks/tune.py --table    # this page",
        "```",
    ]
    PAGE.write_text("\n".join(lines) + "\n")


def _delivered() -> dict[str, list[Outcome]]:
    """What was found of the policies of each setting."""
    found = {name: read([BASE / name]).runs for name in compared()}
    return {
        name: [
            Outcome(run.delivered.reward, run.delivered.costs, {c.name: c.limit for c in run.constraints})
            for run in runs
            if run.delivered is not None
        ]
        for name, runs in found.items()
    }


def _episodes() -> int:
    """Of each policy."""
    (number,) = {run.delivered.episodes for name in compared() for run in read([BASE / name]).runs if run.delivered}
    return number


def _row(name: str, runs: list[Outcome]) -> str:
    rewards, costs = [run.reward for run in runs], [run.costs["speed"] for run in runs]
    spread = [f"{statistics.mean(each):.1f} ± {statistics.stdev(each):.1f}" for each in (rewards, costs)]
    kept = f"{sum(run.worst == 0 for run in runs)} of {len(runs)}"
    return f"| {name} | {spread[0]} | {spread[1]} ({runs[0].limits['speed']:.1f}) | {kept} |"


def _verdict() -> str:
    """Feasible first, then return: the search's own criterion, on the means over seeds."""
    runs = _delivered()
    means = {name: mean(each) for name, each in runs.items()}
    squared = [statistics.variance([run.reward for run in each]) / len(each) for each in runs.values()]
    difference, error = means["best"].reward - means["default"].reward, sum(squared) ** 0.5
    kept = {name: "within" if each.worst == 0 else "over" for name, each in means.items()}
    reaches = "is as good as" if difference >= -error else "**does not reach**"
    order = (means["best"].worst, -means["best"].reward) <= (means["default"].worst, -means["default"].reward)
    return (
        f"In return the setting that was found {reaches} the default: {difference:+.0f} ± {error:.0f} (standard error)."
        f" By what the search optimises, limits first, it is {'better' if order else 'worse'}; its mean cost is"
        f" {kept['best']} the limit, the default's is {kept['default']} the limit."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="write the page")
    if parser.parse_args().table:
        write()
    else:
        measure()
