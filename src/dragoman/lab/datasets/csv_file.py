"""Comma-separated values: a header, then one item a record, quoted newlines and all."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import BinaryIO

from dragoman.lab.datasets.lines import MAX_RECORD_BYTES, numbered_lines
from dragoman.lab.datasets.problems import Unreadable
from dragoman.lab.datasets.records import BadRecord, Record

# The module has one limit for the process, made for the memory of 2003. Records are bounded here.
csv.field_size_limit(MAX_RECORD_BYTES)


def read_csv(file: BinaryIO) -> Iterator[Record | BadRecord]:
    """The records of a file, every value as text; empty lines are passed over."""
    source = _Source(file)
    records = _records(source)
    header = next(records, None)
    if header is None:
        return
    if isinstance(header, BadRecord):
        raise Unreadable(header.line, f"the header cannot be read: {header.message}")
    names = _checked_header(*header)
    for record in records:
        if isinstance(record, BadRecord):
            yield record
            continue
        line, fields = record
        if len(fields) != len(names):
            yield BadRecord(line, f"{len(fields)} columns where the header has {len(names)}")
        else:
            yield Record(line, dict(zip(names, fields, strict=True)), source.record_bytes)


class _Source:
    """Feeds lines to the reader, and knows where the record being read begins."""

    def __init__(self, file: BinaryIO) -> None:
        self._lines = numbered_lines(file)
        self.record_line = 0
        self.record_bytes = 0

    def begin_record(self) -> None:
        self.record_line = self.record_bytes = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.record_line = self.record_line or line.number
        self.record_bytes += len(line.content)
        if line.too_long or self.record_bytes > MAX_RECORD_BYTES:
            raise Unreadable(
                self.record_line,
                f"a record longer than {MAX_RECORD_BYTES:,} bytes begins here; "
                "is a quotation mark left open?",
            )
        # Bytes that are not UTF-8 travel on as surrogates, to be reported with their record.
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
        if not fields:
            continue
        if all(_is_text(field) for field in fields):
            yield source.record_line, fields
        else:
            yield BadRecord(source.record_line, "not UTF-8")


def _checked_header(line: int, names: list[str]) -> list[str]:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if "" in names:
        raise Unreadable(line, f"column {names.index('') + 1} of the header has no name")
    if repeated:
        raise Unreadable(line, f"the header names {', '.join(repeated)} more than once")
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
        return "a quotation mark that opens in this record is never closed"
    if "expected after" in told:
        return "text behind a closing quotation mark; write a quotation mark inside a field twice"
    if told.startswith("new-line character"):
        return "a carriage return outside quotation marks; end lines with LF or CRLF"
    return told
