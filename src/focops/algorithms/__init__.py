"""Every algorithm is a module with CARD, Config, State, init(key, spec, config), update(key, state, rollout, config)
and network(config); `State` has the fields `policy` and `nu`, `Info` the field `cost_return`."""

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

ALGORITHMS: dict[str, ModuleType] = {
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
