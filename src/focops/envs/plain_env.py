"""One environment of gym (from 0.21 on) or Gymnasium, for a worker that has no focops: `checked_env.py` in small.

Python 3.8 to 3.13, the standard library and NumPy. Steps may have 4, 5 or 6 values. What spaces mean to a policy is
said here for focops as well: `spaces`.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
import traceback
from typing import Any

import numpy as np

_KINDS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict", "Tuple")
"""Spaces that have a fixed size."""
_ADDED = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")
"""Wrappers that `make` of gym or Gymnasium adds to every environment."""


class UsageError(ValueError):
    """As in focops.errors, for interpreters that do not have it: an environment that cannot be used."""


class RunError(UsageError):
    """As in focops.errors: an environment that fails."""


class PlainEnv:
    """One environment; its errors name it."""

    def __init__(self, env_id, index, cost=None, costs=None):
        self.name, self.id = f"environment {index} of {env_id}", env_id
        self.cost = None if cost is None else attribute(*cost.rsplit(":", 1))
        self.costs: Any = None
        self.named = False
        if costs is not None:
            self.costs, self.named = costs
        self.env, self.time_limit = make(env_id)
        self.age = 0
        self.space = self.env.observation_space
        self.obs_size = len(flat(self.space, self.space.sample()))
        if self.obs_size == 0:
            raise UsageError(f"{env_id} has the observation space {self.space}, which is empty: observe one number")
        self.seeded = "seed" in inspect.signature(self.env.unwrapped.reset).parameters  # not in gym before 0.22

    def describe(self, needs_cost, order):
        """What a vector must know of its environments, and the function from the policy's actions to theirs."""
        try:
            described, encode = spaces(self.space, self.env.action_space)
        except ValueError as error:
            raise UsageError(f"{self.id} has {error}") from None
        if self.costs is None:
            self._find_costs(needs_cost, order)
        description = {
            "obs_size": self.obs_size,
            **described,
            "time_limit": self.time_limit or getattr(getattr(self.env, "spec", None), "max_episode_steps", None),
            "costs": self.costs,
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
        if not self.costs:
            cost = []
        elif cost is None:
            raise RunError(
                f"{self.name} returned no cost at step {at}: every step must return one, 0 where nothing was paid"
            )
        try:
            cost = [cost[name] for name in self.costs] if self.named else cost
            reward, cost = np.asarray(reward, np.float64), np.asarray(cost, np.float64).reshape(len(self.costs))
            terminated, truncated = bool(terminated), bool(truncated) or self.age == self.time_limit
        except (TypeError, ValueError, LookupError) as error:
            raise RunError(f"{self.name} returned {answer!r} at step {at}, which is no step: {error}") from error
        if reward.shape != ():
            raise RunError(f"{self.name} returned {reward!r} as its reward at step {at}: it must be a number")
        return self._flat(obs, at), reward, cost, terminated, truncated

    def close(self, at):
        self._call("close", at)

    def _find_costs(self, needed, order):
        """The names of the costs, and whether the environment names them itself, from one random step."""
        self.env.action_space.seed(0)
        self.reset(0, 0)
        action = self.env.action_space.sample()
        cost = self._read(self._call("step", 0, action), action, 0)[2]
        if cost is None and needed:
            raise UsageError(
                f"{self.id} returns no cost: return one from step, in info['cost'] or third of six values; compute it,"
                " with --cost my_module:my_cost, a function of (obs, action, reward, info); or train without"
                " constraints: --algo ppo"
            )
        if isinstance(cost, dict):
            self.named, self.costs = True, list(order if set(order) == set(cost) else cost)
        else:
            size = 0 if cost is None else np.size(cost)
            self.costs = ["cost"] if size == 1 else [f"cost_{j}" for j in range(size)]

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
        return obs, reward, cost, bool(done) and not cut, cut

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


def kind_of(space):
    """The library's class that a space is of, by name; one of the user's own may extend it."""
    names = [each.__name__ for each in type(space).__mro__]
    return next((kind for kind in _KINDS if kind in names), names[0])


def spaces(observed, acted):
    """What a policy must know of an environment's spaces, and the function from its actions to theirs. ValueError for
    what it cannot learn from."""
    described, encode = actions(acted)
    image, parts = image_of(observed), [observed]
    for part in parts:
        parts += part.spaces.values() if kind_of(part) == "Dict" else part.spaces if kind_of(part) == "Tuple" else []
        if image is None and image_of(part):
            raise ValueError(
                f"the observation space {layout(observed)}, with an image beside other things: only an image alone gets"
                " a convolutional network. Observe the image alone, or flatten all of it for an MLP"
                " (gymnasium.wrappers.FlattenObservation)"
            )
    vectors = image is None and kind_of(observed) in ("Box", "Discrete") and kind_of(acted) in ("Box", "Discrete")
    described.update(image=image, layout="" if vectors else f"{layout(observed)} → {layout(acted)}")
    return described, encode


def image_of(space):
    """The shape of a space that is an image, a Box of bytes of rank 3, or of rank 2 for one channel; else None."""
    is_image = kind_of(space) == "Box" and space.dtype == np.uint8 and len(space.shape) in (2, 3)
    return list(space.shape) if is_image else None


def layout(space):
    """A space in words: the parts, with their names, sizes and types, in the order in which they are flattened."""
    kind = kind_of(space)
    if kind == "Dict":
        parts: Any = [f"{name}: {layout(part)}" for name, part in space.spaces.items()]
    elif kind == "Tuple":
        parts = map(layout, space.spaces)
    else:
        parts = [space.n] if kind == "Discrete" else np.ravel(space.nvec) if kind == "MultiDiscrete" else space.shape
    words = f"{kind}({', '.join(map(str, parts))})"
    return f"{words} {space.dtype}" if kind == "Box" else words


def actions(space):
    """What a policy must know of an action space, and the function from its actions [n, A], [n] or [n, K] to the
    space's. ValueError for a space that it has no distribution for."""
    kind = kind_of(space)
    described: Any = {"discrete": kind != "Box", "nvec": None, "action_low": None, "action_high": None}
    if kind == "Discrete":
        start = int(getattr(space, "start", 0))
        described.update(action_size=int(space.n), action_shape=[])
        return described, lambda action: action.astype(np.int64) + start
    if kind in ("MultiDiscrete", "MultiBinary") and np.prod(space.shape):
        nvec = np.ravel(space.nvec) if kind == "MultiDiscrete" else np.full(np.prod(space.shape), 2)
        start = np.ravel(getattr(space, "start", 0))
        described.update(action_size=int(nvec.sum()), action_shape=[nvec.size], nvec=nvec.tolist())
        return described, lambda action: (action + start).astype(space.dtype).reshape((-1, *space.shape))
    if kind == "Box" and space.dtype.kind == "f" and space.low.size:
        low, high = space.low.ravel(), space.high.ravel()
        described.update(action_size=low.size, action_shape=[low.size])
        if np.isfinite(low).all() and np.isfinite(high).all():
            described.update(action_low=low.tolist(), action_high=high.tolist())
        return described, lambda action: np.clip(action, low, high).astype(space.dtype).reshape((-1, *space.shape))
    raise ValueError(
        f"the action space {space}: only Discrete, MultiDiscrete, MultiBinary and Box of floats that are not empty can"
        " be trained; wrap the environment in one that takes such actions (gymnasium.ActionWrapper)"
    )


def flat(space, value):
    """An observation as one vector, as Gymnasium flattens it; ValueError for what is not of the space."""
    kind = kind_of(space)
    if kind in ("Box", "MultiBinary"):
        array = np.asarray(value, np.float64)
        if array.shape != tuple(space.shape):
            raise ValueError(f"shape {array.shape}")
        return array.ravel()
    if kind == "Discrete":
        start = getattr(space, "start", 0)
        if not start <= value < start + space.n:
            raise ValueError(f"{value} is not within {start} and {start + space.n - 1}")
        return np.eye(1, int(space.n), int(value - start))[0]
    if kind == "MultiDiscrete":
        return np.concatenate(
            [np.eye(int(n))[range(int(n))[each]] for each, n in zip(np.ravel(value), space.nvec.flat)]
        )
    if kind in ("Dict", "Tuple"):
        parts = space.spaces.items() if kind == "Dict" else enumerate(space.spaces)
        return np.concatenate([np.zeros(0)] + [flat(part, value[name]) for name, part in parts])
    raise UsageError(f"the observation space {space} has no fixed size to flatten to")
