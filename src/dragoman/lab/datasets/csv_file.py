"""Comma-separated values: a header, then one item a record, quoted newlines and all."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from dragoman.lab.datasets.lines import MAX_RECORD_BYTES, numbered_lines
from dragoman.lab.datasets.problems import Unreadable
from dragoman.lab.datasets.records import BadRecord, Record
from dragoman.lab.datasets.schema import MAX_COLUMNS

MAX_HEADER_BYTES = 1 << 20
"""The header is read as a whole, before limits on its columns can apply."""

_NAMES_SHOWN = 10

# The csv module has a small limit of its own for the whole process. Records are bounded here.
csv.field_size_limit(MAX_RECORD_BYTES)


def read_csv(file: BinaryIO) -> Iterator[Record | BadRecord]:
    """The records of a file, every value as text; empty lines are skipped."""
    source = _Source(file)
    records = _records(source)
    source.max_bytes = MAX_HEADER_BYTES
    header = next(records, None)
    if header is None:
        return
    if isinstance(header, BadRecord):
        raise Unreadable(header.line, f"the header cannot be read: {header.message}")
    names = _checked_header(*header)
    source.max_bytes = MAX_RECORD_BYTES
    for record in records:
        if isinstance(record, BadRecord):
            yield record
            continue
        line, fields = record
        if len(fields) != len(names):
            yield BadRecord(line, f"{len(fields)} columns where the header has {len(names)}")
        elif not all(map(_is_text, fields)):
            yield BadRecord(line, "not UTF-8")
        else:
            yield Record(line, dict(zip(names, fields, strict=True)), source.record_bytes)


class _Source:
    """Feeds lines to the reader, and keeps the line where the current record begins."""

    def __init__(self, file: BinaryIO) -> None:
        self._lines = numbered_lines(file)
        self.record_line = 0
        self.record_bytes = 0
        self.max_bytes = MAX_RECORD_BYTES

    def begin_record(self) -> None:
        self.record_line = self.record_bytes = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.record_line = self.record_line or line.number
        self.record_bytes += len(line.content)
        if line.too_long or self.record_bytes > self.max_bytes:
            what = "header" if self.max_bytes == MAX_HEADER_BYTES else "record"
            raise Unreadable(
                self.record_line,
                f"a {what} longer than {self.max_bytes:,} bytes begins here; "
                "is a quotation mark left open?",
            )
        # Bytes that are not UTF-8 become surrogates, which are reported with their record.
        return line.content.decode("utf-8", errors="surrogateescape")


def _records(source: _Source) -> Iterator[tuple[int, list[str]] | BadRecord]:
    reader = csv.reader(source, strict=True)
    while True:
        source.begin_record()
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield BadRecord(source.record_line, _reason(str(error)))
            continue
        if fields:
            yield source.record_line, fields


def _checked_header(line: int, names: list[str]) -> list[str]:
    if len(names) > MAX_COLUMNS:
        raise Unreadable(line, f"the header has {len(names):,} columns; at most {MAX_COLUMNS:,}")
    if not all(map(_is_text, names)):
        raise Unreadable(line, "the header cannot be read: not UTF-8")
    if "" in names:
        raise Unreadable(line, f"column {names.index('') + 1} of the header has no name")
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        named = ", ".join(repeated[:_NAMES_SHOWN])
        raise Unreadable(line, f"the header names {named} more than once")
    return names


def _is_text(field: str) -> bool:
    if field.isascii():
        return True
    try:
        field.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reason(told: str) -> str:
    if told == "unexpected end of data":
        return "a quotation mark in this record is never closed"
    if "expected after" in told:
        return "text after a closing quotation mark; write a quotation mark inside a field twice"
    if told.startswith("new-line character"):
        return "a carriage return outside quotation marks; end lines with LF or CRLF"
    return told
