"""What `focops.train` returns has the package's functions as its methods."""

import json
from pathlib import Path

import numpy as np
import pytest

import focops
from tests.resume.tiny import OPTIONS, OURS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> focops.Run:
    return focops.train(OURS, out=tmp_path_factory.mktemp("run") / "run", **OPTIONS | {"steps": 64 * 3})


def test_metrics_are_arrays_by_name_with_nan_for_nothing(run: focops.Run) -> None:
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    metrics = run.metrics()
    assert metrics.keys() == lines[0].keys()
    assert metrics["samples"].tolist() == [64, 128, 192]
    for name, values in metrics.items():
        expected = [np.nan if line[name] is None else line[name] for line in lines]
        np.testing.assert_array_equal(values, expected, err_msg=name)
        assert values.shape == (3,)
    assert any(line["return_mean"] is None for line in lines)  # no episode has ended


def test_a_run_is_shown_in_one_line(run: focops.Run) -> None:
    assert repr(run) == f"Run({str(run.path)!r}: {OURS}, focops, seed {run.summary['seed']}, 192 samples)"


def test_the_policy_is_loaded_once_and_is_the_one_on_the_disk(run: focops.Run) -> None:
    assert run.policy is run.policy
    obs = np.linspace(-1, 1, run.policy.description["obs_size"])
    expected = focops.load(run.path).predict(obs, deterministic=True)
    np.testing.assert_array_equal(run.policy.predict(obs, deterministic=True), expected)


def test_an_evaluation_is_that_of_the_directory(run: focops.Run) -> None:
    options = {"episodes": 4, "seeds": [3], "deterministic": True}
    assert run.evaluate(**options) == focops.evaluate(run.path, **options)


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.html", b"<!doctype")])
def test_a_plot_is_a_figure_and_a_file(run: focops.Run, tmp_path: Path, name: str, start: bytes) -> None:
    figure = run.plot(out=tmp_path / name, x="time")
    assert (tmp_path / name).read_bytes().lower().startswith(start.lower())
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert OURS in figure.axes[0].get_title(loc="left")


def test_a_plot_that_cannot_be_drawn_says_why(run: focops.Run) -> None:
    with pytest.raises(focops.UsageError, match=r"out is a\.gif; its ending must be \.png"):
        run.plot(out="a.gif")
    with pytest.raises(focops.UsageError, match=r"holds no run"):
        focops.plot([run.path / "policy"])
    with pytest.raises(focops.UsageError, match=r"runs is empty; give the directory of a run"):
        focops.plot([])


@pytest.mark.parametrize(("iterations", "episodes"), [(2, 16), (13, 100)])
def test_the_summary_says_how_many_episodes_the_training_mean_is_over(tmp_path: Path, iterations: int, episodes: int):
    """An iteration has 16 steps of 4 environments, whose episodes have 8; the mean is over at most 100."""
    options = OPTIONS | {"steps": 64 * iterations}
    run = focops.train("tests.envs.faulty:Faulty-v0", out=tmp_path / "run", cost_limit=1, env_workers=0, **options)
    assert run.summary["training_episodes"] == episodes
