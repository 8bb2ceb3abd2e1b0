"""Every algorithm is a module with Config, State, init(key, spec, config), update(key, state, rollout, config) and
network(config); `State` has the fields `policy` and `nu`, `Info` the field `cost_return`."""

from types import ModuleType

from focops.algorithms import focops

ALGORITHMS: dict[str, ModuleType] = {"focops": focops}
