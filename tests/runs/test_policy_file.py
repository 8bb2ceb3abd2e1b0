"""A policy file is whole and ours, or refused; whoever made it, nothing of it is run."""

import pickle
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import focops
from focops.core import normalize
from focops.core import policy as core_policy
from focops.core.networks import MLP
from focops.core.spec import Spec
from focops.errors import UsageError
from focops.runs import checkpoint
from focops.runs.policy_file import FILE, load, save_policy

SPEC = Spec(3, 2, False, (), None, (-1.0, -2.0), (1.0, 2.0))
NO_FIXTURES = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    params = core_policy.init(jax.random.key(0), MLP((4,)), SPEC, -0.5)
    stats = normalize.observe(normalize.init(3), jnp.arange(12.0).reshape(4, 3))
    save_policy(folder, params, stats, SPEC, (4,), "Task-v0", 7)
    return folder / FILE


def put(folder: Path, data: bytes) -> Path:
    file = folder / FILE
    file.write_bytes(data)
    return file


def test_a_policy_is_one_file_that_loads_by_itself_or_by_its_folder(saved: Path) -> None:
    assert [f.name for f in saved.parent.iterdir()] == [FILE]
    obs = np.linspace(-1, 1, 15).reshape(5, 3)
    actions = [focops.load(path).predict(obs, deterministic=True) for path in (saved, saved.parent, str(saved))]
    np.testing.assert_array_equal(actions[0], actions[1])
    np.testing.assert_array_equal(actions[0], actions[2])


def test_actions_are_the_networks_of_the_normalised_observation_within_bounds(saved: Path) -> None:
    arrays, _ = checkpoint.load(saved)
    part = lambda name: np.asarray(arrays[name], np.float64)
    obs = np.array([0.3, -2.0, 11.0])
    std = np.maximum(np.sqrt(part("[1].variance")), 0.01)
    x = np.clip((obs - part("[1].mean")) / std, -5, 5)
    hidden = np.tanh(x @ part("[0].network[0].weight") + part("[0].network[0].bias"))
    expected = np.clip(hidden @ part("[0].network[1].weight") + part("[0].network[1].bias"), [-1, -2], [1, 2])
    np.testing.assert_allclose(load(saved).predict(obs, deterministic=True), expected, rtol=1e-5, atol=1e-6)


def test_an_action_is_not_unpacked_into_a_pair_by_mistake(saved: Path) -> None:
    with pytest.raises(UsageError, match=r"shape \(2,\), not SB3's pair"):
        _action, _ = load(saved).predict([0.0] * 3)


@given(st.data())
@NO_FIXTURES
def test_damage_anywhere_is_refused(tmp_path: Path, saved: Path, data: st.DataObject) -> None:
    whole = saved.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    bad = data.draw(
        st.sampled_from([
            whole[:at],
            whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :],
            whole[:at] + b"\x00" * 9 + whole[at + 9 :],
            whole[at:] + whole[:at],
        ])
    )  # fmt: skip
    if bad != whole:
        with pytest.raises(UsageError):
            load(put(tmp_path, bad))


values = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.integers(), max_size=3)
)


@given(st.sampled_from(["obs_size", "action_size", "discrete", "action_low", "action_high", "hidden"]), values)
@NO_FIXTURES
def test_a_strangers_description_is_refused_or_works(tmp_path: Path, saved: Path, name: str, value) -> None:
    """With a checksum that is right, so that only the values speak."""
    arrays, meta = checkpoint.load(saved)
    changed = {"policy": meta["policy"] | {name: value}}
    try:
        policy = load(put(tmp_path, checkpoint.serialize(arrays, changed)))
    except UsageError:
        return
    assert policy.predict(np.zeros(3)).shape == (2,)


@given(
    st.sampled_from(["episodes", "discounted_cost", "discounted_cost_interval", "cost_limit", "verdict"]),
    values | st.dictionaries(st.text(), values),
)
@NO_FIXTURES
def test_a_strangers_evaluation_is_refused_or_works(tmp_path: Path, saved: Path, name: str, value) -> None:
    arrays, meta = checkpoint.load(saved)
    found = {
        "episodes": 50, "discounted_cost": {"a": 2}, "discounted_cost_interval": {"a": [1.5, 2.5]},
        "cost_limit": {"a": 1.0}, "verdict": {"a": "violated"},
    }  # fmt: skip
    meta["evaluation"] = {"sampled": found, "mean_action": found | {name: value}}
    try:
        policy = load(put(tmp_path, checkpoint.serialize(arrays, meta)))
    except UsageError:
        return
    with pytest.warns(focops.MeanActionWarning, match="a 2, limit 1: violated"):
        policy.predict(np.zeros(3), deterministic=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("action_size", 2**31 - 1),
        ("obs_size", 2**31 - 1),
        ("hidden", [2**31 - 1]),
        ("hidden", [4] * 20_000),
        ("action_low", [-(10**400), 0]),
        ("action_high", [10**400, 0]),
    ],
)
def test_sizes_beyond_what_the_file_holds_are_refused_at_once(tmp_path: Path, saved: Path, name: str, value) -> None:
    """Without building such a network, which would take long or more memory than there is."""
    arrays, meta = checkpoint.load(saved)
    described = meta["policy"] | {name: value}
    if name == "action_size":
        described |= {"action_low": None, "action_high": None}
    file = put(tmp_path, checkpoint.serialize(arrays, {"policy": described}))
    with (
        mock.patch("jax.eval_shape", side_effect=AssertionError("a network was built")),
        pytest.raises(UsageError, match=f"is damaged or not a policy: its {name} is .{{,200}}$"),
    ):
        load(file)


@pytest.mark.parametrize("meta", [{}, {"policy": None}, {"policy": {}}, {"policy": {"task": "x"}}, [1], "text"])
def test_a_checkpoint_is_not_a_policy(tmp_path: Path, saved: Path, meta) -> None:
    arrays, _ = checkpoint.load(saved)
    with pytest.raises(UsageError, match="is not a focops policy"):
        load(put(tmp_path, checkpoint.serialize(arrays, meta)))


def test_arrays_of_another_shape_or_type_are_refused_by_name(tmp_path: Path, saved: Path) -> None:
    arrays, meta = checkpoint.load(saved)
    for wrong in (arrays["[0].log_std"][:1], arrays["[0].log_std"].astype(np.float64)):
        with pytest.raises(UsageError, match=r"does not fit its network: \[0\]\.log_std is float\d+\[\d\]"):
            load(put(tmp_path, checkpoint.serialize(arrays | {"[0].log_std": wrong}, meta)))
    del arrays["[0].log_std"]
    with pytest.raises(UsageError, match=r"\[0\]\.log_std is nothing, not float32\[2\]"):
        load(put(tmp_path, checkpoint.serialize(arrays, meta)))


def test_a_newer_format_says_so(tmp_path: Path, saved: Path) -> None:
    newer = safetensors.numpy.save({}, {"focops": '{"format": 2, "sha256": "", "meta": {}}'})
    with pytest.raises(UsageError, match="has format 2; this focops reads format 1"):
        load(put(tmp_path, newer))


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    for data in (pickle.dumps(Trap()), b"\x80\x04" + pickle.dumps({"format": Trap()})):
        with pytest.raises(UsageError, match="is not a focops policy"):
            load(put(tmp_path, data))
    assert not (tmp_path / "sprung").exists()


def test_nothing_in_the_package_unpickles() -> None:
    source = Path(focops.__file__).parent
    for file in source.rglob("*.py"):
        words = file.read_text()
        assert not any(w in words for w in ("import pickle", "pickle.load", "allow_pickle=True", "joblib", "eval(")), (
            file
        )


def test_a_policy_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = put(tmp_path, saved.read_bytes()).read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    params = core_policy.init(jax.random.key(1), MLP((4,)), SPEC, -0.5)
    with pytest.raises(UsageError, match=r"could not write the policy .*No space left"):
        save_policy(tmp_path, params, normalize.init(3), SPEC, (4,), "Task-v0", 8)
    assert [f.name for f in tmp_path.iterdir()] == [FILE]
    assert (tmp_path / FILE).read_bytes() == before


def test_nowhere_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no policy; give the directory of a run"):
        load(tmp_path)
