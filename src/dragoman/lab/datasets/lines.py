"""The lines of a file, numbered as an editor numbers them, none longer than memory allows."""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from dragoman.lab.datasets.problems import Unreadable

MAX_RECORD_BYTES = 16 * 1024 * 1024
"""The largest record; a file whose lines never end must not fill the memory."""

_SKIP_BYTES = 64 * 1024


class Line(NamedTuple):
    """One line with its line end; ``content`` is empty when it is longer than a record may be."""

    number: int
    content: bytes
    too_long: bool = False


def numbered_lines(file: BinaryIO, max_bytes: int = MAX_RECORD_BYTES) -> Iterator[Line]:
    """Every line, the byte order mark left out; `Unreadable` for UTF-16."""
    number = 0
    while content := file.readline(max_bytes + 1):
        number += 1
        if number == 1:
            content = _without_mark(content)
        if len(content) > max_bytes:
            _skip_the_rest(file, content)
            yield Line(number, b"", too_long=True)
        else:
            yield Line(number, content)


def _without_mark(content: bytes) -> bytes:
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise Unreadable(1, "the file is UTF-16; save it as UTF-8")
    return content.removeprefix(BOM_UTF8)


def _skip_the_rest(file: BinaryIO, content: bytes) -> None:
    while content and not content.endswith(b"\n"):
        content = file.readline(_SKIP_BYTES)
