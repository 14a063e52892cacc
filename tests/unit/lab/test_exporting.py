"""Results as files."""

from __future__ import annotations

import asyncio
import csv
import gc
import io
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from dragoman.lab.exporting import FileFormat, written
from dragoman.lab.model import ContentId, JsonValue, ResultRow, RunId, ScoreCell
from dragoman.lab.states import ItemStatus

VALUES: tuple[JsonValue, ...] = ("text", 3, 1.5, True, None, ["a", 1], {"k": "ñ"}, "=1+1")
AS_TEXT = ["text", "3", "1.5", "true", None, '["a",1]', '{"k":"ñ"}', "=1+1"]


def row_of(number: int, value: JsonValue) -> ResultRow:
    return ResultRow(
        item_id=ContentId(f"i-{number}"),
        turn=0,
        run_id=RunId("r-1"),
        status=ItemStatus.SUCCESS,
        input={"mixed": value, "n": number},
        output={},
        scores={"a.b": ScoreCell(0.5, "pass", 'it said "no"\n')},
        latency_ms=None,
        tokens=7,
        cost=None,
        error_code=None,
        error_message=None,
        repetition=2,
        cached=True,
    )


async def pieces() -> AsyncIterator[list[ResultRow]]:
    rows = [row_of(number, value) for number, value in enumerate(VALUES)]
    yield rows[:3]
    yield []
    yield rows[3:]


def exported(wanted: FileFormat) -> bytes:
    async def collect() -> bytes:
        columns = {"input.mixed": False, "input.n": True}
        return b"".join([one async for one in written(pieces, columns, ["a.b"], wanted)])

    return asyncio.run(collect())


def test_a_column_of_numbers_and_text_is_written_as_text() -> None:
    read: list[dict[str, Any]] = pq.read_table(io.BytesIO(exported(FileFormat.PARQUET))).to_pylist()
    assert [row["input.mixed"] for row in read] == AS_TEXT
    assert [row["input.n"] for row in read] == [float(number) for number in range(len(VALUES))]
    assert {(row["repetition"], row["turn"], row["cached"]) for row in read} == {(2, 0, True)}
    assert {row["reason.a.b"] for row in read} == {'it said "no"\n'}


def test_a_table_of_text_has_the_same_cells() -> None:
    lines = list(csv.DictReader(io.StringIO(exported(FileFormat.CSV).decode(), newline="")))
    assert [line["input.mixed"] or None for line in lines] == AS_TEXT
    assert {(line["repetition"], line["cached"], line["tokens"]) for line in lines} == {
        ("2", "true", "7")
    }
    assert {line["reason.a.b"] for line in lines} == {'it said "no"\n'}


HALVES: tuple[JsonValue, ...] = (1, 0.5)
IDS: tuple[JsonValue, ...] = (2**53 + 1, -(2**63), 2**63 - 1, None)
HASHES: tuple[JsonValue, ...] = (2**64 - 1, 3)
POWERS: tuple[JsonValue, ...] = (2**70, 0.5)
MIXED: tuple[JsonValue, ...] = (2**53 + 1, 0.5)


def exported_numbers(wanted: FileFormat, numbers: tuple[JsonValue, ...]) -> bytes:
    async def rows() -> AsyncIterator[list[ResultRow]]:
        yield [row_of(number, value) for number, value in enumerate(numbers)]

    async def collect() -> bytes:
        columns = {"input.mixed": True}
        return b"".join([one async for one in written(rows, columns, [], wanted)])

    return asyncio.run(collect())


@pytest.mark.parametrize(
    ("numbers", "cells"),
    [
        (IDS, ["9007199254740993", "-9223372036854775808", "9223372036854775807", ""]),
        (HASHES, ["18446744073709551615", "3"]),
        (HALVES, ["1", "0.5"]),
    ],
)
def test_a_table_of_text_has_numbers_as_they_are(
    numbers: tuple[JsonValue, ...], cells: list[str]
) -> None:
    text = exported_numbers(FileFormat.CSV, numbers).decode()
    lines = csv.DictReader(io.StringIO(text, newline=""))
    assert [line["input.mixed"] for line in lines] == cells


@pytest.mark.parametrize(
    ("numbers", "kind", "cells"),
    [
        (IDS, "int64", list(IDS)),
        (HALVES, "double", [1.0, 0.5]),
        (POWERS, "double", [float(2**70), 0.5]),
        (HASHES, "string", ["18446744073709551615", "3"]),
        (MIXED, "string", ["9007199254740993", "0.5"]),
    ],
)
def test_a_parquet_column_loses_no_digit_of_a_number(
    numbers: tuple[JsonValue, ...], kind: str, cells: list[JsonValue]
) -> None:
    table = pq.read_table(io.BytesIO(exported_numbers(FileFormat.PARQUET, numbers)))
    assert str(table.schema.field("input.mixed").type) == kind
    assert table.column("input.mixed").to_pylist() == cells


def test_what_a_later_row_has_may_not_fit_its_column_and_the_file_is_whole() -> None:
    values: list[tuple[JsonValue, ...]] = [(1, 2), (1, 2**80, 0.5, 10**400)]

    def rows() -> AsyncIterator[list[ResultRow]]:
        return page(values.pop(0))

    async def page(numbers: tuple[JsonValue, ...]) -> AsyncIterator[list[ResultRow]]:
        yield [row_of(number, value) for number, value in enumerate(numbers)]

    async def collect() -> bytes:
        columns = {"input.mixed": True}
        parts = [one async for one in written(rows, columns, [], FileFormat.PARQUET)]
        return b"".join(parts)

    table = pq.read_table(io.BytesIO(asyncio.run(collect())))
    assert table.column("input.mixed").to_pylist() == [1, None, None, None]


@pytest.mark.parametrize("wanted", list(FileFormat))
def test_a_file_without_rows_is_a_file(wanted: FileFormat) -> None:
    async def none() -> AsyncIterator[list[ResultRow]]:
        yield []

    async def collect() -> bytes:
        return b"".join([one async for one in written(none, {}, [], wanted)])

    found = asyncio.run(collect())
    assert (found == b"") is (wanted is FileFormat.JSONL)


def peak_of(wanted: FileFormat, pages: int) -> int:
    """The most bytes that an export held at a time, of so many pages of 100 rows of 1 kB."""

    async def many() -> AsyncIterator[list[ResultRow]]:
        for page in range(pages):
            yield [row_of(number, f"{page} {number} " * 100) for number in range(100)]

    async def consume() -> int:
        columns = {"input.mixed": False, "input.n": True}
        size = 0
        async for piece in written(many, columns, ["a.b"], wanted):
            size += len(piece)
        return size

    gc.collect()
    tracemalloc.start()
    try:
        assert asyncio.run(consume()) > 0
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("wanted", [FileFormat.CSV, FileFormat.JSONL])
def test_memory_does_not_grow_with_the_rows(wanted: FileFormat) -> None:
    # The first export imports what it needs.
    peak_of(wanted, 1)
    assert peak_of(wanted, 12) < peak_of(wanted, 3) * 1.2
