"""An optional field may be null: it then means the same as if it were absent.

Decoding is fast because each field has its true type, and most of them do not include null.
A message that is refused and holds a null somewhere is looked at once more, without the nulls
of its optional fields.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from dragoman.live.protocol.fields import LONGEST_LIST


def without_nulls(value: Any, expected: type[msgspec.Struct]) -> Any:
    """The decoded object, or list of objects, without the nulls that ``expected`` can do without.

    Free-form values stay as they are: there a null is a value like any other. So does what
    cannot fit anyway; it is for the decoder to refuse.
    """
    if isinstance(value, list) and len(value) <= LONGEST_LIST:
        return [without_nulls(item, expected) if isinstance(item, dict) else item for item in value]
    if not isinstance(value, dict):
        return value
    shape = _shape(expected)
    return {
        name: without_nulls(inner, shape.structs[name]) if name in shape.structs else inner
        for name, inner in value.items()
        if inner is not None or name not in shape.optional
    }


class _Shape(NamedTuple):
    """What of a struct matters here, by the names of the wire."""

    optional: frozenset[str]
    structs: dict[str, type[msgspec.Struct]]


@cache
def _shape(struct: type[msgspec.Struct]) -> _Shape:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    inner = {field.encode_name: struct_in(field.type) for field in info.fields}
    return _Shape(
        optional=frozenset(field.encode_name for field in info.fields if not field.required),
        structs={name: found for name, found in inner.items() if found is not None},
    )


def struct_in(type_info: inspect.Type) -> type[msgspec.Struct] | None:
    """The struct that a field holds, be it optional or in a list."""
    match type_info:
        case inspect.StructType(cls=cls):
            return cls
        case inspect.VarTupleType(item_type=inner) | inspect.Metadata(type=inner):
            return struct_in(inner)
        case inspect.UnionType(types=types):
            return next((found for part in types if (found := struct_in(part))), None)
    return None
