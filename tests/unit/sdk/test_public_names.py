"""Everything that a signature of the SDK mentions can be imported from the SDK."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from enum import Enum
from functools import partial
from typing import Any

import dragoman.sdk as sdk


def mentioned(annotation: Any) -> Iterator[Any]:
    """The classes and new types in an annotation, however deep."""
    if isinstance(annotation, typing.NewType | type):
        yield annotation
    for part in typing.get_args(annotation):
        if isinstance(part, list):
            for one in part:
                yield from mentioned(one)
        else:
            yield from mentioned(part)
    origin = typing.get_origin(annotation)
    if isinstance(origin, type):
        yield origin


def annotations_of(thing: Any) -> Iterator[Any]:
    """What the signature of a function, or those of a class, say."""
    if isinstance(thing, partial):
        made = typing.get_origin(thing.func) or thing.func
        given = set(thing.keywords)
        hints = typing.get_type_hints(vars(made)["__init__"] if isinstance(made, type) else made)
        yield from (hint for name, hint in hints.items() if name not in given)
        return
    if not isinstance(thing, type):
        if inspect.isfunction(thing):
            yield from typing.get_type_hints(thing).values()
        elif not callable(thing) or typing.get_origin(thing) is not None:
            yield thing  # an alias
        return
    if issubclass(thing, Enum):
        return
    public = {name: hint for name, hint in typing.get_type_hints(thing).items() if name[0] != "_"}
    yield from public.values()
    for name, member in inspect.getmembers(thing):
        if name.startswith("_") and name != "__init__":
            continue
        found = member.fget if isinstance(member, property) else member
        if inspect.isfunction(found) and found.__module__.startswith("dragoman"):
            yield from typing.get_type_hints(found).values()


def test_everything_that_a_signature_mentions_is_exported() -> None:
    exported = {id(getattr(sdk, name)): name for name in sdk.__all__}
    missing: dict[str, set[str]] = {}
    for name in set(sdk.__all__):
        for annotation in annotations_of(getattr(sdk, name)):
            for part in mentioned(annotation):
                ours = getattr(part, "__module__", "").startswith("dragoman")
                if ours and id(part) not in exported:
                    missing.setdefault(part.__name__, set()).add(name)
    assert not missing


def test_every_exported_name_exists_once_and_in_order() -> None:
    assert sorted(sdk.__all__, key=str.lower) == sorted(set(sdk.__all__), key=str.lower)
    assert all(hasattr(sdk, name) for name in sdk.__all__)
