"""TrainConfig to JSON and back, exactly; also from what older versions wrote."""

import contextlib
import dataclasses
import math
import re
import types
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from focops.algorithms import ALGORITHMS
from focops.config import TrainConfig
from focops.core import networks
from focops.core.fields import field_types
from focops.envs.names import GIVEN_NOTHING, Given, named
from focops.errors import UsageError

FORMAT = 1
_OUTSIDE = {"format", "versions", "changes", "run_id", "given"}
_FIRST = (
    "algo", "algorithm", "task", "preset", "steps", "seed", "cost_limit", "cost_discount", "num_envs", "batch_size",
    "fresh_episodes", "threads", "checkpoint_every", "out",
)  # fmt: skip
"""What config.json has had from the first version on."""
_REMOVED = {"algo.cost_fade": 0.0, "algo.nu_anneal": 0.0, "algo.early_stop": True}
"""Fields that only older versions had, and the value at which they had no effect."""
_GIVEN = {"env": ("task", "an environment"), "cost": ("cost", "a cost function")}
"""What may have been given in Python: the argument, the field with its name, and what it is called."""
_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def config_to_json(config: TrainConfig) -> dict[str, Any]:
    """The whole config, the algorithm's under `algo`; infinities as strings. `given` lists what it cannot hold."""
    encoded = {"format": FORMAT} | _encode(config)
    given = [name for name, thing in encoded.pop("given").items() if thing is not None]
    return encoded | ({"given": given} if given else {})


def config_to_flat_json(config: TrainConfig) -> dict[str, Any]:
    """The same without nesting: `algo.temperature` for a field of the algorithm's."""
    encoded = config_to_json(config)
    return encoded | {f"algo.{name}": value for name, value in encoded.pop("algo").items()}


def config_from_json(data: dict[str, Any], network: Any = None, given: Given = GIVEN_NOTHING) -> TrainConfig:
    """The config that `config_to_json` wrote, with the network and what else it could not write; UsageError for all
    else.

    What did not exist yet when it was written has its published value, the default: that is how the run was trained.
    """
    newer = _newer_version(data)
    if data.get("format") != FORMAT:
        raise UsageError(f"config.json has format {data.get('format')!r}; this focops reads format {FORMAT}{newer}")
    algorithm = data.get("algorithm")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise UsageError(f"config.json: unknown algorithm {algorithm!r}; there are: {', '.join(ALGORITHMS)}{newer}")
    fields = {key: value for key, value in data.items() if key not in _OUTSIDE}
    algo = fields.get("algo")
    if not isinstance(algo, dict):
        raise UsageError(f"config.json: algo is {algo!r}; it must be an object with the algorithm's hyper-parameters")
    network = networks.from_json(algo.get("network")) if network is None else network
    if algo.get("network") is not None and network is None:
        raise UsageError(
            f"config.json: the run used a network given in Python, {algo['network']}, which a file cannot hold; "
            "give it again: focops.resume(path, network=…) or focops.evaluate(path, network=…)"
        )
    missing = [name for name in _FIRST if name not in fields]
    if missing:
        raise UsageError(f"config.json lacks {', '.join(missing)}, which every version of focops writes; mend it")
    built = _decode_fields(ALGORITHMS[algorithm].Config, algo | {"network": None}, "algo.", newer)
    built = dataclasses.replace(built, network=network)
    config = _decode_fields(TrainConfig, fields | {"algo": built}, "", newer)
    return dataclasses.replace(config, given=_given_again(data, given))


def _given_again(data: dict[str, Any], given: Given) -> Given:
    """What the run needs of `given`: that which its file cannot hold."""
    needed = data.get("given", [])
    if not isinstance(needed, list) or not set(needed) <= _GIVEN.keys():
        raise UsageError(f"config.json: given is {needed!r}; it must be a list of {', '.join(_GIVEN)}; mend it")
    for argument, (field, called) in _GIVEN.items():
        own, thing = data.get(field), getattr(given, argument)
        if argument in needed and thing is None:
            raise UsageError(
                f"config.json: the run used {called} given in Python, {own}, which no name finds again; give it again,"
                f" itself or as module:Name: focops.resume(path, {argument}=…) or focops.evaluate(path, {argument}=…)"
            )
        if argument not in needed and thing is not None and named(thing)[0] != own:
            raise UsageError(
                f"{argument} is {named(thing)[0]}, but the run was trained with {own}, which is found by its name;"
                f" leave {argument} out, or train a new run"
            )
    return Given(**{argument: getattr(given, argument) if argument in needed else None for argument in _GIVEN})


def _newer_version(data: dict[str, Any]) -> str:
    """The end of a message about an unknown entry, if a newer focops wrote the file; else ""."""
    versions = data.get("versions")
    written = versions.get("focops") if isinstance(versions, dict) else None
    try:
        own = metadata.version("focops")
    except metadata.PackageNotFoundError:
        return ""
    numbers = lambda version: [int(number) for number in re.findall(r"\d+", version)]
    if not isinstance(written, str) or numbers(written) <= numbers(own):
        return ""
    return f"; it was written by focops {written}, which is newer than this one ({own}): update focops"


def _encode(value: Any) -> Any:
    if isinstance(value, Given):
        return value._asdict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        network = {"network": networks.to_json(fields["network"])} if fields.get("network") is not None else {}
        return {name: _encode(item) for name, item in (fields | network).items()}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    if isinstance(value, np.generic):
        return _encode(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _decode_fields(cls: type, data: dict[str, Any], prefix: str, newer: str) -> Any:
    """`cls` with the values that `data` has for its fields."""
    hints = field_types(cls)
    names = {field.name for field in dataclasses.fields(cls)}
    unknown = []
    for name in data.keys() - names:
        if prefix + name not in _REMOVED:
            unknown.append(prefix + name)
        elif data[name] != _REMOVED[prefix + name]:
            raise UsageError(
                f"config.json: {prefix}{name} is {data[name]!r}; focops no longer has it, and reads such a run only"
                f" where it is {_REMOVED[prefix + name]!r}, as published. Use the version that wrote it"
            )
    if unknown:
        said = newer or "; it was written by another version of focops or changed by hand"
        raise UsageError(f"config.json has unknown {', '.join(sorted(unknown))}{said}")
    return cls(**{name: _decode(hints[name], data[name], prefix + name) for name in data.keys() & names})


def _decode(hint: Any, value: Any, name: str) -> Any:
    """`value` as the annotated type; JSON knows no tuples, paths or infinities."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None and types.NoneType in args:
            return None
        kinds = [arg for arg in args if arg is not types.NoneType]
        for kind in kinds[:-1]:
            with contextlib.suppress(UsageError):
                return _decode(kind, value, name)
        return _decode(kinds[-1], value, name)
    if origin is dict and isinstance(value, dict):
        return {key: _decode(args[1], item, f"{name}.{key}") for key, item in value.items()}
    if origin is Literal and value in args:
        return value
    if origin is tuple and isinstance(value, list):
        return tuple(_decode(args[0], item, name) for item in value)
    if hint is float and isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):  # 10⁴⁰⁰
            return float(value)
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is bool and value in (0.0, 1.0):  # some switches were fractions once
        return bool(value)
    if hint in (bool, str) and isinstance(value, hint):
        return value
    if hint is Path and isinstance(value, str):
        return Path(value)
    raise UsageError(f"config.json: {name} is {value!r}; expected {getattr(hint, '__name__', None) or hint}")
