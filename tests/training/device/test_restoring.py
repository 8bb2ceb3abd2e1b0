"""Runs in memory go on exactly from what was saved of them."""

import jax
import numpy as np
import pytest

from focops.errors import UsageError
from focops.runs import checkpoint
from focops.training.device import DeviceTrainer
from tests.training.device.cases import VARIED, advanced, arrays_of, assert_same, in_warp


def test_a_restored_trainer_goes_on_to_the_same_bits():
    whole = arrays_of(advanced(VARIED, 6))
    saved = [checkpoint.serialize(each, {}) for each in arrays_of(advanced(VARIED, 3))]
    other = DeviceTrainer(VARIED)
    other.restore([checkpoint.deserialize(each, "it")[0] for each in saved])
    assert other.iteration == 3
    for _ in range(3):
        other.advance()
    for found, expected in zip(arrays_of(other), whole, strict=True):
        assert_same(found, expected)


def test_working_ahead_changes_no_number():
    one, other = DeviceTrainer(VARIED), DeviceTrainer(VARIED)
    expected = [one.advance() for _ in range(4)]
    assert [other.advance(ahead=i < 3) for i in range(4)] == expected
    assert not other.ahead
    for found, wanted in zip(arrays_of(other), arrays_of(one), strict=True):
        assert_same(found, wanted)


def test_a_snapshot_stays_while_the_device_goes_on():
    fleet = advanced(VARIED, 2)
    before = [checkpoint.serialize(each, {}) for each in arrays_of(fleet)]
    fleet.go_ahead()
    assert fleet.ahead
    jax.block_until_ready(fleet.runs)
    assert [checkpoint.serialize(member.arrays(), {}) for member in fleet.members] == before
    assert fleet.advance()[0]["iteration"] == 3


def test_what_does_not_fit_is_not_restored():
    fleet = DeviceTrainer(VARIED)
    saved = arrays_of(fleet)
    with pytest.raises(UsageError, match=r"stand at different iterations: \[0, 7\]"):
        fleet.restore([saved[0], saved[1], saved[2] | {"iteration": np.array(7)}])
    with pytest.raises(UsageError, match=r"does not fit this run: env/qpos should be \(4, 3\), found \(5, 3\)"):
        fleet.restore([saved[0] | {"env/qpos": np.zeros((5, 3), np.float32)}, *saved[1:]])


def test_a_trainer_simulated_in_warp_goes_on_to_the_same_bits():
    """The implementation that a GPU runs."""
    fleet = advanced([in_warp("HalfCheetahSpeed-v0", seed=seed) for seed in (0, 1)], 1, impl="warp")
    saved = arrays_of(fleet)
    assert all(np.isfinite(list(filter(None, record.values()))).all() for record in fleet.advance())
    expected = arrays_of(fleet)
    fleet.advance()
    fleet.restore(saved)
    fleet.advance()
    for found, wanted in zip(arrays_of(fleet), expected, strict=True):
        assert_same(found, wanted)


def test_networks_and_normaliser_of_another_run_are_taken_and_nothing_else():
    source, blank = arrays_of(advanced(VARIED, 2))[1], arrays_of(DeviceTrainer(VARIED))
    fleet = DeviceTrainer(VARIED)
    fleet.start_from(source, "there")
    for found, before in zip(arrays_of(fleet), blank, strict=True):
        taken = {name for name in found if not np.array_equal(found[name], before[name])}
        kinds = ("].policy.", "].critics.", "[1].")
        assert {kind for kind in kinds if any(kind in name for name in taken)} == set(kinds)
        assert not [name for name in taken if "adam" in name or "].nu" in name or not name.startswith("learner")]
        for name in taken:
            np.testing.assert_array_equal(found[name], source[name], err_msg=name)
