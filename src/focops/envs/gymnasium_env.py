"""Opening any Gymnasium environment by its id, with costs in `info`, and converting the policy's actions to its own."""

import copy
import difflib
import importlib
import traceback
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import load_env_creator

from focops.envs.tasks import TASKS
from focops.errors import UsageError

HOW_TO_ADD_A_COST = """return one from step, in info["cost"] (a number, or one per constraint) or third of six values;
for an environment that is not yours, register a wrapper of it with gymnasium.register and train that:
    class Costed(gymnasium.Wrapper):
        def step(self, action):
            obs, reward, terminated, truncated, info = self.env.step(action)
            return obs, reward, terminated, truncated, {**info, "cost": my_cost(obs, action)}"""


class _CostIntoInfo(gymnasium.Wrapper):
    """Moves the third of six returned values into info["cost"]; innermost, so that Gymnasium's wrappers see five."""

    def step(self, action: Any) -> Any:
        result: Any = self.env.step(action)
        if len(result) == 5:
            return result
        if len(result) != 6:
            raise UsageError(
                f"{type(self.unwrapped).__name__}.step returned {len(result)} values: it must return 5 (obs, reward,"
                " terminated, truncated, info) or 6 (obs, reward, cost, terminated, truncated, info)"
            )
        obs, reward, cost, terminated, truncated, info = result
        return obs, reward, terminated, truncated, {**(info or {}), "cost": cost}


def open_env(env_id: str) -> gymnasium.Env:
    """The environment of that id ("Id-v0" or "module:Id-v0") with its time limit, costs in info."""
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UsageError(
                f"{env_id}: the module {module!r} cannot be imported ({error}); is it installed, or on PYTHONPATH?"
            ) from error
        except SystemExit as error:
            raise UsageError(f"{env_id}: the module {module!r} called sys.exit({error}) while imported") from error
    if name not in gymnasium.registry:
        known = [*(task.removesuffix("-v0") for task in TASKS), *TASKS, *gymnasium.registry]
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(close)}?" if close else "`focops tasks` lists ours"
        raise UsageError(
            f"there is no task or Gymnasium environment {env_id!r}: {hint}"
            " (an id that a module of yours registers is written module:Id-v0)"
        )
    spec = copy.copy(gymnasium.spec(name))
    creator: Any = spec.entry_point if callable(spec.entry_point) else load_env_creator(str(spec.entry_point))

    def create(**kwargs: Any) -> gymnasium.Env:
        env = creator(**kwargs)
        return _CostIntoInfo(env) if isinstance(env, gymnasium.Env) else env

    spec.entry_point = create
    try:
        return gymnasium.make(spec, disable_env_checker=True)
    except gymnasium.error.DependencyNotInstalled as error:
        raise UsageError(f"{env_id} needs a package that is not installed: {error}") from error
    except (Exception, SystemExit) as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise UsageError(
            f"{env_id} could not be made: {type(error).__name__}: {error} ({where.filename}:{where.lineno})"
        ) from error


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


def action_encoder(env_id: str, space: spaces.Space) -> tuple[int, bool, Callable[[np.ndarray], Any]]:
    """(size, discrete, function from the policy's actions [E, A] or [E] to the environment's)."""
    if isinstance(space, spaces.Discrete):
        return int(space.n), True, lambda action: action.astype(np.int64) + space.start
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and space.low.size:
        low, high, shape = space.low.ravel(), space.high.ravel(), space.shape
        return low.size, False, lambda action: np.clip(action, low, high).astype(space.dtype).reshape(-1, *shape)
    raise UsageError(
        f"{env_id} has the action space {space}: only Discrete and Box of floats that are not empty can be trained"
    )


def check_shapes(space: spaces.Space, obs: Any) -> None:
    """Raise ValueError for an array of another shape than its space's: flattening accepts some of them."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for name, part in parts:
            check_shapes(part, obs[name])
    elif isinstance(space, spaces.Box) and np.shape(obs) != space.shape:
        raise ValueError(f"shape {np.shape(obs)}")


def action_bounds(space: spaces.Space) -> dict[str, tuple[float, ...]]:
    if isinstance(space, spaces.Box) and space.is_bounded():
        return {"action_low": tuple(space.low.ravel().tolist()), "action_high": tuple(space.high.ravel().tolist())}
    return {}
