"""Results as files, written piece by piece: whatever their size, little of it is in memory."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from typing import Any

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.extras import require_extra
from dragoman.lab.filters import ANNOTATION, INPUT, LABEL, OUTPUT, SCORE
from dragoman.lab.model import JsonValue, ResultRow

_FIRST: dict[str, type] = {
    "item_id": str,
    "repetition": int,
    "turn": int,
    "run_id": str,
    "status": str,
}
_LAST: dict[str, type] = {
    "latency_ms": float,
    "first_token_ms": float,
    "tokens": int,
    "cost": float,
    "cached": bool,
    "error_code": str,
    "error_message": str,
}

_SAID: dict[str, type] = {"score": float, "label": str, "correction": str, "annotator": str}

_ROWS_IN_A_GROUP = 10_000
_LEAST_INTEGER, _LARGEST_INTEGER = -(2**63), 2**63 - 1

Cell = str | int | float | bool | None
Pages = Callable[[], AsyncIterator[list[ResultRow]]]


class FileFormat(StrEnum):
    """How results are written."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


def file_format(name: str) -> FileFormat:
    """The format of that name."""
    try:
        found = FileFormat(name)
    except ValueError:
        raise InvalidMessage(
            f"Results cannot be written as {name!r}; use {', '.join(FileFormat)}.",
            details={"field": "format"},
        ) from None
    if found is FileFormat.PARQUET:
        require_extra("lab", "An export as parquet")
    return found


def written(
    pages: Pages,
    columns: Mapping[str, bool],
    scores: Sequence[str],
    wanted: FileFormat,
    people: Sequence[str] = (),
) -> AsyncIterator[bytes]:
    """The file in pieces. `columns` are those of inputs and outputs: whether each is numeric.

    `pages` returns the rows; for Parquet twice, since the types of numbers are found first.
    `people` are the names under which people judged rows; a table has what was said last.
    """
    if wanted is FileFormat.JSONL:
        return _jsonl(pages())
    if wanted is FileFormat.CSV:
        return _csv(pages(), _types(columns, scores, people))
    return _parquet(pages, _types(columns, scores, people))


async def _jsonl(pieces: AsyncIterator[list[ResultRow]]) -> AsyncIterator[bytes]:
    async for rows in pieces:
        yield b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


async def _csv(
    pieces: AsyncIterator[list[ResultRow]], types: Mapping[str, type]
) -> AsyncIterator[bytes]:
    yield _lines([list(types)])
    async for rows in pieces:
        yield _lines([[_shown(cell) for cell in _cells(row, types)] for row in rows])


async def _parquet(pages: Pages, types: Mapping[str, type]) -> AsyncIterator[bytes]:
    types = await _with_whole_numbers(pages, types)
    arrow = import_module("pyarrow")
    parquet = import_module("pyarrow.parquet")
    kinds = {
        int: arrow.int64(),
        float: arrow.float64(),
        str: arrow.string(),
        bool: arrow.bool_(),
    }
    schema = arrow.schema([(name, kinds[kind]) for name, kind in types.items()])
    written_so_far = _Pieces()
    with parquet.ParquetWriter(written_so_far, schema) as writer:
        async for cells in _many(pages(), types):
            arrays = [
                arrow.array([_in_column(kind, row[number]) for row in cells], kinds[kind])
                for number, kind in enumerate(types.values())
            ]
            writer.write_table(arrow.table(arrays, schema=schema))
            yield written_so_far.taken()
    yield written_so_far.taken()


class _Numbers:
    """What the numbers of a column are, so that none of them loses a digit."""

    def __init__(self) -> None:
        self._are_whole = True
        self._fit_an_integer = True
        self._fit_a_double = True

    def add(self, cell: Cell) -> None:
        if isinstance(cell, float):
            self._are_whole = False
        elif isinstance(cell, int):
            self._fit_an_integer &= _LEAST_INTEGER <= cell <= _LARGEST_INTEGER
            self._fit_a_double &= _is_a_double(cell)

    @property
    def type(self) -> type:
        if self._are_whole and self._fit_an_integer:
            return int
        return float if self._fit_a_double else str


def _in_column(kind: type, cell: Cell) -> Cell:
    """The cell as Parquet's columns hold it; None where a later row has what does not fit."""
    if not isinstance(cell, int) or isinstance(cell, bool):
        return cell
    if kind is float:
        return float(cell) if _is_a_double(cell) else None
    return cell if _LEAST_INTEGER <= cell <= _LARGEST_INTEGER else None


def _is_a_double(number: int) -> bool:
    try:
        return float(number) == number
    except OverflowError:
        return False


async def _with_whole_numbers(pages: Pages, types: Mapping[str, type]) -> dict[str, type]:
    """The types of columns, where those of numbers hold every number as it is."""
    numeric = {
        name: _Numbers()
        for name, kind in types.items()
        if kind is float and name.startswith((INPUT, OUTPUT))
    }
    if numeric:
        async for rows in pages():
            for row in rows:
                for name, numbers in numeric.items():
                    numbers.add(_cell(row, name))
    return {**types, **{name: numbers.type for name, numbers in numeric.items()}}


async def _many(
    pieces: AsyncIterator[list[ResultRow]], types: Mapping[str, type]
) -> AsyncIterator[list[list[Cell]]]:
    """Rows in larger pieces: the end of a Parquet file describes each, and is kept until then."""
    cells: list[list[Cell]] = []
    async for rows in pieces:
        cells += [_cells(row, types) for row in rows]
        if len(cells) >= _ROWS_IN_A_GROUP:
            yield cells
            cells = []
    if cells:
        yield cells


class _Pieces(io.RawIOBase):
    """A file that is taken away as it is written."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._waiting.append(bytes(data))
        self._written += len(self._waiting[-1])
        return len(self._waiting[-1])

    def tell(self) -> int:
        return self._written

    def taken(self) -> bytes:
        taken, self._waiting = b"".join(self._waiting), []
        return taken


def _types(
    columns: Mapping[str, bool], scores: Sequence[str], people: Sequence[str]
) -> dict[str, type]:
    """Every column of the file, with its type."""
    types = dict(_FIRST)
    types |= {field: float if is_number else str for field, is_number in columns.items()}
    for name in scores:
        types |= {f"{SCORE}{name}": float, f"{LABEL}{name}": str, f"reason.{name}": str}
    for name in people:
        types |= {f"{ANNOTATION}{name}.{part}": kind for part, kind in _SAID.items()}
    return types | _LAST


def _cells(row: ResultRow, types: Mapping[str, type]) -> list[Cell]:
    return [_as(kind, _cell(row, name)) for name, kind in types.items()]


def _as(kind: type, cell: Cell) -> Cell:
    """The cell in the type of its column: one of numbers and text has text."""
    if cell is None or isinstance(cell, kind):
        return cell
    if kind is str:
        return _shown(cell)
    if kind is float and isinstance(cell, int):
        return cell
    return None  # a row that came after the types of the columns were decided


def _cell(row: ResultRow, name: str) -> Cell:
    if name.startswith(INPUT):
        return _plain(row.input.get(name.removeprefix(INPUT)))
    if name.startswith(OUTPUT):
        return _plain(row.output.get(name.removeprefix(OUTPUT)))
    if name.startswith(ANNOTATION):
        of, _, part = name.removeprefix(ANNOTATION).rpartition(".")
        said: Cell = getattr(row.annotated.get(of), part, None)
        return said
    part, dot, of = name.partition(".")
    if dot:
        cell = row.scores.get(of)
        found: Cell = None if cell is None else getattr(cell, part)
        return found
    own: Cell = getattr(row, name)
    return own


def _plain(value: JsonValue) -> Cell:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return msgspec.json.encode(value).decode()


def _shown(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "" if cell is None else str(cell)


def _lines(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
