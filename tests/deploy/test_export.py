"""An exported file gives the policy's actions, or is not written."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import focops
from focops.deploy import check, export, onnx_graph
from focops.errors import RunError, UsageError
from focops.runs.policy import Policy
from tests.deploy.policies import KINDS, make, observations, output

FOUND = {
    "episodes": 50, "discounted_cost": {"speed": 20.5}, "discounted_cost_interval": {"speed": [20.0, 21.0]},
    "undiscounted_cost": {"speed": 90.0}, "cost_limit": {"speed": 25.0}, "cost_discount": {"speed": 0.99},
    "verdict": {"speed": "satisfied"},
}  # fmt: skip
VIOLATED = FOUND | {"verdict": {"speed": "violated"}, "discounted_cost": {"speed": 26.5}}


def expected(policy: Policy, obs: np.ndarray, noise: np.ndarray | None = None) -> np.ndarray:
    """Actions by JAX's network and a few lines of NumPy."""
    found, own = output(policy, obs), policy.description
    if own["discrete"]:
        logits = found if noise is None else found + noise
        parts = np.split(logits, np.cumsum(own["nvec"] or [own["action_size"]])[:-1], -1)
        chosen = np.stack([part.argmax(-1) for part in parts], -1)
        return chosen if own["nvec"] else chosen[:, 0]
    if noise is not None:
        found = found + np.exp(np.asarray(policy.params.log_std)) * noise
    return np.clip(found, own["action_low"], own["action_high"]) if own["action_low"] else found


def session(file: Path | bytes) -> Any:
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


def shaped(policy: Policy, obs: np.ndarray) -> np.ndarray:
    """Images as bytes, in their own shape."""
    image = policy.description["image"]
    return obs if image is None else obs.reshape(-1, *image).astype(np.uint8)


@pytest.mark.parametrize("kind", KINDS)
def test_the_graph_gives_the_actions_of_the_policy(kind, tmp_path):
    policy, file = make(kind), tmp_path / "policy.onnx"
    obs = observations(policy)
    noise = np.random.default_rng(2).gumbel(size=(len(obs), policy.description["action_size"])).astype(np.float32)
    policy.export(file)
    found = session(file).run(None, {"observation": shaped(policy, obs)})[0]
    np.testing.assert_allclose(found, expected(policy, obs), rtol=1e-5, atol=1e-5)
    policy.export(file, sampled=True)
    found = session(file).run(None, {"observation": shaped(policy, obs), "noise": noise})[0]
    np.testing.assert_allclose(found, expected(policy, obs, noise), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["continuous", "several", "channels first"])
def test_the_file_gives_the_actions_of_the_policy(kind, tmp_path):
    policy, file = make(kind), tmp_path / "policy.py"
    obs = observations(policy)
    policy.export(file)
    predict = runpy.run_path(str(file))["predict"]
    np.testing.assert_allclose(predict(obs), expected(policy, obs), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(predict(shaped(policy, obs)[2]), expected(policy, obs)[2], rtol=1e-5, atol=1e-5)
    sampled = [predict(obs, deterministic=False, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(sampled[0], sampled[1])
    assert not np.array_equal(sampled[0], sampled[2])


def test_the_file_refuses_other_shapes_and_nan_and_samples_by_default_if_asked(tmp_path):
    policy, file = make("unbounded"), tmp_path / "policy.py"
    policy.export(file, sampled=True)
    predict = runpy.run_path(str(file))["predict"]
    assert not np.array_equal(predict(np.zeros(5)), predict(np.zeros(5)))
    with pytest.raises(ValueError, match=r"have shape \(4,\); this policy takes \[5\] or \[N, 5\]"):
        predict(np.zeros(4))
    with pytest.raises(ValueError, match=r"NaN at index \(2,\)"):
        predict([0, 0, np.nan, 0, 0])


@pytest.mark.parametrize(("kind", "nothing"), [("continuous", np.nan), ("discrete", -1), ("several", -1)])
def test_the_graph_gives_no_action_for_nan(kind, nothing, tmp_path):
    policy, file = make(kind), tmp_path / "policy.onnx"
    obs = observations(policy, 3)
    obs[1, 2] = np.nan
    policy.export(file)
    found = session(file).run(None, {"observation": obs})[0]
    np.testing.assert_array_equal(found[1], np.full_like(found[1], nothing))
    assert (found[[0, 2]] != nothing).all()
    assert not np.isnan(found[[0, 2]]).any()


def test_extreme_observations_are_among_those_compared():
    policy = make("continuous")
    obs = check.observations(policy.stats, 11)
    assert np.isinf(obs).any()
    assert not np.isnan(obs).any()
    assert (np.abs(obs).max(1) == 0).any()
    assert (np.abs(obs) == np.finfo(np.float32).max).any()
    std = np.maximum(np.sqrt(np.asarray(policy.stats.variance)), 0.01)
    normalised = (obs.astype(np.float64) - np.asarray(policy.stats.mean)) / std
    beside = np.abs(np.abs(normalised[np.isfinite(normalised).all(1)]) - 5) < 1e-4
    assert beside.all(1).sum() >= 4


@pytest.mark.parametrize("ending", [".onnx", ".py"])
def test_a_file_that_disagrees_is_not_written(ending, tmp_path, monkeypatch):
    policy, file = make("continuous"), tmp_path / f"policy{ending}"
    file.write_text("before")
    monkeypatch.setattr(onnx_graph, "_bounded", lambda graph, policy, mean: mean)
    monkeypatch.setattr("focops.deploy.python_file._body", lambda: source.replace("self._high)", "2 * self._high)"))
    source = (Path(export.__file__).parent / "numpy_policy.py").read_text().partition("import numpy as np\n")[2]
    with pytest.raises(RunError, match=r"is not the policy: on \d+ random .* differ by up to \d.* 1e-05 is allowed"):
        policy.export(file)
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_tie_may_fall_either_way_and_no_other_choice_may():
    logits = np.array([[1.0, 1.0 - 1e-6, 0.0]])
    assert check.difference(np.array([1]), logits, [3]) < 1e-5
    assert check.difference(np.array([2]), logits, [3]) == pytest.approx(1.0)


def test_the_graph_says_what_it_is(tmp_path):
    file = tmp_path / "policy.onnx"
    make("continuous", evaluation={"sampled": FOUND, "mean_action": VIOLATED}).export(file, sampled=True)
    model = onnx.load(file)
    about = {each.key: each.value for each in model.metadata_props}
    assert (about["task"], about["acting"], about["evaluated"]) == ("Task-v0", "sampled", "on 50 episodes")
    assert json.loads(about["constraints"])["speed"] == {
        "limit": 25.0, "discount": 0.99, "discounted_cost": 20.5, "discounted_cost_interval": [20.0, 21.0],
        "verdict": "satisfied",
    }  # fmt: skip
    assert json.loads(about["observation"]) == {"size": 11, "image": None, "layout": "vector"}
    assert json.loads(about["action"])["high"] == [1.0, 2.0, 0.4]
    assert [each.name for each in model.graph.input] == ["observation", "noise"]


def test_a_mean_action_beyond_its_limits_is_warned_of(tmp_path):
    policy = make("continuous", evaluation={"sampled": FOUND, "mean_action": VIOLATED})
    with pytest.warns(focops.MeanActionWarning, match=r"speed 26\.5, limit 25: violated"):
        policy.export(tmp_path / "policy.onnx")


def test_a_folder_that_is_missing_is_made(tmp_path):
    make("continuous").export(tmp_path / "new" / "folder" / "policy.py")
    assert (tmp_path / "new" / "folder" / "policy.py").is_file()


def test_a_strangers_task_is_not_run(tmp_path):
    policy = make("continuous")
    policy.description["task"] = '"""\nraise SystemExit("run")\n"""'
    policy.export(tmp_path / "policy.py")
    assert runpy.run_path(str(tmp_path / "policy.py"))["ABOUT"]["task"] == policy.description["task"]


def test_what_cannot_be_exported_is_explained(tmp_path, monkeypatch):
    class Own:
        init = lambda self, key, in_size, out_size: np.ones((in_size, out_size), np.float32)
        apply = lambda self, params, x: x @ params

        def __repr__(self):
            return "Own()"

    with pytest.raises(UsageError, match=r"network of its own, Own\(\); only MLP and NatureCNN"):
        make("unbounded", network=Own()).export(tmp_path / "policy.onnx")
    with pytest.raises(UsageError, match=r"ending is '.pt'; it must be .onnx .* or .py"):
        make("unbounded").export(tmp_path / "policy.pt")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write .*file/policy\.onnx: .*name another file"):
        make("unbounded").export(tmp_path / "file" / "policy.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UsageError, match=r"needs onnx: pip install 'focops\[onnx\]'"):
        make("unbounded").export(tmp_path / "policy.onnx")
