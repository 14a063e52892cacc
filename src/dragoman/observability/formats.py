"""How an event looks: one readable line for people, one JSON object a line for machines."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime

import msgspec

from dragoman.observability.redaction import Loggable

_LEVEL_COLOURS = {
    logging.DEBUG: "\x1b[2m",
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}
_BOLD = "\x1b[1m"
_DIM = "\x1b[2m"
_PLAIN = "\x1b[0m"

_BARE = re.compile(r"[\w.:/+@*<>-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_JSON_NAMES = frozenset({"time", "level", "logger", "event", "traceback"})


class ConsoleFormatter(logging.Formatter):
    """``2026-01-31T09:30:00.125Z INFO    node_registered node_id=n-1 (dragoman.live.fleet)``"""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname:<7}"
        time = _rfc3339(record.created)
        event = _one_line(record.getMessage())
        fields = " ".join(f"{name}={_for_people(value)}" for name, value in _fields(record).items())
        logger = f"({record.name})"
        if self._colour:
            level = f"{_LEVEL_COLOURS.get(record.levelno, '')}{level}{_PLAIN}"
            time, logger = f"{_DIM}{time}{_PLAIN}", f"{_DIM}{logger}{_PLAIN}"
            event = f"{_BOLD}{event}{_PLAIN}"
        line = " ".join(part for part in (time, level, event, fields, logger) if part)
        return "\n".join(part for part in (line, record.exc_text, record.stack_info) if part)


class JsonFormatter(logging.Formatter):
    """``{"time":"...Z","level":"info","logger":"...","event":"node_registered","node_id":"n-1"}``"""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Loggable] = {
            "time": _rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        for name, value in _fields(record).items():
            # A field that shares a name with one of ours stands beside it, it does not replace it.
            line[f"{name}_" if name in _JSON_NAMES else name] = value
        traceback = record.exc_text or record.stack_info
        if traceback:
            line["traceback"] = traceback
        return _to_json(line)


def _fields(record: logging.LogRecord) -> dict[str, Loggable]:
    fields: dict[str, Loggable] = getattr(record, "fields", {})
    return fields


def _rfc3339(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _for_people(value: Loggable) -> str:
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else _one_line(_to_json(value))
    if isinstance(value, list):
        return f"[{','.join(_for_people(member) for member in value)}]"
    if isinstance(value, dict):
        members = (f"{_one_line(name)}:{_for_people(member)}" for name, member in value.items())
        return f"{{{','.join(members)}}}"
    return _to_json(value)


def _one_line(text: str) -> str:
    """The text with control characters spelled out: a value cannot forge a second line."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _to_json(value: Loggable) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError):
        # Half a character, or an integer past 64 bits: the standard library spells both out.
        return json.dumps(value, ensure_ascii=True)
