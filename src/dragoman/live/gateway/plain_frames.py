"""Messages that fill one WebSocket frame, read and written without a protocol machine.

RFC 6455 allows more than that: fragments, control frames, extensions, and mistakes that must be
answered in prescribed ways. All of it is left, untouched, to a library that knows the rules.
"""

from __future__ import annotations

from collections.abc import Callable

from websockets.speedups import apply_mask

from dragoman.live.gateway.wire import Frame

_TEXT, _BINARY = 0x81, 0x82
"""The first byte of a whole message in one frame."""

_CONTROL = frozenset((0x88, 0x89, 0x8A))
"""The first byte of close, ping and pong."""

_MASKED = 0x80
_LENGTH_IN_2, _LENGTH_IN_8 = 126, 127
_MASK_BYTES = 4


class PlainFrames:
    """Takes the plain messages out of what a client sends, and passes the rest on.

    The library gets control frames one by one and whole, so that it is always between two frames.
    From the first frame on that is neither plain nor control it gets everything.
    """

    __slots__ = ("_gathered", "_given_up", "_max_bytes", "_message", "_needed", "_rest")

    def __init__(
        self, max_bytes: int, message: Callable[[Frame], None], rest: Callable[[bytes], None]
    ) -> None:
        self._max_bytes = max_bytes
        self._message = message
        self._rest = rest
        self._given_up = False
        self._gathered = bytearray()
        """The beginning of a frame whose rest has not come."""
        self._needed = 0
        """How many bytes there must be before it is worth looking again."""

    def feed(self, data: bytes) -> None:
        """Bytes came, in whatever pieces."""
        if self._given_up:
            self._rest(data)
            return
        if self._gathered:
            self._gathered += data
            if len(self._gathered) < self._needed:
                return
            data = bytes(self._gathered)
            self._gathered.clear()
        at, size = 0, len(data)
        while at < size:
            end = self._take(data, at, size)
            if end < 0:
                self._needed = -end
                self._gathered += data[at:]
                return
            at = end

    def _take(self, data: bytes, at: int, size: int) -> int:
        """Where the frame at this place ends; minus how much of it is needed when it is not all."""
        start = at + 2
        if size < start:
            return -2
        first, length = data[at], data[at + 1] - _MASKED
        if length >= _LENGTH_IN_2:
            start += 2 if length == _LENGTH_IN_2 else 8
            if size < start:
                return at - start
            length = int.from_bytes(data[at + 2 : start], "big")
        plain = first in (_BINARY, _TEXT)
        if not 0 <= length <= self._max_bytes or not (plain or first in _CONTROL):
            return self._give_up(data, at)
        body = start + _MASK_BYTES
        end = body + length
        if size < end:
            return at - end
        if not plain:
            self._rest(data[at:end])
            return end
        payload = apply_mask(data[body:end], data[start:body])
        if first == _BINARY:
            self._message(payload)
            return end
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            return self._give_up(data, at)
        self._message(text)
        return end

    def _give_up(self, data: bytes, at: int) -> int:
        self._given_up = True
        self._rest(data[at:])
        return len(data)


def plain_frame(frame: Frame) -> bytes:
    """A message as a server sends it: one frame, not masked."""
    if isinstance(frame, str):
        data, first = frame.encode(), _TEXT
    else:
        data, first = frame, _BINARY
    size = len(data)
    if size < _LENGTH_IN_2:
        return bytes((first, size)) + data
    if size < 1 << 16:
        return bytes((first, _LENGTH_IN_2)) + size.to_bytes(2, "big") + data
    return bytes((first, _LENGTH_IN_8)) + size.to_bytes(8, "big") + data
