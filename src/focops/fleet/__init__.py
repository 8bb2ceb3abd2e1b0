"""R runs as one program: tasks and learners on an accelerator, every array with an axis of runs in front.

A run here is what it is on the CPU: its own seed, its own values of whatever is traced (temperature, limits, rates,
discounts), its own directory. All R step their R·E simulations together and update together; on several devices each
holds its share of the runs, and they never need to talk.

| file | holds |
|---|---|
| fleet.py | the runs in memory, for the loop that iterates and keeps them |
| member.py | one of them, for those who keep it |
| program.py | an iteration of all of them as pure functions: what is compiled |
| book.py | the episodes, entered on the device |
| devices.py | where which runs are |
| sharing.py | which runs can share a program |
"""

from focops.fleet.fleet import Fleet
from focops.fleet.sharing import program_of

__all__ = ["Fleet", "program_of"]
