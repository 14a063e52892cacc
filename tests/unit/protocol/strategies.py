"""Hypothesis strategies for messages, built from the structs themselves."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

S = TypeVar("S", bound=msgspec.Struct)

_UNICODE = st.characters(codec="utf-8")  # no lone surrogates


@cache
def structs(struct: type[S]) -> st.SearchStrategy[S]:
    """Every valid value of a struct, each optional field now there and now not."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return _values(info)


def _values(type_info: inspect.Type) -> st.SearchStrategy[Any]:
    match type_info:
        case inspect.Metadata(type=inner):
            return _values(inner)
        case inspect.StructType(cls=cls, fields=fields):
            return st.fixed_dictionaries(
                {field.name: _values(field.type) for field in fields if field.required},
                optional={
                    field.name: _values(field.type) for field in fields if not field.required
                },
            ).map(lambda given: cls(**given))
        case inspect.UnionType(types=types):
            return st.one_of([_values(part) for part in types])
        case inspect.VarTupleType(item_type=item):
            return st.lists(_values(item), max_size=3).map(tuple)
        case inspect.ListType(item_type=item):
            return st.lists(_values(item), max_size=2)
        case inspect.DictType(value_type=inspect.AnyType()):
            return st.dictionaries(st.text(_UNICODE, max_size=5), st.integers(0, 9), max_size=2)
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_values(key), _values(value), max_size=2)
        case inspect.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case inspect.IntType(ge=low, le=high):
            return st.integers(low if low is not None else 0, high if high is not None else 2**31)
        case inspect.FloatType(ge=low, le=high):
            return st.floats(low, high, allow_nan=False, allow_infinity=False)
        case inspect.BoolType():
            return st.booleans()
        case inspect.BytesType():
            return st.binary(max_size=20)
        case inspect.StrType(pattern=None, min_length=shortest, max_length=longest):
            return st.text(_UNICODE, min_size=shortest or 0, max_size=min(longest or 20, 20))
        case inspect.StrType(pattern=str(pattern), max_length=int(longest)):
            return st.from_regex(pattern, alphabet=_UNICODE).filter(lambda t: len(t) <= longest)
        case inspect.NoneType():
            return st.none()
    raise TypeError(f"no strategy is known for {type_info}")
