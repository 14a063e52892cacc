"""WebSocket frames as a client reads and writes them, without a protocol machine.

Nearly every frame is a whole message. Those, and messages in fragments, are read here. Control
frames, and bytes that break the rules, are left to the library, which knows how to answer them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeAlias

try:
    from websockets.speedups import apply_mask
except ImportError:  # the library's own way where its extension was not compiled
    from websockets.utils import apply_mask

Frame: TypeAlias = bytes | str
"""The content of a message: bytes of a binary one, text of a text one."""

_TEXT, _BINARY = 0x81, 0x82
"""The first byte of a whole message in one frame."""
_FIRST_TEXT, _FIRST_BINARY, _MIDDLE, _LAST = 0x01, 0x02, 0x00, 0x80
"""The first byte of a fragment."""
_CONTROL = frozenset((0x88, 0x89, 0x8A))
"""The first byte of close, ping and pong."""

_MASKED = 0x80
_LENGTH_IN_2, _LENGTH_IN_8 = 126, 127
_MASK_BYTES = 4
_MASKS_DRAWN: Final = 1024
"""How many masks are drawn from the operating system at a time."""


class ServerFrameReader:
    """Takes messages out of what a server sends, in whatever pieces it comes.

    `message` gets each message, `rest` what is left to the library: whole control frames one by
    one, and everything from the first frame on that breaks the rules. `not_text` is called for a
    text that is not UTF-8, which the library would find only where messages are read.
    """

    __slots__ = (
        "_gathered",
        "_is_broken",
        "_kind",
        "_max_bytes",
        "_message",
        "_needed",
        "_not_text",
        "_parts",
        "_rest",
    )

    def __init__(
        self,
        max_bytes: int,
        message: Callable[[Frame], None],
        rest: Callable[[bytes], None],
        not_text: Callable[[], None],
    ) -> None:
        self._max_bytes = max_bytes
        self._message = message
        self._rest = rest
        self._not_text = not_text
        self._gathered = bytearray()
        """The beginning of a frame whose rest has not come."""
        self._needed = 0
        """How many bytes there must be before it is worth looking again."""
        self._kind = 0
        """How the message in fragments began that is not whole; 0: there is none."""
        self._parts = bytearray()
        self._is_broken = False

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        if self._gathered:
            self._gathered += data
            if len(self._gathered) < self._needed:
                return
            data = bytes(self._gathered)
            self._gathered.clear()
        elif self._is_broken:
            self._rest(data)
            return
        at, size = 0, len(data)
        while size - at >= 2:
            first, length, start = data[at], data[at + 1], at + 2
            if length >= _LENGTH_IN_2:
                start += 2 if length == _LENGTH_IN_2 else 8
                if length > _LENGTH_IN_8:
                    self._break(data[at:])
                    return
                if size < start:
                    break
                length = int.from_bytes(data[at + 2 : start], "big")
            end = start + length
            if length > self._max_bytes:
                self._break(data[at:])
                return
            if end > size:
                self._keep(data, at, end)
                return
            if first == _BINARY and not self._kind:
                self._message(data[start:end])
            elif not self._take(first, data[at:end], start - at):
                self._break(data[at:])
                return
            at = end
        if at < size:
            self._keep(data, at, at + 2)

    def _keep(self, data: bytes, at: int, end: int) -> None:
        self._gathered += data[at:]
        # One byte more at least: a length in several bytes may itself not be all there.
        self._needed = max(end - at, len(self._gathered) + 1)

    def _take(self, first: int, frame: bytes, body: int) -> bool:
        """Anything but a whole binary message; False when it breaks the rules."""
        if first in _CONTROL:
            if len(frame) - body >= _LENGTH_IN_2:
                return False
            self._rest(frame)
            return True
        if first == _TEXT and not self._kind:
            self._text(frame[body:])
            return True
        if first in (_FIRST_TEXT, _FIRST_BINARY) and not self._kind:
            self._kind = first
        elif first not in (_MIDDLE, _LAST) or not self._kind:
            return False
        self._parts += frame[body:]
        if len(self._parts) > self._max_bytes:
            return False
        if first != _LAST:
            return True
        whole, kind = bytes(self._parts), self._kind
        self._parts.clear()
        self._kind = 0
        if kind == _FIRST_TEXT:
            self._text(whole)
        else:
            self._message(whole)
        return True

    def _text(self, data: bytes) -> None:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self._not_text()
        else:
            self._message(text)

    def _break(self, data: bytes) -> None:
        self._is_broken = True
        self._rest(data)


class FrameWriter:
    """Makes the frames of a client: each is masked with bytes that no one can foresee."""

    __slots__ = ("_at", "_masks")

    def __init__(self) -> None:
        self._masks = b""
        self._at = 0

    def frame(self, content: Frame) -> bytes:
        """A message as one frame."""
        if isinstance(content, str):
            data, first = content.encode(), _TEXT
        else:
            data, first = content, _BINARY
        if self._at == len(self._masks):
            self._masks, self._at = os.urandom(_MASK_BYTES * _MASKS_DRAWN), 0
        mask = self._masks[self._at : self._at + _MASK_BYTES]
        self._at += _MASK_BYTES
        size = len(data)
        if size < _LENGTH_IN_2:
            head = bytes((first, _MASKED | size))
        elif size < 1 << 16:
            head = bytes((first, _MASKED | _LENGTH_IN_2, size >> 8, size & 0xFF))
        else:
            head = bytes((first, _MASKED | _LENGTH_IN_8)) + size.to_bytes(8, "big")
        return head + mask + apply_mask(data, mask)
