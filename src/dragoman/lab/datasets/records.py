"""What every format produces: a record, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dragoman.lab.model import JsonValue


class Record(NamedTuple):
    """One item as the file has it, with the line where it begins."""

    line: int
    values: Mapping[str, JsonValue]
    size_bytes: int


class BadRecord(NamedTuple):
    """A record that cannot be read; later ones can."""

    line: int
    message: str
