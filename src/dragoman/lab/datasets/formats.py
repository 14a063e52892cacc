"""Which files can be read."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePath
from typing import BinaryIO

from dragoman.errors import DatasetInvalid
from dragoman.lab.datasets.csv_file import read_csv
from dragoman.lab.datasets.jsonl_file import read_jsonl
from dragoman.lab.datasets.parquet_file import read_parquet
from dragoman.lab.datasets.records import BadRecord, Record


class Format(StrEnum):
    """How a dataset file is written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"

    @property
    def counts(self) -> str:
        """What a problem in such a file is found by."""
        return "row" if self is Format.PARQUET else "line"


_SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
}


def records_of(file: BinaryIO, file_format: Format, max_items: int) -> Iterator[Record | BadRecord]:
    """The records of a file; more than `max_items` are refused at once where the file says so."""
    if file_format is Format.CSV:
        return read_csv(file)
    if file_format is Format.JSONL:
        return read_jsonl(file)
    return read_parquet(file, max_items)


def format_of(name: str) -> Format:
    """The format for a format's name (`csv`) or a file's name (`sentences.csv`)."""
    try:
        return Format(name.lower())
    except ValueError:
        pass
    suffix = PurePath(name).suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    raise DatasetInvalid(
        f"`{name}` is no dataset format known here; use a .jsonl, .csv or "
        f".parquet file, or name the format: {', '.join(Format)}",
        details={"field": "format"},
    )
