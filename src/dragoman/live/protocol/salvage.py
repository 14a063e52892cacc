"""Reading a job_result that does not fit the protocol: what fits of it is used.

A node's work is done by the time it sends its result, so one malformed field must not cost the
rest. Fields are read one by one; a malformed optional one is left out and named. A result whose
required fields cannot be read is refused with the attempt it names, so that the attempt can end.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import inspect

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import problems
from dragoman.live.protocol.codec import SubProtocol
from dragoman.live.protocol.fields import AttemptIdField, JobIdField
from dragoman.live.protocol.node_messages import JobResult
from dragoman.live.protocol.nulls import struct_in

S = TypeVar("S", bound=msgspec.Struct)

RESULT_TYPE = "job_result"

Fields = dict[str, msgspec.Raw]
"""The fields of an object, each still as it was written."""

_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
_NULLS = (b"null", b"\xc0")

_NAMES: dict[bool, re.Pattern[bytes]] = {
    False: re.compile(rb'"(type|job_id|attempt_id)"\s*:\s*"([^"\\]*)"'),
    # A short string is led by 0xa0 to 0xbf with its length, a longer one by 0xd9 and its length.
    True: re.compile(
        rb"[\xa4\xa6\xaa](type|job_id|attempt_id)(?:[\xa0-\xbf]|\xd9.)([!-~]+)", re.DOTALL
    ),
}
"""Where a frame of text, or of MessagePack, says what it is and whose."""


class Salvaged(NamedTuple):
    """A result, and the optional fields of it that were left out, such as ``timings.asr_ms``."""

    result: JobResult
    dropped: tuple[str, ...]


def salvage_result(data: bytes | str, sub: SubProtocol, refused: InvalidMessage) -> Salvaged:
    """The result in a frame that was refused; ``refused`` again when the frame holds none.

    A result without its required fields is refused with details ``job_id`` and ``attempt_id``,
    where it names them.
    """
    fields = _fields_of(data, sub)
    if fields is None:
        refused.details.update(_names_in(data, sub))
        raise refused
    if _read(fields.get("type"), str, sub) != RESULT_TYPE:
        raise refused
    dropped: list[str] = []
    try:
        return Salvaged(_read_struct(fields, JobResult, sub, dropped, ""), tuple(dropped))
    except msgspec.ValidationError as error:
        refusal = problems.refusal(error, JobResult, RESULT_TYPE)
    names = {
        "job_id": _read(fields.get("job_id"), JobIdField, sub),
        "attempt_id": _read(fields.get("attempt_id"), AttemptIdField, sub),
    }
    refusal.details.update({name: found for name, found in names.items() if found is not None})
    raise refusal


def _names_in(data: bytes | str, sub: SubProtocol) -> dict[str, str]:
    """The type and the attempt of a result that cannot be read as one object, such as a cut one.

    Empty when it is no result, or when a name is found with several values: the text of a result
    may quote anything.
    """
    written = data.encode(errors="replace") if isinstance(data, str) else data
    found: dict[str, set[str]] = {}
    for name, value in _NAMES[sub.binary].findall(written):
        found.setdefault(name.decode(), set()).add(value.decode(errors="replace"))
    if found.pop("type", set()) != {RESULT_TYPE} or any(len(each) > 1 for each in found.values()):
        return {}
    kinds = {"job_id": JobIdField, "attempt_id": AttemptIdField}
    names = {name: values.pop() for name, values in found.items()}
    try:
        whose = {name: msgspec.convert(value, kinds[name]) for name, value in names.items()}
    except msgspec.ValidationError:
        return {}
    return {"type": RESULT_TYPE, **whose}


def _read_struct(
    fields: Fields, struct: type[S], sub: SubProtocol, dropped: list[str], prefix: str
) -> S:
    """The struct from those fields that fit; ValidationError when a required one does not."""
    values: dict[str, Any] = {}
    for name, field in _fields_named(struct).items():
        raw = fields.get(name)
        if raw is None:
            if field.required:
                raise msgspec.ValidationError(f"Object missing required field `{name}`")
            continue
        if bytes(raw) in _NULLS and not field.required:
            continue
        try:
            values[field.name] = _decode(raw, field.annotation, sub)
        except _UNREADABLE as error:
            if field.required:
                raise msgspec.ValidationError(f"{error} - at `$.{name}`") from error
            path = f"{prefix}{name}"
            inner = _salvage_inner(raw, field.inner, sub, dropped, f"{path}.")
            if inner is None:
                dropped.append(path)
            else:
                values[field.name] = inner
    return struct(**values)


def _salvage_inner(
    raw: msgspec.Raw,
    struct: type[msgspec.Struct] | None,
    sub: SubProtocol,
    dropped: list[str],
    prefix: str,
) -> msgspec.Struct | None:
    """A part of the result from those fields that fit; None when too little does."""
    if struct is None:
        return None
    inner_dropped: list[str] = []
    try:
        fields: Fields = _decode(raw, Fields, sub)
        found = _read_struct(fields, struct, sub, inner_dropped, prefix)
    except _UNREADABLE:
        return None
    dropped += inner_dropped
    return found


def _fields_of(data: bytes | str, sub: SubProtocol) -> Fields | None:
    try:
        if not sub.binary:
            return msgspec.json.decode(data, type=Fields)
        return msgspec.msgpack.decode(data, type=Fields) if isinstance(data, bytes) else None
    except _UNREADABLE:
        return None if sub.binary else _fields_of_loose_json(data)


def _fields_of_loose_json(data: bytes | str) -> Fields | None:
    """Read what is almost JSON: many writers let NaN, infinity and lone surrogates through.

    Each field is written anew by itself, so that only the one at fault fails to be read.
    """
    text = data.decode(errors="replace") if isinstance(data, bytes) else data
    if f'"{RESULT_TYPE}"' not in text:
        return None
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            return None
        return {name: msgspec.Raw(json.dumps(value).encode()) for name, value in found.items()}
    except (ValueError, RecursionError):
        return None


def _read(raw: msgspec.Raw | None, annotation: Any, sub: SubProtocol) -> Any:
    """The value of a field; None when it is absent or does not fit."""
    try:
        return None if raw is None else _decode(raw, annotation, sub)
    except _UNREADABLE:
        return None


def _decode(raw: msgspec.Raw, annotation: Any, sub: SubProtocol) -> Any:
    if sub.binary:
        return msgspec.msgpack.decode(raw, type=annotation)
    return msgspec.json.decode(raw, type=annotation)


class _Field(NamedTuple):
    """What of a struct's field matters here."""

    name: str
    required: bool
    annotation: Any
    inner: type[msgspec.Struct] | None
    """The struct that the field holds by itself, not in a list."""


@cache
def _fields_named(struct: type[msgspec.Struct]) -> dict[str, _Field]:
    """The fields of a struct by their names on the wire."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    annotations = get_type_hints(struct, include_extras=True)
    return {
        field.encode_name: _Field(
            field.name, field.required, annotations[field.name], struct_in(field.type)
        )
        for field in info.fields
    }
