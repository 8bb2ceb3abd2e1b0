"""Configs are frozen dataclasses and pytrees: floats are traced (changing one never recompiles), sizes are static."""

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


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
