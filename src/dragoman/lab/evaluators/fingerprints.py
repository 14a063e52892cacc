"""What a score depends on besides the output: two runs compare only where this is the same."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from dragoman.lab.model import JsonValue

_MAX_SOURCE_CHARACTERS = 20_000
_SHOWN_CHARACTERS = 60
_ABSENT = "not set"

_canonical = msgspec.json.Encoder(order="sorted").encode


class Fingerprint(msgspec.Struct, frozen=True):
    """An evaluator as it was when a run started."""

    hash: str
    parts: dict[str, JsonValue]
    """What the hash was made of, for people: kind, settings, versions of libraries, source."""


def fingerprint_of(parts: Mapping[str, JsonValue]) -> Fingerprint:
    """The fingerprint of these parts."""
    kept = dict(parts)
    return Fingerprint(hashlib.sha256(_canonical(kept)).hexdigest(), kept)


def differences(one: Fingerprint, other: Fingerprint) -> list[str]:
    """What differs between two evaluators, in words; nothing when their scores compare."""
    if one.hash == other.hash:
        return []
    first, second = _flat(one.parts), _flat(other.parts)
    return [
        _difference(name, first.get(name), second.get(name))
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]


@lru_cache(maxsize=256)
def library_version(distribution: str) -> str:
    """The version of an installed library."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


_read: WeakKeyDictionary[Any, dict[str, JsonValue]] = WeakKeyDictionary()
"""Sources as they were when first asked for: a file may change after it was imported."""


def source_of(function: Callable[..., Any]) -> dict[str, JsonValue]:
    """The source of a function, and its hash; its code where there is no source, as in a shell."""
    called = inspect.unwrap(function)
    if inspect.ismethod(called):
        called = called.__func__
    if not (inspect.isfunction(called) or inspect.isclass(called)):
        called = type(called)
    if called not in _read:
        _read[called] = _source(called)
    return _read[called]


def _source(called: Any) -> dict[str, JsonValue]:
    try:
        text = inspect.getsource(called)
    except (OSError, TypeError):
        code = getattr(called, "__code__", None)
        if code is None:
            return {"source": None}
        content = repr((code.co_code, code.co_names, _plain_constants(code.co_consts)))
        return {"code_sha256": hashlib.sha256(content.encode()).hexdigest()}
    return {
        "source": text[:_MAX_SOURCE_CHARACTERS],
        "source_sha256": hashlib.sha256(text.encode(errors="replace")).hexdigest(),
    }


def _plain_constants(constants: tuple[Any, ...]) -> list[str]:
    """The constants of some code; those of code inside it without their place in memory."""
    return [
        repr((one.co_code, one.co_names, _plain_constants(one.co_consts)))
        if inspect.iscode(one)
        else repr(one)
        for one in constants
    ]


def _flat(parts: Mapping[str, JsonValue], above: str = "") -> dict[str, JsonValue]:
    flat: dict[str, JsonValue] = {}
    for name, value in parts.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{above}{name}.")
        elif value is not None:
            flat[f"{above}{name}"] = value
    return flat


def _difference(name: str, one: JsonValue, other: JsonValue) -> str:
    first, second = _shown(one), _shown(other)
    if len(first) > _SHOWN_CHARACTERS or len(second) > _SHOWN_CHARACTERS:
        return f"{name} differs"
    return f"{name} is {first} in one and {second} in the other"


def _shown(value: JsonValue) -> str:
    if value is None:
        return _ABSENT
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
