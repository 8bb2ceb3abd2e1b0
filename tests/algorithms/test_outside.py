"""An algorithm from outside the package trains by its name, and nothing in the package is edited."""

import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints

import pytest

import focops
from focops import algorithms, cli
from focops.config import default_config
from focops.core import registry
from focops.errors import UsageError
from focops.runs.directory import RunDirectory
from tests.algorithms import outside

TINY = "--steps 128 --batch-size 64 --num-envs 4 --algo.minibatch-size 32 --algo.hidden 4 --final-episodes 0 --quiet"


@pytest.fixture
def clean() -> Iterator[None]:
    yield
    algorithms.ALGORITHMS.loaded.pop("fixed_price", None)


def install(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    points = EntryPoints([EntryPoint("fixed_price", value, "focops.algorithms")])
    monkeypatch.setattr(registry, "entry_points", lambda group: points.select(group=group))


def require_that_it_trains(out) -> None:
    words = f"train PointCircle --algo fixed_price --algo.price 0.5 {TINY} --out {out}"
    assert cli.main(words.split()) == 0
    config = RunDirectory.open(out, lock=False).config
    assert (config.algorithm, config.algo.price, type(config.algo)) == ("fixed_price", 0.5, outside.Config)
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 2
    assert focops.resume(out, steps=192).summary["steps"] == 192
    assert focops.load(out).predict([0.0] * 4).shape == (2,)


def test_one_registered_in_python_trains_by_its_name(tmp_path, clean, capsys):
    algorithms.register("fixed_price", outside)
    algorithms.register("fixed_price", outside)
    require_that_it_trains(tmp_path / "run")
    assert cli.main(["algos"]) == 0
    assert "fixed_price" in capsys.readouterr().out


def test_one_of_an_installed_package_trains_by_its_name(tmp_path, clean, monkeypatch):
    install(monkeypatch, "tests.algorithms.outside")
    assert "fixed_price" in list(algorithms.ALGORITHMS)
    require_that_it_trains(tmp_path / "run")


def test_the_presets_set_what_every_algorithm_has(clean):
    algorithms.register("fixed_price", outside)
    algo = default_config("AntCircle", "fixed_price").algo
    assert (algo.discount, algo.minibatch_size, algo.value_units) == (0.995, 1000, True)
    assert default_config("AntCircle", "fixed_price", "paper").algo.cost_estimator == "episodes"


def test_its_ranges_hold(clean):
    algorithms.register("fixed_price", outside)
    with pytest.raises(UsageError, match=r"--algo.price is -1.0; it must be a number ≥ 0"):
        focops.train("PointCircle", algo="fixed_price", price=-1)


def test_a_run_says_which_algorithm_is_not_there(tmp_path, clean):
    algorithms.register("fixed_price", outside)
    RunDirectory.create(default_config("PointCircle", "fixed_price"), {}).close()
    algorithms.ALGORITHMS.loaded.pop("fixed_price")
    (path,) = (tmp_path / "runs").iterdir()
    with pytest.raises(UsageError, match="unknown algorithm 'fixed_price'"):
        _ = RunDirectory.open(path, lock=False).config
    assert json.loads((path / "config.json").read_text())["algo"]["price"] == 1.0


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_is_no_algorithm_is_refused():
    with pytest.raises(UsageError, match="must be a module with Config, init, update; it is"):
        algorithms.register("mine", cli)


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(UsageError, match="there is already another algorithm 'ppo'"):
        algorithms.register("ppo", outside)


@pytest.mark.parametrize("value", ["no.such.module", "tests.algorithms.outside:missing"])
def test_a_package_that_cannot_be_imported_is_named(value, monkeypatch):
    install(monkeypatch, value)
    with pytest.raises(UsageError, match=rf"the algorithm 'fixed_price' \({value}\) cannot be imported"):
        default_config("PointCircle", "fixed_price")
