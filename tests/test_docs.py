"""What the pages list is what there is; the notebooks run."""

import ast
import dataclasses
import functools
import json
import re
from pathlib import Path
from typing import Any

import jax
import nbclient
import nbformat
import numpy as np
import pytest

import focops
from focops.algorithms import ALGORITHMS
from focops.config import default_config
from focops.envs.tasks.families import ANY, CIRCLE, HUMANOID_SPEED, SPEED
from focops.studies.definition import builtin
from focops.training.iteration import Report, record
from tests.algorithms.cases import START, STATS, rollout, spec

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NOTEBOOKS = sorted(DOCS.glob("notebooks/*.ipynb"))
BUDGETS = [
    (r"steps=\d+_000", "steps=2048"),
    (r"\bout=", "final_episodes=2, batch_size=1024, out="),
    (r"final_episodes=0,", ""),
]
"""How a notebook is made short: the same program, for two small batches."""
FAMILIES = [(f.both, f.paper, f.fast, f.fast_mjx) for f in (ANY, SPEED, HUMANOID_SPEED, CIRCLE)]
OF_THE_LOOP = {"samples_per_second", "elapsed_s"}
"""Written by the loop around the iterations."""


def rows(page: str) -> list[list[str]]:
    """The cells of every table of a page."""
    lines = [line for line in (DOCS / page).read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if "---" not in line]


def names_in(file: Path) -> set[str]:
    """Functions, classes, methods and variables that a file defines."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def mapped() -> list[tuple[str, str]]:
    """(file, name) of each row of the map from the paper."""
    return [(row[-2].strip("`"), row[-1].strip("`")) for row in rows("paper-map.md") if row[-2].endswith(".py`")]


@pytest.mark.parametrize("file", sorted({file for file, _ in mapped()}))
def test_the_map_from_the_paper_names_what_exists(file: str) -> None:
    path = ROOT / file if file.startswith("tests/") else ROOT / "src/focops" / file
    assert {name for each, name in mapped() if each == file} <= names_in(path)


def test_the_page_of_the_presets_names_all_that_they_set() -> None:
    names = {name.split(".")[-1] for each in FAMILIES for column in each for name in column}
    assert {name for name in names if f"`{name}`" not in (DOCS / "focops.md").read_text()} == set()


def test_the_map_has_every_study_of_the_paper() -> None:
    found = {row[1].strip("`") for row in rows("paper-map.md") if len(row) == 2}
    assert found - {"study"} == set(builtin()) - {"velocity"}


def test_the_map_has_every_equation_of_the_paper() -> None:
    found = set()
    for row in rows("paper-map.md"):
        if len(row) == 4:
            for first, last in re.findall(r"\b(\d+)(?:–(\d+))?", row[0].replace("Theorem 1", "")):
                found |= set(range(int(first), int(last or first) + 1))
    assert found == set(range(1, 34))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> focops.Run:
    """A run of one small batch."""
    small = dict(minibatch_size=64, epochs=1, hidden=(4,), steps=64, batch_size=64, num_envs=8, final_episodes=2)
    return focops.train("PointCircle", out=tmp_path_factory.mktemp("metrics") / "run", **small)


def names_of_an_iteration(algo: str) -> set[str]:
    """The names in the record of an algorithm's update, which is not computed: its shapes are enough."""
    config = default_config("PointCircle", algo)
    config = dataclasses.replace(config, algo=ALGORITHMS[algo].Config(limits=(1.0, 2.0), cost_discounts=(0.99, 0.9)))
    two, key = spec(False), jax.random.key(0)
    init, update = (
        functools.partial(getattr(ALGORITHMS[algo], name), config=config.algo) for name in ("init", "update")
    )
    state = jax.eval_shape(lambda: init(key, two))
    _, info = jax.eval_shape(lambda s: update(key, s, rollout(False), STATS, START), state)
    info = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), info)
    found = record(config, two, 1, Report(info, np.True_, np.zeros(6), np.int32(1)), 0)
    first, second = (c.name for c in two.constraints)
    return {name.replace(f"/{first}", "/NAME") for name in found if not name.endswith(f"/{second}")}


def flat(summary: dict[str, Any], before: str = "") -> list[str]:
    names = []
    for name, value in summary.items():
        name = before + name.replace("outside", "NAME")
        names += flat(value, name + ".") if isinstance(value, dict) else [name]
    return names


def listed(heading: str) -> dict[str, str]:
    """The names of a part of the page, with their meaning."""
    part = (DOCS / "metrics.md").read_text().split(f"## {heading}")[1].split("\n## ")[0]
    lines = [line.split("|")[1:3] for line in part.splitlines() if line.startswith("| `")]
    return {name: meaning for names, meaning in lines for name in re.findall(r"`([^`]+)`", names)}


def test_the_page_of_metrics_has_what_a_run_writes(run: focops.Run) -> None:
    found = json.loads((run.path / "metrics.jsonl").read_text().splitlines()[0])
    names = {name.replace("/outside", "/NAME") for name in found}
    assert names == names_of_an_iteration("focops") | OF_THE_LOOP
    assert names <= set(listed("metrics.jsonl"))


def test_the_page_of_metrics_has_what_every_algorithm_writes() -> None:
    page = listed("metrics.jsonl")
    written = {algo: names_of_an_iteration(algo) for algo in ALGORITHMS}
    assert set(page) == set.union(OF_THE_LOOP, *written.values())
    for name, meaning in page.items():  # those of some algorithms name them
        having = {algo for algo, names in written.items() if name in names | OF_THE_LOOP}
        if having != set(ALGORITHMS):
            assert {word for word in re.findall(r"`(\w+)`", meaning) if word in ALGORITHMS} == having, name


def test_the_page_of_metrics_has_what_a_summary_holds(run: focops.Run) -> None:
    found = set(flat(json.loads((run.path / "summary.json").read_text())))
    assert {name for name in found if ".mean_action." in name}
    page = set(listed("summary.json")) - {"policy", "policy.sampled", "policy.mean_action"}
    assert page == {name.replace("mean_action", "sampled") for name in found}


def test_the_api_page_has_every_public_name() -> None:
    assert sorted(re.findall(r"^::: focops\.(\w+)", (DOCS / "api.md").read_text(), re.MULTILINE)) == focops.__all__


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(file, as_version=4)
    assert all(cell.get("execution_count") for cell in notebook.cells if cell.cell_type == "code"), "not executed"
    for cell in notebook.cells:
        for pattern, short in BUDGETS:
            cell.source = re.sub(pattern, short, cell.source)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    nbclient.NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(tmp_path)}}).execute()
