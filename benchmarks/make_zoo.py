"""Makes the policies that come with focops (`focops zoo`): for each task several seeds, of which the best is kept.

    python benchmarks/make_zoo.py                                        # all tasks; resumes if it was interrupted
    python benchmarks/make_zoo.py HopperSpeed --steps 300k --seeds 0,1   # flags of `focops train` may follow
    python benchmarks/make_zoo.py HopperSpeed --trained runs/learning/focops    # of a study that has trained it
    python benchmarks/make_zoo.py --cards                                # the cards anew: their commands name what a
                                                                         # preset has no more

The best has the highest reward of those whose limits are satisfied by the evaluation at the end of training. It is
judged by other episodes, and those are the figures in its card; if they do not satisfy the limits with sampled and with
mean actions, the next best is tried. Where none does, the one that comes nearest is kept, and its card says so.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import focops
from focops import cli, zoo
from focops.cli.model_card import Card, content
from focops.display.summary import ACTING, VERDICTS, verdict
from focops.envs.tasks import CIRCLE_TASKS, SPEED_TASKS, VELOCITY_TASKS
from focops.evaluation.final import described
from focops.runs import checkpoint
from focops.runs.directory import RunDirectory, runs_in
from focops.runs.files import write_atomically
from focops.runs.policy_file import FILE
from focops.runs.portable import portable_files

BEST, ONLY = "It is the best of", "It is of the only seed"
"""How the note in a card begins that says of how many seeds a policy is."""
SEED = 2
"""Of the episodes that a chosen policy is judged by; those at the end of training have 0 and 1."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK")
    parser.add_argument("--steps", default="", help="default: the task's own")
    parser.add_argument("--seeds", default="0..2", help="at least two")
    parser.add_argument("--episodes", type=int, default=200, help="that a chosen policy is judged by")
    parser.add_argument("--runs", type=Path, default=Path("runs/zoo"), help="where they are trained")
    parser.add_argument("--trained", type=Path, help="a finished study; nothing is trained")
    parser.add_argument("--zoo", type=Path, default=zoo.HOME)
    parser.add_argument("--cards", action="store_true", help="only write the cards of what is in the zoo")
    options, more = parser.parse_known_args()
    if options.cards:
        for home in sorted(each.parent for each in options.zoo.glob("*/README.md")):
            rewrite_card(home)
        return
    for task in options.tasks or [task.name for task in (*SPEED_TASKS, *CIRCLE_TASKS, *VELOCITY_TASKS)]:
        name = task.removesuffix("-v0")
        grid = options.trained or options.runs / f"{name}-{options.steps or 'own'}-{options.seeds}"
        if not options.trained:
            train(name, grid, [*(["--steps", options.steps] if options.steps else []), "--seeds", options.seeds, *more])
        runs = [run for run in runs_in(grid) if trained_with(run) == (f"{name}-v0", "focops")]
        run, evaluation = best(runs, options.episodes)
        chosen = f"{BEST} {len(runs)} seeds, chosen by other episodes than these."
        store(run, evaluation, options.zoo / name, chosen if len(runs) > 1 else f"{ONLY} that was trained.")
        print(f"zoo:{name}: {run}, reward {evaluation['sampled']['reward']:.1f}, {verdicts(evaluation)}", flush=True)


def train(task: str, grid: Path, words: list[str]) -> None:
    """All seeds to their end, also those that were begun by an earlier call."""
    begun = (grid / "grid.json").is_file()
    command = ["resume", str(grid)] if begun else ["train", task, *words, "--out", str(grid)]
    if cli.main(command):
        sys.exit(f"focops {' '.join(command)} failed")


def trained_with(run: Path) -> tuple[str, str]:
    """The task and the algorithm."""
    config = RunDirectory(run).config
    return config.task, config.algorithm


def best(runs: Sequence[Path], episodes: int) -> tuple[Path, dict[str, Any]]:
    """The run to keep, and what was found of it on fresh episodes."""
    judged = []
    at_the_end = lambda run: rank(json.loads((run / "summary.json").read_bytes())["policy"])
    for run in sorted(runs, key=at_the_end):
        how = {"episodes": episodes, "seeds": [SEED]}
        found = described(focops.evaluate(run, **how), focops.evaluate(run, **how, deterministic=True))
        judged.append((rank(found), run, found))
        if verdicts(found) == ["satisfied", "satisfied"]:
            break
    _, run, found = min(judged, key=lambda each: each[0])
    return run, found


def rank(evaluation: dict[str, Any]) -> tuple[Any, ...]:
    """Smaller is better: verdicts with sampled and with mean actions, then reward."""
    return *map(list(VERDICTS).index, verdicts(evaluation)), -evaluation["sampled"]["reward"]


def verdicts(evaluation: dict[str, Any]) -> list[str]:
    return [verdict(evaluation[acting]) for acting in ACTING]


def store(run: Path, evaluation: dict[str, Any], home: Path, note: str) -> None:
    """Put what is published of a run into the zoo, with this evaluation and its card."""
    files = portable_files(RunDirectory(run))
    policy = f"policy/{FILE}"
    arrays, meta = checkpoint.deserialize(files[policy], policy, "policy")
    summary = json.loads(files["summary.json"])
    evaluation |= {"chosen_from": summary["policy"].get("chosen_from", 1)}
    files[policy] = checkpoint.serialize(arrays, meta | {"evaluation": evaluation})
    satisfied = {"satisfied": True, "violated": False}.get(verdict(evaluation["sampled"]))
    summary |= {"policy": evaluation, "satisfied": satisfied, "evaluation_s": None}
    files["summary.json"] = json.dumps(summary, indent=2, ensure_ascii=False).encode() + b"\n"
    (home / "policy").mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_atomically(home / name, data)
    write_card(home, evaluation, note)


def write_card(home: Path, evaluation: dict[str, Any], note: str) -> None:
    card = Card(RunDirectory(home), evaluation, f"zoo:{home.name}", note=note)
    write_atomically(home / "README.md", content(card).encode())


def rewrite_card(home: Path) -> None:
    (note,) = re.findall(f"(?:{BEST}|{ONLY}) .*", (home / "README.md").read_text())
    write_card(home, json.loads((home / "summary.json").read_bytes())["policy"], note)


if __name__ == "__main__":
    main()
