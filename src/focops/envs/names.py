"""Classes and functions of the user's own: by the name `module:Name` that finds them again, or else as they are."""

import importlib
import operator
import sys
from typing import Any, NamedTuple

from focops.errors import UsageError


class Given(NamedTuple):
    """What was given in Python and has no name that finds it again: a config.json cannot hold it."""

    env: Any = None
    """A class, a function or an instance."""
    cost: Any = None
    """A function of (obs, action, reward, info)."""


GIVEN_NOTHING = Given()


def named(thing: Any) -> tuple[str, Any]:
    """A name of it, and the thing itself unless that name finds it again."""
    if isinstance(thing, str):
        return thing, None
    if not hasattr(thing, "__qualname__"):
        return f"{type(getattr(thing, 'unwrapped', thing)).__name__} instance", thing
    module, name = thing.__module__, thing.__qualname__
    loaded = sys.modules.get(str(module))
    # what has no __spec__ was not imported: a notebook, or a script, which is __main__ only while it runs
    importable = module != "__main__" and getattr(loaded, "__spec__", None) is not None
    found = importable and _attribute(loaded, name) is thing
    return f"{module}:{name}", None if found else thing


class Opening(NamedTuple):
    """Which environments to open, and what is known of their costs."""

    env: Any
    """An id, a class, a function (or their names), or an instance."""
    cost: Any = None
    """A function of (obs, action, reward, info), or its name; None: the environment's own."""
    needs_cost: bool = True
    order: tuple[str, ...] = ()
    """Names of the costs in the order that they are to have, if they are these."""
    render: bool = False
    """To be drawn, as "rgb_array"; only in this process."""

    @property
    def name(self) -> str:
        return named(self.env)[0]

    @property
    def lost_elsewhere(self) -> str:
        """What another process could not find by its name; "" if nothing."""
        return next((name for name, thing in map(named, (self.env, self.cost or "")) if thing is not None), "")

    def by_name(self) -> dict[str, Any]:
        """For another process."""
        cost = None if self.cost is None else named(self.cost)[0]
        return {"env_id": self.name, "cost": cost, "needs_cost": self.needs_cost, "order": list(self.order)}


def is_instance(thing: Any) -> bool:
    """Whether it is an environment itself, rather than what makes some."""
    if thing is None or isinstance(thing, str):
        return False
    import gymnasium  # late: `focops --help` does without it

    return isinstance(thing, gymnasium.Env)


def find(text: str) -> Any:
    """The class or function of that name, `module:Name`; None if its module has none."""
    module, _, name = text.rpartition(":")
    try:
        found = _attribute(importlib.import_module(module), name)
    except ImportError as error:
        raise UsageError(
            f"{text}: the module {module!r} cannot be imported ({error}); is it installed, or on PYTHONPATH?"
        ) from error
    except SystemExit as error:
        raise UsageError(f"{text}: the module {module!r} called sys.exit({error}) while imported") from error
    except Exception as error:
        raise UsageError(f"{text}: importing {module!r} raised {type(error).__name__}: {error}; mend it") from error
    return found if callable(found) else None


def _attribute(module: Any, name: str) -> Any:
    try:
        return operator.attrgetter(name)(module)
    except AttributeError:
        return None
