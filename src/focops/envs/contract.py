"""What environments may have as spaces and return from a step, for focops and for workers that do not have it.

Python 3.8 to 3.13, the standard library and NumPy, spaces of gym (from 0.21 on) or Gymnasium.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING or __package__:
    from focops.errors import RunError, UsageError
else:  # this file is run by an interpreter that may not have focops

    class UsageError(ValueError):
        """As in focops.errors: an environment that cannot be used."""

    class RunError(UsageError):
        """As in focops.errors: an environment that fails."""


_KINDS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict", "Tuple")
"""Spaces that have a fixed size."""
RESET = "def reset(self, *, seed=None, options=None)"
"""How an environment's reset is to be written."""


class Answers:
    """What environment `index` answers, checked. An error names it and what it returned. `costs` are the names of its
    costs, in their order, and whether it names them itself; None before the first step."""

    def __init__(self, env_id, index, costs=None):
        self.id, self.name = env_id, f"environment {index} of {env_id}"
        self.costs, self.named = costs or ((), False)

    def find_costs(self, cost, order):
        """Set `costs`, in the order that the first step has them, or in the given one."""
        self.named = isinstance(cost, Mapping)
        self.costs = tuple(cost) if isinstance(cost, Mapping) else unnamed(_size(cost))
        if not self.costs or not all(isinstance(name, str) and name for name in self.costs):
            raise UsageError(
                f"{self.id} returns {cost!r} as its cost: it must be a number, a vector, or a mapping from names"
            )
        if self.named and set(order) == set(self.costs):
            self.costs = tuple(order)
        self.checked_costs(cost, 0)

    def checked_costs(self, cost, at):
        if not self.costs:
            return np.zeros(0)
        if cost is None:
            raise RunError(
                f"{self.name} returned no cost at step {at}: every step must return one, 0 where nothing was paid"
            )
        if not self.named:
            return self.numbers("cost", cost, (len(self.costs),), at)
        if not isinstance(cost, Mapping) or cost.keys() != set(self.costs):
            self.refuse("cost", cost, f"a mapping from {', '.join(self.costs)}, as in the first step", at)
        return np.array([self.numbers(f"cost {name!r}", cost[name], (), at) for name in self.costs])

    def numbers(self, what, value, shape, at):
        """Of that shape, or a number where one is due. They may still be infinite or NaN."""
        numbers: Any = None
        if value is not None and not isinstance(value, (str, bytes)):  # NumPy would take None for NaN
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                numbers = np.asarray(value, np.float64)
        shapes = [(), shape] if shape == (1,) else [shape]
        if numbers is None or numbers.shape not in shapes:
            due = " or ".join(f"an array of shape {each}" if each else "a number" for each in shapes)
            self.refuse(what, value, due, at)
        return numbers

    def truth(self, what, value, at):
        try:
            found = np.asarray(value)
            fits = found.shape == () and found.item() in (True, False)  # as 0 and 1 are; None is not
        except (TypeError, ValueError):
            fits = False
        if not fits:
            self.refuse(what, value, "True or False", at)
        return bool(value)

    def refuse(self, what, value, due, at):
        raise RunError(f"{self.name} returned {value!r} as its {what} at step {at}: it must be {due}")


def unnamed(number):
    """The names of costs that have none: of a number, or of a vector."""
    return ("cost",) if number == 1 else tuple(f"cost_{j}" for j in range(number))


def _size(cost):
    """Numbers in a number or a vector; 0 for anything else."""
    try:
        return np.size(cost) if np.ndim(cost) <= 1 else 0
    except ValueError:  # ragged
        return 0


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


def size_of(space, env_id):
    """How many numbers an observation of that space is; UsageError if that is not fixed, or 0."""

    def size(part):
        kind = kind_of(part)
        if kind in ("Dict", "Tuple"):
            return sum(map(size, part.spaces.values() if kind == "Dict" else part.spaces))
        if kind not in _KINDS:
            raise UsageError(
                f"{env_id} has the observation space {space}, which has no fixed size to flatten to: only"
                f" {', '.join(_KINDS)} can be observed; wrap the environment in one that observes these"
                " (gymnasium.ObservationWrapper)"
            )
        return int(
            part.n if kind == "Discrete" else np.sum(part.nvec) if kind == "MultiDiscrete" else np.prod(part.shape)
        )

    if size(space) == 0:
        raise UsageError(f"{env_id} has the observation space {space}, which is empty: observe one number")
    return size(space)


def flat(space, value):
    """An observation as one vector, as Gymnasium flattens it; ValueError for what is not of the space."""
    kind = kind_of(space)
    if kind in ("Box", "MultiBinary"):
        array = np.asarray(value, np.float64)
        if array.shape != tuple(space.shape):
            raise ValueError(f"shape {array.shape}")
        return array.ravel()
    if kind == "Discrete":
        return _one_hot(int(space.n), value, int(getattr(space, "start", 0)))
    if kind == "MultiDiscrete":
        if np.shape(value) != tuple(space.shape):
            raise ValueError(f"shape {np.shape(value)}")
        first = np.broadcast_to(getattr(space, "start", 0), space.shape)
        return np.concatenate(
            [_one_hot(int(n), *each) for n, *each in zip(space.nvec.flat, np.ravel(value), first.flat)]
        )
    parts = space.spaces.items() if kind == "Dict" else enumerate(space.spaces)
    return np.concatenate([np.zeros(0)] + [flat(part, value[name]) for name, part in parts])


def _one_hot(count, value, first):
    if not first <= value < first + count:
        raise ValueError(f"{value} is not within {first} and {first + count - 1}")
    return np.eye(1, count, int(value - first))[0]
