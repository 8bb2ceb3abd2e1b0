"""One environment of gym (from 0.21 on) or Gymnasium, for a worker that has no focops: `checked_env.py` in small.

Python 3.8 to 3.13, the standard library and NumPy. Steps may have 4, 5 or 6 values.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import runpy
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from focops.envs.contract import RESET, Answers, RunError, UsageError, flat, size_of, spaces
else:  # by its path: this interpreter may not have focops
    _found = runpy.run_path(os.path.join(os.path.dirname(__file__), "contract.py"))
    RESET, Answers, RunError, UsageError, flat, size_of, spaces = (
        _found[name] for name in ("RESET", "Answers", "RunError", "UsageError", "flat", "size_of", "spaces")
    )

_ADDED = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")
"""Wrappers that `make` of gym or Gymnasium adds to every environment."""


class PlainEnv(Answers):
    """One environment; its errors name it."""

    def __init__(self, env_id, index, cost=None, costs=None):
        super().__init__(env_id, index, costs)
        self.known = costs is not None
        self.cost = None if cost is None else attribute(*cost.rsplit(":", 1))
        self.env, self.time_limit = make(env_id)
        for name in ("observation_space", "action_space"):
            if getattr(self.env, name, None) is None:
                raise UsageError(f"{env_id} has no {name}; set it in __init__")
        self.age = 0
        self.space = self.env.observation_space
        self.obs_size = size_of(self.space, env_id)
        self.seeded = "seed" in inspect.signature(self.env.unwrapped.reset).parameters  # not in gym before 0.22
        if not self.seeded and not hasattr(self.env.unwrapped, "seed"):
            raise UsageError(f"{env_id} cannot be seeded: write {RESET}, or give it a method seed(seed)")

    def describe(self, needs_cost, order):
        """What a vector must know of its environments, and the function from the policy's actions to theirs."""
        try:
            described, encode = spaces(self.space, self.env.action_space)
        except ValueError as error:
            raise UsageError(f"{self.id} has {error}") from None
        if not self.known:
            self._try(needs_cost, order)
        description = {
            "obs_size": self.obs_size,
            **described,
            "time_limit": self.time_limit or getattr(getattr(self.env, "spec", None), "max_episode_steps", None),
            "costs": list(self.costs),
            "named": self.named,
        }
        return description, encode

    def reset(self, seed, at):
        self.age = 0
        if not self.seeded:
            self._call("seed", at, seed)
        answer = self._call("reset", at, **({"seed": seed} if self.seeded else {}))
        if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict):  # not in gym before 0.26
            answer = answer[0]
        return self._flat(answer, at)

    def step(self, action, at):
        answer = self._call("step", at, action)
        self.age += 1
        obs, reward, cost, terminated, truncated = self._read(answer, action, at)
        return (
            self._flat(obs, at),
            self.numbers("reward", reward, (), at),
            self.checked_costs(cost, at),
            self.truth("terminated", terminated, at),
            self.truth("truncated", truncated, at) or self.age == self.time_limit,
        )

    def close(self, at):
        self._call("close", at)

    def _try(self, needs_cost, order):
        """Find the costs by one random step."""
        self.env.action_space.seed(0)
        self.reset(0, 0)
        action = self.env.action_space.sample()
        cost = self._read(self._call("step", 0, action), action, 0)[2]
        if cost is not None:
            self.find_costs(cost, order)
        elif needs_cost:
            raise UsageError(
                f"{self.id} returns no cost: return one from step, in info['cost'] or third of six values; compute it,"
                " with --cost my_module:my_cost, a function of (obs, action, reward, info); or train without"
                " constraints: --algo ppo"
            )

    def _read(self, answer, action, at) -> Any:
        """Observation, reward, cost (None if there is none), terminated and truncated of a step with 4, 5 or 6
        values."""
        size = len(answer) if isinstance(answer, tuple) else 0
        if size == 6:
            obs, reward, cost, terminated, truncated, info = answer
            if self.cost is not None:
                cost = self.cost(obs, action, reward, info)
            return obs, reward, cost, terminated, truncated
        if size not in (4, 5):
            raise RunError(f"{self.name} returned {answer!r} from step at step {at}: it must be 4, 5 or 6 values")
        obs, reward, done, info = answer[0], answer[1], answer[2], answer[-1]
        info = info if isinstance(info, dict) else {}
        cost = info.get("cost") if self.cost is None else self.cost(obs, action, reward, info)
        if size == 5:
            return obs, reward, cost, done, answer[3]
        cut = bool(info.get("TimeLimit.truncated", False))
        return obs, reward, cost, False if cut else done, cut

    def _flat(self, obs, at):
        try:
            return flat(self.space, obs)
        except Exception as error:  # whatever an object that is no observation may raise
            raise RunError(
                f"{self.name} returned an observation that is not of its observation space {self.space}"
                f" at step {at} ({error})"
            ) from error

    def _call(self, method, at, *args, **kwargs):
        try:
            return getattr(self.env, method)(*args, **kwargs)
        except (Exception, SystemExit) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise RunError(
                f"{self.name} raised {type(error).__name__}: {error} ({where.filename}:{where.lineno})"
                f" in {method} at step {at}"
            ) from error


def library():
    """Gymnasium, or the gym that came before it."""
    for name in ("gymnasium", "gym"):
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    raise UsageError(f"{sys.executable} has neither gymnasium nor gym: install one of them there")


def attribute(module, name):
    """A class or a function of a module; UsageError if there is none."""
    found = getattr(importlib.import_module(module), name, None)
    if not callable(found):
        raise UsageError(f"the module {module!r} has no function {name!r} for {sys.executable}; define it there")
    return found


def make(env_id):
    """The environment "Id-v0", "module:Id-v0" or "module:Class", and the steps after which its episodes are to be
    truncated, if it does not do so itself. A module's own `make` is asked for an id that it does not register."""
    gym = library()
    module, _, name = env_id.rpartition(":")
    try:
        found: Any = importlib.import_module(module) if module else None
        if callable(getattr(found, name, None)):
            return getattr(found, name)(), None
        registry = gym.envs.registration.registry
        if name not in getattr(registry, "env_specs", registry) and hasattr(found, "make"):
            return found.make(name), None
        unchecked = "disable_env_checker" in inspect.signature(gym.make).parameters
        env = gym.make(name, **({"disable_env_checker": True} if unchecked else {}))
    except (Exception, SystemExit) as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise UsageError(
            f"{env_id} could not be made by {sys.executable}: {type(error).__name__}: {error}"
            f" ({where.filename}:{where.lineno})"
        ) from error
    return _without_wrappers(env, gym.__name__)


def _without_wrappers(env, name):
    """The environment without the wrappers that `make` of the library adds, and the time limit that one of them had.
    They expect another number of values of a step than an older or a constrained environment returns."""
    limits = []
    while type(env).__name__ in _ADDED and type(env).__module__.split(".")[0] == name:
        limits.append(getattr(env, "_max_episode_steps", None))
        env = env.env
    return env, min((limit for limit in limits if limit is not None), default=None)
