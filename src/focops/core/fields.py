"""Configs are frozen dataclasses and pytrees: floats are traced (changing one never recompiles), sizes are static.

A number's type says which values it may have: `temperature: Positive = 1.5`. One that may have any is `Unbounded`.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeVar, dataclass_transform, get_args, get_type_hints

import jax

T = TypeVar("T")


class Range(NamedTuple):
    """The values that a field may have."""

    holds: Callable[[Any], bool]
    text: str
    """Completes "it must be …"."""


Positive = Annotated[float, Range(lambda x: x > 0, "a positive number")]
PositiveOrInf = Annotated[float, Range(lambda x: x > 0, "a positive number, or inf")]
NotNegative = Annotated[float, Range(lambda x: x >= 0, "a number ≥ 0 (inf allowed)")]
Fraction = Annotated[float, Range(lambda x: 0 <= x <= 1, "in [0, 1]")]
PositiveFraction = Annotated[float, Range(lambda x: 0 < x <= 1, "in (0, 1]")]
FractionBelow1 = Annotated[float, Range(lambda x: 0 <= x < 1, "in [0, 1)")]
InnerFraction = Annotated[float, Range(lambda x: 0 < x < 1, "in (0, 1)")]
Finite = Annotated[float, Range(math.isfinite, "a finite number")]
Unbounded = Annotated[float, Range(lambda x: True, "any number")]
Count = Annotated[int, Range(lambda x: x >= 1, "a whole number ≥ 1")]
Widths = Annotated[tuple[int, ...], Range(lambda x: all(width >= 1 for width in x), "widths ≥ 1")]
_SWITCH = Range(lambda x: isinstance(x, bool), "True or False")


def static(default: Any) -> Any:
    """A field that shapes the program: changing it recompiles."""
    return dataclasses.field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def pytree_config(cls: type[T]) -> type[T]:
    """Make a frozen dataclass whose static fields are metadata and all others leaves."""
    cls = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    meta = [f.name for f in fields if f.metadata.get("static")]
    data = [f.name for f in fields if not f.metadata.get("static")]
    cls.__no_type_check__ = True  # under jit a float field holds a tracer
    return jax.tree_util.register_dataclass(cls, data_fields=data, meta_fields=meta)


def field_types(cls: type, *, annotated: bool = False) -> dict[str, Any]:
    """The fields' types, also of a class marked as not to be checked at run time; `annotated`: with their ranges."""
    checked = type(cls.__name__, (cls,), {"__no_type_check__": False, "__module__": cls.__module__})
    return get_type_hints(checked, include_extras=annotated)


def ranges(cls: type) -> dict[str, Range]:
    """The range of each field that declares one; that of a bool is True or False."""
    found = {}
    for name, hint in field_types(cls, annotated=True).items():
        declared = [part for part in get_args(hint) if isinstance(part, Range)]
        if declared or hint is bool:
            found[name] = declared[0] if declared else _SWITCH
    return found
