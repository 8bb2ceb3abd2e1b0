"""The algorithms by name. Each is a module with

Config                   a pytree_config that extends core.base.Config
init(key, spec, config)  a State: a NamedTuple with the fields `policy`, `critics` and `nu`
update(key, state, rollout, stats, progress, config)
                         the next State, and an Info: a NamedTuple with the field `cost_return`. `stats` normalise
                         observations at the end of the batch; `progress` in [0, 1) is the share of the training
                         budget spent before it
DESCRIPTION              what `focops algos` says of it (optional)

`register` adds one from outside; a package does it without Python code, by an entry point in the group
`focops.algorithms` that names the module.
"""

from types import ModuleType

from focops.algorithms import (
    cpo,
    cppo_pid,
    cvar,
    focops,
    lyapunov,
    pcpo,
    ppo,
    ppo_lagrangian,
    rcpo,
    trpo,
    trpo_lagrangian,
)
from focops.core.description import NO_DESCRIPTION, UNCONSTRAINED
from focops.core.registry import Registry
from focops.errors import UsageError

_PARTS = ("Config", "init", "update")


def _check(name: str, module: object) -> None:
    missing = [part for part in _PARTS if not hasattr(module, part)]
    if missing or not isinstance(module, ModuleType):
        raise UsageError(f"the algorithm {name!r} must be a module with {', '.join(_PARTS)}; it is {module!r}")


_OWN = {
    "focops": focops,
    "ppo": ppo,
    "trpo": trpo,
    "ppo_lagrangian": ppo_lagrangian,
    "trpo_lagrangian": trpo_lagrangian,
    "cpo": cpo,
    "pcpo": pcpo,
    "cppo_pid": cppo_pid,
    "rcpo": rcpo,
    "lyapunov": lyapunov,
    "cvar": cvar,
}
ALGORITHMS: Registry[ModuleType] = Registry("algorithm", "focops.algorithms", _check, _OWN)
register = ALGORITHMS.register
"""register(name, module): train it with `focops.train(task, algo=name)`."""


def is_constrained(name: str) -> bool:
    """Whether the algorithm looks at costs; one that says nothing about it does."""
    return getattr(ALGORITHMS[name], "DESCRIPTION", NO_DESCRIPTION).guarantee != UNCONSTRAINED
