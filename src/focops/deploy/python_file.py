"""A policy as one Python file that needs NumPy alone: the source of `NumpyPolicy`, its arrays, and a function."""

import base64
import inspect
import pprint
import textwrap
from typing import Any

import numpy as np

from focops.deploy import numpy_policy
from focops.deploy.numpy_policy import NumpyPolicy

_FILE = '''"""A policy that focops exported: `predict` takes raw observations. It needs NumPy alone."""

import base64

import numpy as np

ABOUT = {about}
"""What it is, and what the evaluation after training found of it."""


def predict(obs, deterministic={deterministic}, rng=None):
    """Actions for one observation [{size}] or many [N, {size}]{image}.

    They are the mean (most likely) ones, or sampled by `rng`, a numpy.random.Generator; continuous ones are within the
    environment's bounds. ValueError for an observation of another shape, or with NaN.
    """
    with np.errstate(over="ignore"):  # infinite is as good as very large
        obs = np.asarray(obs, np.float32)
    image = ABOUT["observation"]["image"]
    if image and list(obs.shape[-len(image) :]) == image:
        obs = obs.reshape(*obs.shape[: -len(image)], {size})
    if obs.ndim not in (1, 2) or obs.shape[-1] != {size}:
        raise ValueError(f"observations have shape {{obs.shape}}; this policy takes [{size}] or [N, {size}]")
    if np.isnan(obs).any():
        raise ValueError(f"the observation is NaN at index {{tuple(map(int, np.argwhere(np.isnan(obs))[0]))}}")
    return POLICY.act(obs, deterministic, _RNG if rng is None else rng)


{source}


def _arrays(shapes, data):
    numbers, arrays, first = np.frombuffer(base64.b64decode(data), "<f4"), {{}}, 0
    for name, shape in shapes.items():
        count = int(np.prod(shape))
        arrays[name] = numbers[first : first + count].reshape(shape)
        first += count
    return arrays


_FORM = {form}
_SHAPES = {shapes}
_DATA = """
{data}
"""
"""All arrays, one after another, as float32 in base64."""

_RNG = np.random.default_rng()
POLICY = NumpyPolicy(_arrays(_SHAPES, _DATA), _FORM)
'''


def source(policy: NumpyPolicy, sampled: bool, about: dict[str, Any]) -> bytes:
    """The file; `predict` samples by default if `sampled`."""
    arrays, observed = policy.arrays, about["observation"]
    data = b"".join(np.ascontiguousarray(array, "<f4").tobytes() for array in arrays.values())
    literal = lambda value: pprint.pformat(value, width=110, compact=True, sort_dicts=False)
    return _FILE.format(
        about=literal(about),
        deterministic=not sampled,
        size=observed["size"],
        image=", or images in their own shape" if observed["image"] else "",
        source=_body(),
        form=literal(policy.form),
        shapes=literal({name: list(array.shape) for name, array in arrays.items()}),
        data=textwrap.fill(base64.b64encode(data).decode(), 110),
    ).encode()


def _body() -> str:
    """The classes and functions of numpy_policy.py, without its docstring and import."""
    return inspect.getsource(numpy_policy).partition("import numpy as np\n")[2].strip()
