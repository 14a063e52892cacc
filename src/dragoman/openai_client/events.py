"""A streamed answer: server-sent events, put together as they come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.outbound import TargetError

MAX_EVENT_BYTES = 1 << 20

_DONE = "[DONE]"


class EventReader:
    """Takes a stream apart into its JSON documents, however its pieces are cut."""

    def __init__(self, on_document: Callable[[Any], None]) -> None:
        self._on_document = on_document
        self._rest = b""
        self.done = False
        """Whether the server said that the stream is complete."""

    def feed(self, piece: bytes) -> None:
        """Read a piece; raises `TargetError` for what is no JSON."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._read(line)
        if len(self._rest) > MAX_EVENT_BYTES:
            # Each piece is joined to what is left of the line: a line without end would cost more
            # with every piece.
            raise TargetError(f"The stream has an event of over {MAX_EVENT_BYTES:,} bytes.")

    def end(self) -> None:
        """Read the last line, which may have no end."""
        self._read(self._rest)
        self._rest = b""

    def _read(self, line: bytes) -> None:
        text = line.decode(errors="replace").strip()
        if not text.startswith("data:") or self.done:
            return
        data = text.removeprefix("data:").strip()
        if data == _DONE:
            self.done = True
            return
        try:
            document = msgspec.json.decode(data)
        except (msgspec.MsgspecError, RecursionError):
            raise TargetError(f"The stream holds what is not JSON: {data[:200]}") from None
        self._on_document(document)
