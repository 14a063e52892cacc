"""Files that commands write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def format_of(path: Path | None, named: str | None) -> str:
    """The format of a file: the one that was named, else the one that its name tells."""
    if named is not None:
        return named
    return "jsonl" if path is None else _SUFFIXES.get(path.suffix.lower(), "jsonl")


@contextmanager
def written_to(path: Path | None) -> Iterator[Callable[[bytes], object]]:
    """Writes to a file that appears only when it is complete, or to standard output."""
    if path is None:
        yield sys.stdout.buffer.write
        return
    part = path.with_name(f"{path.name}.part")
    try:
        file = part.open("xb")
    except OSError as error:
        raise typer.BadParameter(
            f"{part} cannot be written ({error.strerror})", param_hint="--out"
        ) from None
    try:
        with file:
            yield file.write
        part.rename(path)
    except BaseException:
        part.unlink()
        raise
