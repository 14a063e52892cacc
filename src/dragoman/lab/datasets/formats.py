"""Which files can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import PurePath
from typing import BinaryIO

from dragoman.errors import DatasetInvalid
from dragoman.lab.datasets.csv_file import read_csv
from dragoman.lab.datasets.jsonl_file import read_jsonl
from dragoman.lab.datasets.records import BadRecord, Record


class Format(StrEnum):
    """How a dataset file is written."""

    JSONL = "jsonl"
    CSV = "csv"


FORMATS: Mapping[Format, Callable[[BinaryIO], Iterator[Record | BadRecord]]] = {
    Format.JSONL: read_jsonl,
    Format.CSV: read_csv,
}
"""How the records of each format are read."""

_SUFFIXES = {".jsonl": Format.JSONL, ".ndjson": Format.JSONL, ".csv": Format.CSV}


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
        f"`{name}` is no dataset format known here; use a .jsonl or a .csv file, "
        f"or name the format: {', '.join(Format)}",
        details={"field": "format"},
    )
