"""Writes a dataset version as a file that can be imported again."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.datasets import Format, columns_of
from dragoman.lab.library.library import Library
from dragoman.lab.library.parquet_export import exported_as_parquet
from dragoman.lab.model import DatasetVersion, Item, JsonValue

_ITEMS_AT_ONCE = 1000


def exported(
    library: Library, version: DatasetVersion, file_format: Format
) -> AsyncIterator[bytes]:
    """The file in pieces; a version that the format cannot hold is refused first."""
    if file_format is Format.CSV:
        if version.max_turns > 1:
            raise InvalidMessage(
                "Items with several turns do not fit into the rows of a CSV file; export as jsonl "
                "or parquet.",
                details={"field": "format"},
            )
        return _csv(library, version)
    if file_format is Format.PARQUET:
        return exported_as_parquet(version, lambda: pages(library, version))
    return _jsonl(library, version)


async def _jsonl(library: Library, version: DatasetVersion) -> AsyncIterator[bytes]:
    async for items in pages(library, version):
        yield b"".join(msgspec.json.encode(_record(item)) + b"\n" for item in items)


async def _csv(library: Library, version: DatasetVersion) -> AsyncIterator[bytes]:
    columns = columns_of(version.schema)
    yield _rows([columns])
    async for items in pages(library, version):
        yield _rows([_cell(item.turns[0].get(column)) for column in columns] for item in items)


async def pages(library: Library, version: DatasetVersion) -> AsyncIterator[Sequence[Item]]:
    """Every item of a version, some at a time."""
    after = ""
    while items := await library.items(version.version_id, after=after, most=_ITEMS_AT_ONCE):
        yield items
        after = items[-1].item_id


def _record(item: Item) -> object:
    return item.turns[0] if len(item.turns) == 1 else {"turns": item.turns}


def _rows(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _cell(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
