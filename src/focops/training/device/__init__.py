"""R runs as one program: tasks and learners on an accelerator, every array with an axis of runs in front.

A run here is what it is on the CPU: its own seed, its own values of whatever is traced (temperature, limits, rates,
discounts), its own directory. All R step their R·E simulations together and update together. With several devices, each
holds a share of the runs; they do not communicate.

| file | holds |
|---|---|
| trainer.py | the runs in memory, for the loop that iterates and saves them |
| vectorized.py | an iteration of all of them as pure functions: what is compiled |
| devices.py | which device holds which runs |
| sharing.py | which runs can share a program |
"""

from focops.training.device.sharing import sharing_key
from focops.training.device.trainer import DeviceTrainer

__all__ = ["DeviceTrainer", "sharing_key"]
