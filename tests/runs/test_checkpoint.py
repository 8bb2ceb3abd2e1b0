"""Checkpoints are whole or absent, and what loads is what was saved."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from focops.errors import UsageError
from focops.runs import checkpoint, files
from focops.runs.checkpoint import CheckpointError, CheckpointWarning

dtypes = st.sampled_from(["float32", "float64", "int32", "int64", "uint32", "uint64", "bool"]).map(np.dtype)
arrays = dtypes.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
names = st.text(min_size=1, max_size=12).filter(lambda name: name != "__metadata__")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
metas = st.dictionaries(st.text(max_size=8), values, max_size=4)

EXAMPLE = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "n": np.array(7, np.int64),
    "on": np.array([True, False]),
}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


@settings(deadline=None)
@given(st.dictionaries(names, arrays, max_size=5), metas)
def test_any_arrays_and_meta_come_back_exactly(content: dict[str, np.ndarray], meta: dict) -> None:
    found, found_meta = checkpoint.deserialize(checkpoint.serialize(content, meta), "it")
    assert_same(found, content)
    assert found_meta == meta


def test_views_that_are_not_contiguous_come_back_in_order() -> None:
    base = np.arange(12).reshape(3, 4)
    content = {"transposed": base.T, "reversed": base[::-1], "strided": base[:, ::2], "big_endian": base.astype(">i8")}
    found, _ = checkpoint.deserialize(checkpoint.serialize(content, {}), "it")
    for name, array in content.items():
        np.testing.assert_array_equal(found[name], array)


def test_loaded_arrays_can_be_written() -> None:
    found, _ = checkpoint.deserialize(checkpoint.serialize(EXAMPLE, {}), "it")
    found["w"][0, 0] = 5
    assert found["w"][0, 0] == 5


def test_meta_keeps_integers_of_any_size_and_infinities() -> None:
    meta = {"pcg64": 2**127 + 1, "best": float("inf")}
    assert checkpoint.deserialize(checkpoint.serialize({}, meta), "it")[1] == meta


def test_the_same_content_gives_the_same_bytes() -> None:
    meta = {"metrics_offset": 12, "a": [1, 2]}
    shuffled = dict(reversed(EXAMPLE.items()))
    assert checkpoint.serialize(EXAMPLE, meta) == checkpoint.serialize(shuffled, meta)


def test_an_object_array_is_refused_with_its_name() -> None:
    with pytest.raises(TypeError, match="'things' has dtype object"):
        checkpoint.serialize({"things": np.array([{}, 1], dtype=object)}, {})


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damage_anywhere_is_noticed(data: st.DataObject) -> None:
    valid = checkpoint.serialize(EXAMPLE, {"offset": 3})
    kind = data.draw(st.sampled_from(["flip", "truncate", "append", "overwrite"]))
    at = data.draw(st.integers(0, len(valid) - 1))
    if kind == "flip":
        bad = valid[:at] + bytes([valid[at] ^ (1 << data.draw(st.integers(0, 7)))]) + valid[at + 1 :]
    elif kind == "truncate":
        bad = valid[:at]
    elif kind == "append":
        bad = valid + data.draw(st.binary(min_size=1, max_size=20))
    else:
        patch = data.draw(st.binary(min_size=1, max_size=20))
        bad = valid[:at] + patch + valid[at + len(patch) :]
    if bad != valid:
        with pytest.raises(CheckpointError):
            checkpoint.deserialize(bad, "it")


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_checkpoint_are_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="not a focops checkpoint"):
        checkpoint.deserialize(data, "it")


def test_every_single_bit_counts() -> None:
    valid = checkpoint.serialize({"x": np.ones(2, np.float32)}, {})
    for bit in range(8 * len(valid)):
        bad = bytearray(valid)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CheckpointError):
            checkpoint.deserialize(bytes(bad), "it")


def test_a_safetensors_file_of_another_program_is_refused() -> None:
    with pytest.raises(CheckpointError, match="not a focops checkpoint"):
        checkpoint.deserialize(safetensors.numpy.save(EXAMPLE, {"made": "elsewhere"}), "it")


def test_a_newer_format_says_so() -> None:
    header = json.dumps({"format": 2, "sha256": "0" * 64, "meta": {}})
    with pytest.raises(CheckpointError, match="has format 2; this focops reads format 1"):
        checkpoint.deserialize(safetensors.numpy.save(EXAMPLE, {"focops": header}), "it")


def test_checkpoint_errors_are_usage_errors() -> None:
    assert issubclass(CheckpointError, UsageError)


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for number in (5, 10, 15, 100_000_000):
        checkpoint.save(tmp_path, number, EXAMPLE, {"number": number})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000015.safetensors", "100000000.safetensors"]
    assert checkpoint.load_newest(tmp_path)[1] == {"number": 100_000_000}


def test_a_future_that_was_given_up_is_removed(tmp_path: Path) -> None:
    for number in (1, 3, 2):
        checkpoint.save(tmp_path, number, EXAMPLE, {"number": number})
    assert checkpoint.load_newest(tmp_path)[1] == {"number": 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001.safetensors", "00000002.safetensors"]


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert checkpoint.load_newest(tmp_path) is None
    assert checkpoint.load_newest(tmp_path / "nowhere") is None


def test_a_damaged_newest_gives_way_to_the_one_before_with_a_warning(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, EXAMPLE, {"number": 1})
    newest = checkpoint.save(tmp_path, 2, EXAMPLE, {"number": 2})
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(CheckpointWarning, match=r"00000002.*damaged.*Going on from .*00000001"):
        found = checkpoint.load_newest(tmp_path)
    assert found is not None
    assert found[1] == {"number": 1}
    assert_same(found[0], EXAMPLE)


def test_only_damaged_checkpoints_are_an_error_that_names_them(tmp_path: Path) -> None:
    for number in (1, 2):
        checkpoint.save(tmp_path, number, EXAMPLE, {}).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"no usable checkpoint: .*00000002.*00000001"):
        checkpoint.load_newest(tmp_path)


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file"):
        checkpoint.load(tmp_path / "00000001.safetensors")


def test_a_kill_between_write_and_rename_leaves_the_old_one(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, EXAMPLE, {"number": 1})
    program = """
import os, pathlib, sys, numpy
from focops.runs import checkpoint
os.replace = lambda *_: os._exit(9)
checkpoint.save(pathlib.Path(sys.argv[1]), 2, {"w": numpy.zeros(3)}, {"number": 2})
"""
    assert subprocess.run([sys.executable, "-c", program, tmp_path], check=False).returncode == 9
    assert (tmp_path / "00000002.safetensors.tmp").exists()
    assert checkpoint.load_newest(tmp_path)[1] == {"number": 1}
    checkpoint.save(tmp_path, 3, EXAMPLE, {"number": 3})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001.safetensors", "00000003.safetensors"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_earlier_checkpoints_and_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    checkpoint.save(tmp_path, 1, EXAMPLE, {"number": 1})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, failing, full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        checkpoint.save(tmp_path, 2, EXAMPLE, {"number": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["00000001.safetensors"]


def test_a_folder_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match=r"Not a directory|File exists"):
        checkpoint.save(tmp_path / "file", 1, EXAMPLE, {})


@given(st.integers(0, 10**9))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_loads_by_its_path(tmp_path: Path, number: int) -> None:
    path = checkpoint.save(tmp_path / str(number), number, EXAMPLE, {"number": number})
    assert checkpoint.load(path)[1] == {"number": number}
