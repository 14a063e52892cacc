"""What is wrong with a message, in words that help the one who sent it."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache

import msgspec
from msgspec import inspect

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import fields, languages
from dragoman.spelling import nearest
from dragoman.surrogates import half_pair, lone_surrogate

_SHOWN_CHARACTERS = 64
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_ENUM = re.compile(r"Invalid enum value (?P<value>.*)", re.DOTALL)
_PATTERN_MEANINGS = {
    f"Expected `str` matching regex {pattern!r}": f"expected {meaning}"
    for table in (fields.PATTERN_MEANINGS, languages.PATTERN_MEANINGS)
    for pattern, meaning in table.items()
}

_type_info = cache(inspect.type_info)


class MessageProblem(StrEnum):
    """What kind of wrong a message is; ``details["problem"]`` of its InvalidMessage."""

    UNPARSABLE = "unparsable"
    UNKNOWN_TYPE = "unknown_type"
    BAD_FIELD = "bad_field"


def unparsable(reason: Exception | str, data: bytes | str = b"") -> InvalidMessage:
    """The error for data that is not one object, whatever it should have been."""
    if isinstance(reason, RecursionError):
        reason = "it is nested too deeply"
    elif half := lone_surrogate(data):  # the decoder would say that the data was truncated
        reason = half_pair(half)
    return InvalidMessage(
        f"cannot be read as one object: {reason}",
        details={"problem": MessageProblem.UNPARSABLE.value},
    )


def unknown_type(found: object, known: list[str]) -> InvalidMessage:
    """The error for an object whose ``type`` is missing or is none that may be sent here."""
    details: dict[str, object] = {"problem": MessageProblem.UNKNOWN_TYPE.value}
    if isinstance(found, str):
        shown = found[:_SHOWN_CHARACTERS]
        details["type"] = shown
        says = f"unknown message type `{shown}`"
    else:
        says = "the message has no `type`"
    return InvalidMessage(f"{says}; expected one of {', '.join(known)}", details=details)


def refusal(
    error: Exception, expected: type[msgspec.Struct], name: str | None = None
) -> InvalidMessage:
    """The error for data that could not be read as ``expected``.

    ``name`` is the message's type; a request body has none.
    """
    if not isinstance(error, msgspec.ValidationError):
        return unparsable(error)
    reason, path = _reason_and_path(str(error))
    if missing := _MISSING.fullmatch(reason):
        path = f"{path}.{missing['name']}".lstrip(".")
        reason = "it is missing"
    elif unknown := _UNKNOWN.fullmatch(reason):
        field = unknown["name"][:_SHOWN_CHARACTERS]
        known = _known_fields(expected, path)
        meant = nearest(field, known)
        hint = f" (did you mean `{meant}`?)" if meant else ""
        path = f"{path}.{field}".lstrip(".")
        reason = f"it is not known{hint}; there are {', '.join(known)}"
    elif wrong := _ENUM.fullmatch(reason):
        allowed = ", ".join(_allowed_values(expected, path))
        reason = f"{wrong['value'][:_SHOWN_CHARACTERS]} is not one of {allowed}"
    reason = _PATTERN_MEANINGS.get(reason, reason)
    details = {"problem": MessageProblem.BAD_FIELD.value, "field": path}
    if name is not None:
        details["type"] = name
    where = f"`{path}` of the {name or 'request'}" if path else f"the {name or 'request'}"
    return InvalidMessage(f"{where} does not fit: {reason}", details=details)


def _reason_and_path(text: str) -> tuple[str, str]:
    """Take msgspec's ``Expected `int`, got `str` - at `$.services[0].type``` apart.

    The last ``at`` is msgspec's own; one before it may be the sender's.
    """
    reason, _, where = text.rpartition(" - at ") if " - at " in text else (text, "", "")
    return reason, where.partition("$")[2].rstrip("`").lstrip(".")


def _allowed_values(expected: type[msgspec.Struct], path: str) -> list[str]:
    """The values that the enum at the path may have."""
    at = _type_at(expected, path)
    return [str(word) for word in at.cls] if isinstance(at, inspect.EnumType) else []


def _known_fields(expected: type[msgspec.Struct], path: str) -> list[str]:
    """The fields that the object at the path may have."""
    at = _type_at(expected, path)
    return [field.encode_name for field in at.fields] if isinstance(at, inspect.StructType) else []


def _type_at(expected: type[msgspec.Struct], path: str) -> inspect.Type:
    """What is expected at a path such as ``services[0].type``."""
    at = _type_info(expected)
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(at, inspect.StructType):
            at = _plain(next(field.type for field in at.fields if field.encode_name == step))
        elif isinstance(at, inspect.VarTupleType | inspect.ListType):
            at = _plain(at.item_type)
    return at


def _plain(type_info: inspect.Type) -> inspect.Type:
    """The type without its metadata and without the null it may also be."""
    if isinstance(type_info, inspect.Metadata):
        return _plain(type_info.type)
    if isinstance(type_info, inspect.UnionType):
        return _plain(
            next(part for part in type_info.types if not isinstance(part, inspect.NoneType))
        )
    return type_info
