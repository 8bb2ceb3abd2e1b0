"""Packs finished runs into one small file: settings, summaries, evaluations and thinned curves, without checkpoints.

    python benchmarks/pack.py runs/learning results/learning/runs.tar.xz
    tar -xf results/learning/runs.tar.xz -C /tmp && focops report /tmp/learning        # what can be made of it again

Of the curves about `--records` records stay, the last one among them, with what a report draws. `--policies` keeps the
policies too. Nothing in it names the machine. Runs that are not finished are left out; what was packed before can be
packed again.
"""

import argparse
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

from focops.runs.directory import RunDirectory
from focops.runs.portable import portable_files

KEPT = ("iteration", "samples", "steps", "elapsed_s", "return_mean", "kl", "entropy")
KEPT_OF_EACH = ("discounted_cost_mean", "cost_limit", "cost_aim", "nu")
"""Of each constraint."""
PLAIN = ("config.json", "summary.json")
"""Of a run that was packed before, without its policy."""


def packed(base: Path, match: str, records: int, policies: bool) -> Iterator[tuple[str, bytes]]:
    """The names below `base` and the contents of all files."""
    for file in sorted([*base.rglob("grid.json"), *base.rglob("study.json")]):
        yield str(file.relative_to(base)), file.read_bytes()
    for file in sorted(base.rglob("evaluated-*.json")):
        found = [each | {"run": Path(each["run"]).name} for each in json.loads(file.read_bytes())]
        yield str(file.relative_to(base)), json.dumps(found, indent=2).encode()
    for config in sorted(base.rglob(f"{match}/config.json")):
        run = RunDirectory(config.parent)
        if run.summary is None or not run.summary["finished"]:
            print(f"not finished: {run.path}")
            continue
        files = portable_files(run) if run.policy.is_dir() else {name: (run.path / name).read_bytes() for name in PLAIN}
        files |= {"metrics.jsonl": thinned(config.parent / "metrics.jsonl", records)}
        for name, data in files.items():
            if policies or not name.startswith("policy/"):
                yield str(config.parent.relative_to(base) / name), data


def thinned(file: Path, records: int) -> bytes:
    all_of_them = file.read_bytes().splitlines()
    every = -(-len(all_of_them) // records)
    left = [json.loads(line) for line in [*all_of_them[every - 1 : -1 : every], all_of_them[-1]]]
    lines = [json.dumps({name: short(value) for name, value in record.items() if kept(name)}) for record in left]
    return "\n".join([*lines, ""]).encode()


def kept(name: str) -> bool:
    return name in KEPT or name.partition("/")[0] in KEPT_OF_EACH


def short(value: float | None) -> float | None:
    """Five digits are more than a curve shows."""
    return float(f"{value:.5g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="a run, a grid or a folder of grids")
    parser.add_argument("file", type=Path, help="NAME.tar.xz")
    parser.add_argument("--match", default="*", metavar="GLOB", help="only runs of such names, as AntSpeed,*")
    parser.add_argument("--records", type=int, default=62)
    parser.add_argument("--policies", action="store_true")
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(options.file, "w:xz") as tar:
        for name, data in packed(options.runs, options.match, options.records, options.policies):
            entry = tarfile.TarInfo(f"{options.runs.name}/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    print(f"{options.file}: {options.file.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
