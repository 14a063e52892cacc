"""What must never reach a log: keys, tokens, and what people say.

Two nets, because one always has a hole. A value is left out for the *name* it is logged under, and
whatever is left is searched for what *looks like* a secret, also in messages of other libraries.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
import re
import traceback
from collections.abc import Mapping, Set
from datetime import date
from functools import lru_cache
from pathlib import PurePath
from uuid import UUID

import msgspec

REDACTED = "***"

Loggable = str | int | float | bool | None | list["Loggable"] | dict[str, "Loggable"]
"""What is left of a value once it is safe to write."""

_SECRET_WORDS = frozenset(
    {
        *("token", "tokens", "key", "keys", "apikey", "secret", "secrets", "password", "passwd"),
        *("authorization", "bearer", "credential", "credentials", "cookie", "cookies"),
        *("audio", "text", "texts", "transcript", "payload", "payloads", "body"),
    }
)
"""A field with one of these words in its name is never written: ``resume_token``, ``text_asr``."""

_LABEL_WORDS = frozenset({"id", "format"})
"""... unless it ends in one of these: ``key_id`` and ``audio_format`` tell nothing."""

_QUANTITY_WORDS = frozenset({"tokens", "bytes", "ms", "seconds", "count", "size"})
"""... or it holds a number and has one of these: ``audio_bytes=4096``, ``tokens=512``."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_PATTERNS = (
    # Dragoman's own keys, wherever they stand.
    (re.compile(r"(dg[ms]_)[\w-]+"), rf"\1{REDACTED}"),
    # "Authorization: Bearer x", {'authorization': 'Basic x'}
    (
        re.compile(r"(?i)(authorization\W{1,6})(?:(?:bearer|basic|digest)\s+)?[^\s\"',;}]+"),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"(?i)\b(bearer\s+)[^\s\"',;}]+"), rf"\1{REDACTED}"),
    # ?token=x, registration_token: x, "password": "x"
    (
        re.compile(
            r"(?i)((?:token|secret|password|passwd|api[_-]?key)"
            r"[\\\"']*\s*[:=]\s*[\\\"']*)[^\s\\\"'&,;}]+"
        ),
        rf"\1{REDACTED}",
    ),
    # redis://user:password@host
    (re.compile(r"(://[^\s:/@]*:)[^\s/@]+@"), rf"\1{REDACTED}@"),
)

_HINTS = ("dgm_", "dgs_", "authorization", "bearer", "token", "secret", "passw", "key", "://")
"""No pattern matches a text without one of these; most texts have none and are done at once."""

_MAX_DEPTH = 6
_MAX_MEMBERS = 100
_MAX_CHARACTERS = 4_000


def redact_text(text: str) -> str:
    """The text without anything that looks like a key, a token or a password."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def redact_fields(fields: Mapping[str, object]) -> dict[str, Loggable]:
    """The fields of an event, safe to write."""
    return _redact_mapping(fields, _MAX_DEPTH)


def is_secret(name: str, value: object) -> bool:
    """Whether a value is left out because of the name it is logged under."""
    words = _words(name)
    if _SECRET_WORDS.isdisjoint(words) or words[-1] in _LABEL_WORDS:
        return False
    return not (isinstance(value, int | float) and not _QUANTITY_WORDS.isdisjoint(words))


@lru_cache(maxsize=1_000)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


def _redact_mapping(fields: Mapping[str, object], depth: int) -> dict[str, Loggable]:
    safe: dict[str, Loggable] = {}
    for name, value in fields.items():
        if len(safe) == _MAX_MEMBERS:
            safe["..."] = len(fields) - _MAX_MEMBERS
            break
        safe[redact_text(str(name))] = (
            REDACTED if is_secret(str(name), value) else _redact_value(value, depth - 1)
        )
    return safe


def _redact_value(value: object, depth: int) -> Loggable:
    """A value as plain data. A type that is not known to be harmless is only named."""
    match value:
        case enum.Enum():
            return _redact_value(value.value, depth)
        case None | bool() | int() | float():
            return value
        case str():
            return redact_text(value[:_MAX_CHARACTERS])
        case bytes() | bytearray() | memoryview():
            return f"<{len(value)} bytes>"
        case BaseException():
            return f"{type(value).__name__}: {redact_text(str(value)[:_MAX_CHARACTERS])}"
        case PurePath() | UUID() | date():
            return redact_text(str(value))
        case _ if depth <= 0:
            return "..."
        case Mapping():
            return _redact_mapping(value, depth)
        case list() | tuple() | Set():
            members = list(value)
            safe = [_redact_value(member, depth - 1) for member in members[:_MAX_MEMBERS]]
            return safe if len(members) <= _MAX_MEMBERS else [*safe, "..."]
        case msgspec.Struct():
            return _redact_mapping(msgspec.structs.asdict(value), depth)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in dataclasses.fields(value))
            return _redact_mapping({name: getattr(value, name) for name in names}, depth)
        case _:
            return f"<{type(value).__name__}>"


class RedactionFilter(logging.Filter):
    """Cleans every record that reaches the handler, whichever library wrote it."""

    def filter(self, record: logging.LogRecord) -> bool:
        fields = getattr(record, "fields", None)
        if fields is not None:
            record.fields = redact_fields(fields)
        record.msg = redact_text(_message(record))
        record.args = None
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = redact_text("".join(traceback.format_exception(record.exc_info[1])))
            # The exception itself still holds what was cut from its text.
            record.exc_info = None
        elif record.exc_text:
            record.exc_text = redact_text(record.exc_text)
        if record.stack_info:
            record.stack_info = redact_text(record.stack_info)
        return True


def _message(record: logging.LogRecord) -> str:
    """The record's message, with arguments cleaned by type before they are put in."""
    args = record.args
    if isinstance(args, Mapping):
        record.args = {name: _redact_argument(value) for name, value in args.items()}
    elif args:
        record.args = tuple(_redact_argument(value) for value in args)
    try:
        return record.getMessage()
    except Exception:  # a library's wrong format string must not cost the line
        return str(record.msg)


def _redact_argument(value: object) -> object:
    """Bytes are never written; numbers stay numbers, so that ``%d`` still works."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    return value
