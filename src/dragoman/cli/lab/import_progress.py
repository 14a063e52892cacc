"""Tells how far an import has come, on a terminal, when it takes long."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

from rich.console import Console
from rich.text import Text

from dragoman.printable import printable

QUIET_SECONDS = 2.0
"""An import that takes no longer says nothing."""

Tell = Callable[[str], None]


@contextmanager
def told_on(console: Console) -> Iterator[Tell]:
    """Shows a line that changes; nothing without a terminal, and nothing of what is quick."""
    began = time.monotonic()
    with ExitStack() as shown:
        status = console.status("")
        is_shown = False

        def tell(text: str) -> None:
            nonlocal is_shown
            if not console.is_terminal or time.monotonic() - began < QUIET_SECONDS:
                return
            status.update(Text(printable(text)))  # not a plain string, which may hold styles
            if not is_shown:
                shown.enter_context(status)
                is_shown = True

        yield tell


class CountedFile(io.RawIOBase):
    """A file that knows how much of it was read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size_bytes = file.seek(0, io.SEEK_END)
        file.seek(0)

    @property
    def share(self) -> float:
        """How much of the file was read."""
        return self._file.tell() / self._size_bytes if self._size_bytes else 1.0

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """The file belongs to another, who closes it."""
