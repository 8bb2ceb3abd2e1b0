"""Opening any Gymnasium environment, with costs in `info`, and converting the policy's actions to its own."""

import copy
import difflib
import functools
import inspect
import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import load_env_creator

from focops.envs.contract import RESET
from focops.envs.names import find, named
from focops.envs.tasks import TASKS
from focops.errors import UsageError

log = logging.getLogger(__name__)

PICTURES = "rgb_array"
"""Gymnasium's render mode of environments that return pictures."""

HOW_TO_ADD_A_COST = """return one from step, in info["cost"] (a number, a vector, a mapping from names) or third of six
values; for an environment that is not yours, compute it: --cost my_module:my_cost, with
    def my_cost(obs, action, reward, info):
        return abs(obs[0])
or train without constraints: --algo ppo"""


class _Costed(gymnasium.Wrapper):
    """Computes the cost by a function of the user's, in place of the environment's own."""

    def __init__(self, env: gymnasium.Env, name: str, cost: Callable[[Any, Any, Any, Any], Any]) -> None:
        super().__init__(env)
        self._name, self._cost = name, cost

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        if "cost" in info:
            _say_that_the_cost_is_replaced(self._name, named(self._cost)[0])
        return obs, reward, terminated, truncated, {**info, "cost": self._cost(obs, action, reward, info)}


@functools.cache
def _say_that_the_cost_is_replaced(name: str, cost: str) -> None:
    """Once in a process."""
    log.warning("%s has a cost of its own; --cost %s replaces it", name, cost)


class NoStep(Exception):
    """What a step returned is none; the message is what it was."""


class _CostIntoInfo(gymnasium.Wrapper):
    """Moves the third of six returned values into info["cost"]; innermost, so that Gymnasium's wrappers see five."""

    def step(self, action: Any) -> Any:
        result: Any = self.env.step(action)
        if not isinstance(result, tuple | list):
            raise NoStep(repr(result))
        if len(result) == 5:
            return result
        if len(result) != 6:
            raise NoStep(f"{len(result)} values")
        obs, reward, cost, terminated, truncated, info = result
        return obs, reward, terminated, truncated, {**(info or {}), "cost": cost}


@dataclass(frozen=True)
class Source:
    """What makes environments, and its name in messages."""

    name: str
    make: Callable[[], gymnasium.Env]
    is_instance: bool = False
    """It is one environment of the user's, which `make` returns every time and which is never closed here."""
    cost: Callable[[Any, Any, Any, Any], Any] | None = None
    """Computes the cost from (obs, action, reward, info)."""
    render: bool = False
    """Made to be drawn."""

    def open(self) -> gymnasium.Env:
        """An environment with its time limit, costs in info."""
        try:
            env = self.make()
        except UsageError:
            raise
        except gymnasium.error.DependencyNotInstalled as error:
            raise UsageError(f"{self.name} needs a package that is not installed: {error}") from error
        except (Exception, SystemExit) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise UsageError(
                f"{self.name} could not be made: {type(error).__name__}: {error} ({where.filename}:{where.lineno})"
            ) from error
        if not isinstance(env, gymnasium.Env):
            raise UsageError(f"{self.name} made {env!r}; it must make a gymnasium.Env")
        try:
            inspect.signature(env.unwrapped.reset).bind(seed=0, options=None)
        except TypeError as error:
            raise UsageError(f"{self.name} cannot be reset as Gymnasium does it ({error}): write {RESET}") from None
        for name in ("observation_space", "action_space"):
            if not isinstance(getattr(env, name, None), spaces.Space):
                raise UsageError(f"{self.name} has no {name}; set it, to one of gymnasium.spaces, in __init__")
        if self.render and env.render_mode != PICTURES:
            modes = list(env.metadata.get("render_modes") or [])
            raise UsageError(
                f"{self.name} cannot be drawn: its render_mode is {env.render_mode!r} and must be {PICTURES!r}. It must"
                f" take render_mode when it is made, and have {PICTURES!r} in its metadata's render_modes, now {modes}"
            )
        return env if self.cost is None else _Costed(env, self.name, self.cost)

    def require_enough(self, number: int) -> None:
        if self.is_instance and number > 1:
            raise UsageError(
                f"{self.name} is one environment, and num_envs is {number}; it must be 1 for an instance, or give its"
                " class or a function that makes it: focops.train(MyEnv)"
            )


def source_of(env: Any, cost: Any = None, render: bool = False) -> Source:
    """Of an id ("Id-v0", "module:Id-v0"), a class or a function that makes one (or its name, "module:Name"), or an
    instance; `cost` is a function of (obs, action, reward, info) or its name; with `render` to be drawn."""
    source = _source_of(env, render)
    if isinstance(cost, str):
        module, _, function = cost.rpartition(":")
        if not module:
            raise UsageError(f"--cost is {cost!r}; it must be written module:function")
        cost = find(cost)
        if cost is None:
            raise UsageError(f"--cost: the module {module!r} has no function {function!r}; define it there")
    if cost is not None and not callable(cost):
        raise UsageError(f"cost is {cost!r}; it must be a function of (obs, action, reward, info), or module:function")
    return replace(source, cost=cost, render=render)


def _source_of(env: Any, render: bool) -> Source:
    name, _ = named(env)
    if isinstance(env, gymnasium.Env):
        return Source(name, lambda: _CostIntoInfo(env), is_instance=True)
    creator = env
    if isinstance(env, str):
        module, _, env_id = env.rpartition(":")
        creator = find(env) if module else None
        if creator is None:
            return Source(name, functools.partial(_make_registered, env, env_id, render))
        if env_id in gymnasium.registry:
            raise UsageError(f"{env}: {module} has that name and registers that id; rename one of them")
    if not callable(creator):
        raise UsageError(
            f"the environment is {env!r}; it must be an id (Id-v0, module:Id-v0), a class of gymnasium.Env or a"
            " function without arguments that makes one (or its name, module:Name), or an instance"
        )
    return Source(name, functools.partial(_create, name, creator, render))


def _create(name: str, creator: Callable[..., Any], render: bool) -> Any:
    if render and _takes_render_mode(creator):
        creator = functools.partial(creator, render_mode=PICTURES)
    try:
        inspect.signature(creator).bind()
    except TypeError as error:
        raise UsageError(
            f"{name} cannot be called without arguments ({error}); give a function that does it"
        ) from error
    except ValueError:  # its signature is not known
        pass
    return _with_cost_in_info(creator())


def _with_cost_in_info(env: Any) -> Any:
    return _CostIntoInfo(env) if isinstance(env, gymnasium.Env) else env


def _takes_render_mode(creator: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(creator).parameters.values()
    except ValueError:  # its signature is not known
        return False
    return any(each.name == "render_mode" or each.kind is each.VAR_KEYWORD for each in parameters)


def _make_registered(text: str, env_id: str, render: bool) -> gymnasium.Env:
    if env_id not in gymnasium.registry:
        module = text.removesuffix(env_id)
        if module:
            own = vars(sys.modules[module.removesuffix(":")])
            known = [*gymnasium.registry, *(name for name, thing in own.items() if callable(thing))]
        else:
            known = [*(task.removesuffix("-v0") for task in TASKS), *TASKS, *gymnasium.registry]
        close = [module + name for name in difflib.get_close_matches(env_id, known, n=3, cutoff=0.5)]
        hint = f"did you mean {', '.join(close)}?" if close else "`focops tasks` lists ours"
        raise UsageError(
            f"there is no task or Gymnasium environment {text!r}: {hint}"
            " (an id that a module of yours registers is written module:Id-v0, a class or function of it module:Name;"
            " to resume or evaluate a run that has the id alone, import that module in Python and do it there)"
        )
    spec = copy.copy(gymnasium.spec(env_id))
    creator: Any = spec.entry_point if callable(spec.entry_point) else load_env_creator(str(spec.entry_point))
    spec.entry_point = lambda **kwargs: _with_cost_in_info(creator(**kwargs))
    drawn = render and PICTURES in getattr(creator, "metadata", {}).get("render_modes", [PICTURES])
    how: Any = {"render_mode": PICTURES} if drawn and _takes_render_mode(creator) else {}
    return gymnasium.make(spec, disable_env_checker=True, **how)


def time_limit_of(env: gymnasium.Env) -> int | None:
    """As it is registered; if it is not, of a TimeLimit around it."""
    if env.spec is not None:
        return env.spec.max_episode_steps
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            return env._max_episode_steps
        env = env.env
    return None


def require_in_range(space: spaces.Space, value: Any) -> None:
    """Raise ValueError for a class that a discrete space does not have: -1 would be encoded as the last one."""
    if isinstance(space, spaces.Dict):
        for name, part in space.items():
            require_in_range(part, value[name])
    elif isinstance(space, spaces.Tuple):
        for part, each in zip(space, value, strict=True):
            require_in_range(part, each)
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        first, count = space.start, space.n if isinstance(space, spaces.Discrete) else space.nvec
        if not np.all((first <= np.asarray(value)) & (np.asarray(value) < first + count)):
            raise ValueError(f"{value} is not within {first} and {first + count - 1}")


def check_shapes(space: spaces.Space, obs: Any) -> None:
    """Raise ValueError for an array of another shape than its space's: flattening accepts some of them."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for name, part in parts:
            check_shapes(part, obs[name])
    elif isinstance(space, spaces.Box) and np.shape(obs) != space.shape:
        raise ValueError(f"shape {np.shape(obs)}")
