"""A file that is sent while it is written."""

from __future__ import annotations

import io
from typing import Any


class Pieces(io.RawIOBase):
    """Takes what is written, for another to fetch."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def taken(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts = []
        return taken
