"""Runs in memory go on exactly from what was saved of them."""

import numpy as np
import pytest

from focops.errors import UsageError
from focops.runs import checkpoint
from focops.training.device import DeviceTrainer
from focops.training.state import take_over, to_arrays
from tests.resume.tiny import arrays_of, restore
from tests.training.device.cases import VARIED, advanced, assert_same, in_warp


def test_a_restored_trainer_goes_on_to_the_same_bits():
    whole = arrays_of(advanced(VARIED, 6))
    saved = [checkpoint.serialize(each, {}) for each in arrays_of(advanced(VARIED, 3))]
    other = DeviceTrainer(VARIED)
    restore(other, [checkpoint.deserialize(each, "it")[0] for each in saved])
    assert other.iteration == 3
    for _ in range(3):
        other.advance()
    for found, expected in zip(arrays_of(other), whole, strict=True):
        assert_same(found, expected)


def test_working_ahead_changes_no_number():
    one, other = DeviceTrainer(VARIED), DeviceTrainer(VARIED)
    expected = [one.advance() for _ in range(4)]
    assert [other.advance(ahead=i < 3) for i in range(4)] == expected
    for found, wanted in zip(arrays_of(other), arrays_of(one), strict=True):
        assert_same(found, wanted)


def test_states_stay_while_the_device_goes_on():
    expected = arrays_of(advanced(VARIED, 2))
    trainer = DeviceTrainer(VARIED)
    iterations = trainer.iterations(lambda: False)
    next(iterations), next(iterations)  # a checkpoint is due
    states = trainer.states()
    assert trainer._pending
    assert trainer.runs.state.iteration.tolist() == [3, 3, 3]  # the next iteration
    assert trainer.states() is states
    for found, wanted in zip(states, expected, strict=True):
        assert_same(to_arrays(found), wanted)
    assert next(iterations)[0]["iteration"] == 3


def test_what_stops_is_not_ahead():
    trainer = DeviceTrainer(VARIED)
    answers = iter([False, True])
    records = [outcomes[0]["iteration"] for outcomes in trainer.iterations(lambda: next(answers))]
    assert records == [1, 2]  # the second was under way
    assert [state.iteration for state in trainer.states()] == [2, 2, 2]
    assert trainer._pending is None


def test_what_does_not_fit_is_not_restored():
    trainer = DeviceTrainer(VARIED)
    saved = arrays_of(trainer)
    with pytest.raises(UsageError, match=r"stand at different iterations: \[0, 7\]"):
        restore(trainer, [saved[0], saved[1], saved[2] | {"iteration": np.array(7)}])
    with pytest.raises(UsageError, match=r"does not fit this run: env/qpos should be \(4, 3\), found \(5, 3\)"):
        restore(trainer, [saved[0] | {"env/qpos": np.zeros((5, 3), np.float32)}, *saved[1:]])


def test_a_trainer_simulated_in_warp_goes_on_to_the_same_bits():
    """The implementation that a GPU runs."""
    trainer = advanced([in_warp("HalfCheetahSpeed-v0", seed=seed) for seed in (0, 1)], 1, impl="warp")
    saved = arrays_of(trainer)
    assert all(np.isfinite(list(filter(None, record.values()))).all() for record in trainer.advance())
    expected = arrays_of(trainer)
    trainer.advance()
    restore(trainer, saved)
    trainer.advance()
    for found, wanted in zip(arrays_of(trainer), expected, strict=True):
        assert_same(found, wanted)


def test_networks_and_normaliser_of_another_run_are_taken_and_nothing_else():
    source, blank = arrays_of(advanced(VARIED, 2))[1], arrays_of(DeviceTrainer(VARIED))
    trainer = DeviceTrainer(VARIED)
    trainer.restore([take_over(state, source, "there", "here") for state in trainer.states()])
    for found, before in zip(arrays_of(trainer), blank, strict=True):
        taken = {name for name in found if not np.array_equal(found[name], before[name])}
        kinds = ("].policy.", "].critics.", "[1].")
        assert {kind for kind in kinds if any(kind in name for name in taken)} == set(kinds)
        assert not [name for name in taken if "adam" in name or "].nu" in name or not name.startswith("learner")]
        for name in taken:
            np.testing.assert_array_equal(found[name], source[name], err_msg=name)
