"""Several devices, and the options of CUDA."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from focops.training.device.devices import CUDA_OPTIONS

SHARDED = """
import jax
from focops.training.device import DeviceTrainer
from focops.training.state import Failure
from tests.resume.tiny import arrays_of, restore
from tests.training.device.cases import VARIED, assert_close, assert_same, config

five = [*VARIED, config(seed=6), config(seed=7, policy_rate=1e38)]
one = DeviceTrainer(five, devices=jax.devices()[:1])
for _ in range(3):
    expected_records = one.advance()
expected = arrays_of(one)

for number in (5, 4):
    trainer = DeviceTrainer(five[:number])
    places = {s.device.id: s.data.shape[0] for s in trainer.runs.state.key.addressable_shards}
    assert places == {i: -(-number // 4) for i in range(4)}, places
    trainer.advance()
    middle = arrays_of(trainer)
    for _ in range(2):
        records = trainer.advance()
    found = arrays_of(trainer)
    for i in range(number):
        assert_close(found[i], expected[i])
        if i == 4:
            assert isinstance(records[i], Failure), records[i]
            assert str(records[i].error) == str(expected_records[i].error)
        else:
            assert list(records[i]) == list(expected_records[i])
    assert {s.device.id for s in trainer.runs.state.learner.policy.log_std.addressable_shards} == {0, 1, 2, 3}
    if number == 4:
        other = DeviceTrainer(five[:4])
        restore(other, middle)
        other.advance(ahead=True)
        other.advance()
        for a, b in zip(arrays_of(other), found, strict=True):
            assert_same(a, b)
print("done")
"""


def test_several_devices_share_the_runs():
    """Four of them, with one run each, and with five runs, so that three places are filled with made-up ones."""
    flags = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], env=os.environ | flags | {"JAX_PLATFORMS": "cpu"}, capture_output=True,
        text=True, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


def test_xla_knows_the_options_for_cuda():
    """It checks their names and values for whatever device; that they help is for a GPU to show."""
    add = lambda options: jax.jit(lambda x: x + 1, compiler_options=options)(1.0)
    assert add(CUDA_OPTIONS) == 2
    with pytest.raises(Exception, match="NOSUCH"):
        add(CUDA_OPTIONS | {"xla_gpu_enable_command_buffer": "FUSION,NOSUCH"})
