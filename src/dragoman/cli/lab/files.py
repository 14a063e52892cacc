"""Files that commands write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer


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
