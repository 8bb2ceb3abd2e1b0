"""Runs that older versions wrote open, and those of newer versions say what they are."""

import dataclasses
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import focops
from focops import api
from focops.config import TrainConfig, validate
from focops.errors import UsageError
from focops.runs import checkpoint
from focops.runs.config_json import config_from_json, config_to_json
from focops.runs.directory import RunDirectory
from focops.training.episodes import RECENT
from focops.training.host import Trainer
from focops.training.state import from_arrays, to_arrays
from tests.resume.tiny import OURS, results, tiny

LAYOUTS = sorted((Path(__file__).parent / "layouts").glob("*-*"))
FRACTIONS = next(path for path in LAYOUTS if path.name.startswith("8-"))
"""The last in which switches were fractions."""
LATER = ("cost_return.start", "cost_return.last", "cost_return.variance", "cost_return.share", "].memory")
DEFAULTS = {field.name: field.default for field in dataclasses.fields(TrainConfig)}


def data_of(layout: Path) -> dict[str, Any]:
    return json.loads((layout / "config.json").read_text())


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda path: path.name)
def test_a_field_that_did_not_exist_yet_has_its_published_value(layout):
    data = data_of(layout)
    config = RunDirectory.open(layout, lock=False).config
    validate(config)
    for field in dataclasses.fields(config.algo):
        expected = data["algo"].get(field.name, field.default)
        expected = float(expected) if expected == "inf" else expected
        found = getattr(config.algo, field.name)
        assert (list(found) if isinstance(found, tuple) else found) == expected, field.name
    for name in ("backend", "self_contacts", "exact", "env_timeout", "margin"):
        assert getattr(config, name) == data.get(name, DEFAULTS[name]), name
    assert (config.steps, config.num_envs, config.seed) == (64, 4, 1)


def test_the_layouts_differ_in_what_this_is_about():
    fields = [set(data_of(layout)["algo"]) for layout in LAYOUTS]
    assert {"scale_free", "value_units", "std_units"}.isdisjoint(fields[0])
    assert [("nu_anneal" in each) for each in fields].count(True) == 1
    assert {"value_units", "std_units", "cost_fade", "early_stop"} <= set(data_of(FRACTIONS)["algo"])
    assert "margin" not in data_of(LAYOUTS[-1])
    assert "backend" not in data_of(LAYOUTS[0])
    assert "run_id" in data_of(LAYOUTS[-1])


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda path: path.name)
def test_its_policy_loads(layout):
    assert focops.load(layout).predict([0.0, 0.0, 1.0, 0.0]).shape == (2,)


@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[-1]], ids=lambda path: path.name)
def test_its_policy_is_evaluated(layout, tmp_path):
    run = shutil.copytree(layout, tmp_path / "run")
    assert focops.evaluate(run, episodes=4).episodes == 4


@pytest.mark.parametrize(("name", "published", "other"), [("cost_fade", 0.0, 0.5), ("early_stop", True, False)])
def test_a_field_that_is_gone_is_read_only_with_its_published_value(name, published, other):
    data = data_of(FRACTIONS)
    assert data["algo"][name] == published
    data["algo"][name] = other
    with pytest.raises(
        UsageError, match=f"algo.{name} is {other}; focops no longer has it.* only where it is {published}"
    ):
        config_from_json(data)


def test_a_fraction_that_became_a_switch_is_read_where_it_was_0_or_1():
    data = data_of(FRACTIONS)
    assert data["algo"]["value_units"] == 1.0
    assert config_from_json(data).algo.value_units is True
    data["algo"]["value_units"] = 0.5
    with pytest.raises(UsageError, match=r"algo.value_units is 0.5; expected bool"):
        config_from_json(data)


def newer(**changes: Any) -> dict[str, Any]:
    config = config_from_json(data_of(LAYOUTS[-1]))
    return config_to_json(config) | {"versions": {"focops": "99.0.1"}} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format 2; this focops reads format 1"),
        ({"colour": "red"}, "unknown colour"),
        ({"algorithm": "better"}, "unknown algorithm 'better'"),
    ],
)
def test_a_run_of_a_newer_version_says_so(changes, message):
    with pytest.raises(UsageError, match=rf"{message}.*written by focops 99.0.1, which is newer than this one \(.*\)"):
        config_from_json(newer(**changes))


def test_a_run_of_a_newer_version_opens_if_it_sets_nothing_new():
    assert config_from_json(newer()) == config_from_json(data_of(LAYOUTS[-1]))


def as_a_list(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A checkpoint as the CPU wrote them before episodes were a ring: float64, oldest first, only those there are."""
    finished = int(arrays["episodes/finished"])
    latest = np.arange(max(finished - RECENT, 0), finished) % RECENT
    old = {
        "episodes/running": arrays["episodes/running"].astype(np.float64),
        "episodes/recent": arrays["episodes/recent"][latest].astype(np.float64),
        "episodes/finished": np.array(finished),
    }
    return arrays | old


@pytest.mark.parametrize("finished", [0, 3, 100, 250])
def test_a_list_of_the_latest_episodes_becomes_the_ring(finished):
    state = Trainer(tiny(OURS)).states()[0]
    latest = np.arange(max(finished - RECENT, 0), finished)
    numbers = np.tile(latest[:, None], (1, 4)).astype(np.float64)
    arrays = {"episodes/recent": numbers, "episodes/finished": np.array(finished)}
    found = from_arrays(state, to_arrays(state) | arrays).episodes
    assert (found.recent.dtype, found.recent.shape, found.finished) == (np.float32, (RECENT, 4), finished)
    np.testing.assert_array_equal(found.recent[latest % RECENT], numbers)


def test_a_run_with_such_a_checkpoint_ends_in_the_same_bytes(tmp_path):
    whole = results(api.run(tiny(OURS, tmp_path / "whole")).path)
    stops = iter([False] * 5 + [True])
    run = api.run(tiny(OURS, tmp_path / "run"), should_stop=lambda: next(stops)).path
    arrays, meta = checkpoint.load(run / "checkpoint" / "00000005.safetensors")
    assert 0 < arrays["episodes/finished"] < RECENT
    checkpoint.save(run / "checkpoint", 5, as_a_list(arrays), meta)
    api.resume(run)
    assert results(run) == whole


def test_a_run_whose_checkpoint_has_no_standard_error_of_the_cost_return_ends_in_the_same_policy(tmp_path):
    """Runs of that time had neither a margin nor `nu_noise`, which look at it."""
    config = tiny(OURS, tmp_path / "run", algo={"nu_noise": math.inf}, margin=0.0)
    whole = results(api.run(dataclasses.replace(config, out=tmp_path / "whole")).path)
    stops = iter([False] * 5 + [True])
    run = api.run(config, should_stop=lambda: next(stops)).path
    arrays, meta = checkpoint.load(run / "checkpoint" / "00000005.safetensors")
    older = {name: array for name, array in arrays.items() if not name.endswith(tuple(LATER))}
    assert len(older) == len(arrays) - len(LATER)
    checkpoint.save(run / "checkpoint", 5, older, meta)
    api.resume(run)
    found = results(run)
    assert [found[name] for name in ("policy", "metrics")] == [whole[name] for name in ("policy", "metrics")]


def test_a_checkpoint_with_fewer_candidates_resumes_with_none(tmp_path):
    """Once there were six, of the last quarter, and none was said to be within its aim."""
    stops = iter([False] * 5 + [True])
    run = api.run(tiny(OURS, tmp_path / "run", margin="auto"), should_stop=lambda: next(stops)).path
    arrays, meta = checkpoint.load(run / "checkpoint" / "00000005.safetensors")
    kept = {name: array for name, array in arrays.items() if name.startswith("candidates")}
    older = {name: array[:6] for name, array in kept.items() if not name.endswith(".within")}
    assert len(older) == len(kept) - 1
    checkpoint.save(run / "checkpoint", 5, {k: v for k, v in arrays.items() if k not in kept} | older, meta)
    assert api.resume(run).summary["finished"]
