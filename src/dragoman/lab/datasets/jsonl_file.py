"""JSON lines: one object a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from dragoman.lab.datasets.lines import MAX_RECORD_BYTES, Line, numbered_lines
from dragoman.lab.datasets.records import BadRecord, Record
from dragoman.surrogates import half_pair, lone_surrogate

_JSON_SPACE = b" \t\r\n"
_NO_NUMBER = re.compile(rb"[:\[,]\s*-?(NaN|Infinity)")


def read_jsonl(file: BinaryIO) -> Iterator[Record | BadRecord]:
    """The objects of a file; empty lines are skipped."""
    for line in numbered_lines(file):
        content = line.content.strip(_JSON_SPACE)
        if content or line.too_long:
            yield _record(line, content)


def _record(line: Line, content: bytes) -> Record | BadRecord:
    if line.too_long:
        return BadRecord(line.number, f"longer than {MAX_RECORD_BYTES:,} bytes")
    try:
        values = msgspec.json.decode(content)
    except UnicodeDecodeError:
        return BadRecord(line.number, f"not UTF-8 (byte {_first_bad_byte(line.content)})")
    except RecursionError:
        return BadRecord(line.number, "nested too deeply")
    except msgspec.MsgspecError as error:
        return BadRecord(line.number, f"not JSON: {_reason(str(error), content)}")
    if not isinstance(values, dict):
        return BadRecord(line.number, 'expected an object, such as {"source": "..."}')
    return Record(line.number, values, len(content))


def _first_bad_byte(content: bytes) -> int:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return error.start + 1
    return 1


def _reason(told: str, content: bytes) -> str:
    """The decoder's message, with a hint for the most common mistakes."""
    # The decoder calls such a line truncated, or malformed at another place.
    if half := lone_surrogate(content):
        return half_pair(half)
    reason, _, _ = told.removeprefix("JSON is malformed: ").partition(" - at ")
    if _NO_NUMBER.search(content):
        return f"{reason}; note that NaN and Infinity are not JSON, write null"
    return reason
