"""Writes a dataset version as a Parquet file, from which the same version can be imported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.extras import require_extra
from dragoman.lab.datasets import TURNS, ParquetMark
from dragoman.lab.library.pieces import Pieces
from dragoman.lab.model import DatasetVersion, Item, JsonValue, Turn

GROUP_ROWS = 10_000
GROUP_BYTES = 16 << 20
"""A row group is written when it has so many rows, or so many bytes."""

_LARGEST_INTEGER = 2**63 - 1
_LARGEST_EXACT_DOUBLE = 2**53

Pages = Callable[[], AsyncIterator[Sequence[Item]]]


def exported_as_parquet(version: DatasetVersion, pages: Pages) -> AsyncIterator[bytes]:
    """The file in pieces. `pages` returns the items, twice: the columns' types are found first."""
    require_extra("lab", "Writing a Parquet file", ["pyarrow"])
    if "" in _names(version.schema):
        raise InvalidMessage(
            "A column without a name does not fit into a Parquet file; export as jsonl.",
            details={"field": "format"},
        )
    return _written(version, pages)


async def _written(version: DatasetVersion, pages: Pages) -> AsyncIterator[bytes]:
    is_conversation = version.max_turns > 1
    columns = {} if is_conversation else {name: _Column() for name in _names(version.schema)}
    if not is_conversation:
        async for items in pages():
            await asyncio.to_thread(_look_at, columns, items)
    file = await asyncio.to_thread(_File, _conversations() if is_conversation else _fields(columns))
    as_rows = _turns_rows if is_conversation else _flat_rows
    async for items in pages():
        yield await asyncio.to_thread(file.add, as_rows(items))
    yield await asyncio.to_thread(file.end)


def _names(schema: dict[str, JsonValue]) -> list[str]:
    properties = schema.get("properties")
    return list(properties) if isinstance(properties, dict) else []


# --- which type a column has --------------------------------------------------------------------


class _Column:
    """What a column's values are, so that each comes back as it was."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()

    def add(self, value: JsonValue) -> None:
        self.kinds.add(_kind(value))


def _kind(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        if abs(value) <= _LARGEST_EXACT_DOUBLE:
            return "integer"
        return "long" if abs(value) <= _LARGEST_INTEGER else "other"
    if isinstance(value, float):
        return "round" if value.is_integer() else "fraction"
    if value is None:
        return "null"
    return "text" if isinstance(value, str) else "other"


def _look_at(columns: dict[str, _Column], items: Sequence[Item]) -> None:
    for item in items:
        turn = item.turns[0]
        for name, column in columns.items():
            if name in turn:
                column.add(turn[name])
            else:
                column.kinds.add("absent")


_TYPES: Sequence[tuple[frozenset[str], str, ParquetMark | None]] = (
    (frozenset({"text"}), "string", None),
    (frozenset({"boolean"}), "bool_", None),
    (frozenset({"integer", "long"}), "int64", None),
    (frozenset({"round", "fraction"}), "float64", None),
    (frozenset({"integer", "fraction"}), "float64", ParquetMark.WHOLE),
)
"""Which kinds of values fit into which type of Arrow, and how a reader gets them back."""


def _form(kinds: set[str]) -> tuple[str, list[ParquetMark]]:
    marks = [ParquetMark.ABSENT] if "absent" in kinds else []
    if {"absent", "null"} <= kinds:
        # A Parquet column has one way to have no value; here there are two.
        return "string", [ParquetMark.JSON_TEXT, *marks]
    values = kinds - {"absent", "null"}
    for fitting, type_name, mark in _TYPES:
        if values <= fitting:
            return type_name, marks if mark is None else [mark, *marks]
    return "string", [ParquetMark.JSON_TEXT, *marks]


def _fields(columns: dict[str, _Column]) -> list[tuple[str, str, list[ParquetMark]]]:
    return [(name, *_form(column.kinds)) for name, column in columns.items()]


def _conversations() -> list[tuple[str, str, list[ParquetMark]]]:
    return [(TURNS, "string", [ParquetMark.JSON_TEXT])]


def _flat_rows(items: Sequence[Item]) -> Iterable[Turn]:
    return (item.turns[0] for item in items)


def _turns_rows(items: Sequence[Item]) -> Iterable[Turn]:
    return ({TURNS: [dict(turn) for turn in item.turns]} for item in items)


# --- the file ------------------------------------------------------------------------------------


class _File:
    """A file that is written one row group at a time."""

    def __init__(self, fields: list[tuple[str, str, list[ParquetMark]]]) -> None:
        import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

        self._arrow = pa
        self._json = [ParquetMark.JSON_TEXT in marks for _, _, marks in fields]
        self._absent = [ParquetMark.ABSENT in marks for _, _, marks in fields]
        self._schema = pa.schema(
            [
                pa.field(name, getattr(pa, type_name)(), metadata=_metadata(marks))
                for name, type_name, marks in fields
            ]
        )
        self._out = Pieces()
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._out, mode="w"), self._schema, compression="zstd"
        )
        self._batches: list[Any] = []

    def add(self, rows: Iterable[Turn]) -> bytes:
        """Add rows; returns what can be sent by now."""
        turns = list(rows)
        arrays = [
            self._arrow.array([self._cell(number, turn) for turn in turns], field.type)
            for number, field in enumerate(self._schema)
        ]
        self._batches.append(self._arrow.record_batch(arrays, schema=self._schema))
        rows_held = sum(batch.num_rows for batch in self._batches)
        if rows_held >= GROUP_ROWS or sum(batch.nbytes for batch in self._batches) >= GROUP_BYTES:
            self._write_group()
        return self._out.taken()

    def end(self) -> bytes:
        """The rest of the file."""
        if self._batches:
            self._write_group()
        self._writer.close()
        return self._out.taken()

    def _cell(self, number: int, turn: Turn) -> JsonValue:
        name = self._schema.names[number]
        if name not in turn:
            return None
        value = turn[name]
        if not self._json[number] or (value is None and not self._absent[number]):
            return value
        return msgspec.json.encode(value).decode()

    def _write_group(self) -> None:
        table = self._arrow.Table.from_batches(self._batches, self._schema)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._batches = []


def _metadata(marks: list[ParquetMark]) -> dict[str, str] | None:
    return {ParquetMark.KEY: " ".join(marks)} if marks else None
