"""The paper's studies of the six speed tasks as one grid: on an accelerator, runs of several studies share a program.

    python benchmarks/paper.py begin runs/paper                # writes grid.json; nothing is trained yet
    focops resume runs/paper --jobs 8                          # trains it, or goes on where it was stopped
    python benchmarks/paper.py split runs/paper runs/studies   # a folder for each study, as `focops study` makes it

Seeds: 32 of FOCOPS, 16 of the other algorithms, 10 of PPO and of each threshold, 3 at each λ and ν_max. Thresholds
need what PPO costs: `begin` again once its runs are finished, and what is known of a task by then is added.
"""

import argparse
import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from focops.cli import grid_runs, study_limits, study_runs
from focops.runs.directory import RunDirectory
from focops.runs.files import write_json
from focops.studies import definition
from focops.studies.definition import Point, Study

HEAVY, LIGHT = ("HumanoidSpeed", "AntSpeed"), ("Walker2dSpeed", "HopperSpeed", "SwimmerSpeed", "HalfCheetahSpeed")
SEEDS = {"focops": "0..31", "ppo": "0..9"} | dict.fromkeys(("ppo_lagrangian", "trpo_lagrangian", "cpo"), "0..15")
SENSITIVITY = {"lambda": ("focops",), "nu-max": ("focops", "ppo_lagrangian", "trpo_lagrangian")}
"""By study, its algorithms."""


def study(name: str, algorithm: str) -> Study:
    """The part of a study that is of one algorithm, with the preset `fast`."""
    found = definition.narrowed(definition.load(name), algorithms=(algorithm,), preset="fast")
    return dataclasses.replace(found, seeds=SEEDS[algorithm]) if name == "speed-limit" else found


def points(name: str, algorithm: str, tasks: Sequence[str], costs: Mapping[str, list[float]]) -> list[Point]:
    found = dataclasses.replace(study(name, algorithm), tasks=tuple(tasks))
    return study_runs.points_of(found, "mjx", dict(costs) if found.limit_shares else None)


def parts(costs: Mapping[str, list[float]]) -> list[tuple[str, list[Point]]]:
    """(study, runs), in the order in which they are to be trained: what takes longest first."""
    found = []
    for tasks in (HEAVY, LIGHT):
        for algorithm in ("focops", "ppo", "ppo_lagrangian", "trpo_lagrangian", "cpo"):
            found.append(("speed-limit", points("speed-limit", algorithm, tasks, costs)))
            found += [
                (name, points(name, algorithm, tasks, costs)) for name, of in SENSITIVITY.items() if algorithm in of
            ]
        known = [task for task in tasks if task in costs]
        found += [("thresholds", points("thresholds", "focops", known, costs))] if known else []
    return found


def names_of_ppo() -> dict[str, list[str]]:
    """By task."""
    names: dict[str, list[str]] = {}
    for point in points("speed-limit", "ppo", (*HEAVY, *LIGHT), {}):
        names.setdefault(point.words[0], []).append(point.name)
    return names


def begin(base: Path) -> None:
    base.mkdir(parents=True, exist_ok=True)
    known = grid_runs.read(base) if (base / "grid.json").is_file() else {}
    costs = study_limits.measured(base, definition.load("thresholds"), names_of_ppo())
    planned = {point.name: ["train", *point.words] for _, part in parts(costs) for point in part}
    grid_runs.write(base, known | planned)
    print(f"{len(planned)} runs, of which {len(planned.keys() - known.keys())} are new, in {base}")


def split(base: Path, out: Path) -> None:
    """Copies what is finished."""
    costs = study_limits.measured(base, definition.load("thresholds"), names_of_ppo())
    for name in ("speed-limit", *SENSITIVITY, "thresholds"):
        own = [point for study_name, part in parts(costs) if study_name == name for point in part]
        own = [point for point in own if RunDirectory(base / point.name).is_complete()]
        if name == "thresholds":  # and what their limits were measured on
            own += [
                p for p in points("speed-limit", "ppo", list(costs), {}) if RunDirectory(base / p.name).is_complete()
            ]
        for point in own:
            shutil.copytree(base / point.name, out / name / point.name, dirs_exist_ok=True)
        grid_runs.write(out / name, {point.name: ["train", *point.words] for point in own})
        write_json(
            out / name / "study.json", dataclasses.asdict(definition.narrowed(definition.load(name), preset="fast"))
        )
        print(f"{len(own)} runs in {out / name}")
    shutil.copy(base / "limits.json", out / "thresholds")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("begin").add_argument("base", type=Path, metavar="DIR")
    splitting = commands.add_parser("split")
    splitting.add_argument("base", type=Path, metavar="DIR")
    splitting.add_argument("out", type=Path, metavar="OUT")
    options = parser.parse_args()
    begin(options.base) if options.command == "begin" else split(options.base, options.out)
