"""WebSocket frames, read and written without a protocol machine.

Most messages fill one frame. Those, and messages in fragments, are read here, so that each frame is
counted and none is worked on out of turn. What RFC 6455 says of everything else (close, ping and
pong, and mistakes that must be answered in prescribed ways) is left to a library that knows it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from websockets.speedups import apply_mask

from dragoman.live.gateway.wire import NO_MESSAGE, CloseCode, Frame

FRAMES_PER_TURN = 64
"""After so many frames of one connection the others get a turn, however fast they come."""

MAX_FRAGMENTS = 1024
"""Most frames that one message may come in."""

TEXT, BINARY = 0x81, 0x82
"""The first byte of a whole message in one frame."""

_FIRST_TEXT, _FIRST_BINARY, _MIDDLE, _LAST = 0x01, 0x02, 0x00, 0x80
"""The first byte of a fragment."""

_WHOLE = (BINARY, TEXT)
_BEGINS_MESSAGE = frozenset((TEXT, BINARY, _FIRST_TEXT, _FIRST_BINARY))
_FRAGMENT = frozenset((_FIRST_TEXT, _FIRST_BINARY, _MIDDLE, _LAST))
_CLOSE = 0x88
_CONTROL = frozenset((_CLOSE, 0x89, 0x8A))
"""The first byte of close, ping and pong."""

_MASKED = 0x80
_LENGTH_IN_2, _LENGTH_IN_8 = 126, 127
_MASK_BYTES = 4
_SHORTEST_BYTES = 2 + _MASK_BYTES

Data: TypeAlias = bytes | bytearray
"""What was read of a socket, or gathered of several reads."""


class FrameSink(Protocol):
    """What becomes of frames."""

    def message(self, frame: Frame) -> None:
        """A message is whole; `NO_MESSAGE` for a frame that was none, but counts as one."""
        ...

    def must_wait(self, waits: Awaitable[None]) -> None:
        """Handling a message has to wait for something; those after it come later."""
        ...

    def control(self, data: bytes) -> None:
        """A whole control frame, as it came."""
        ...

    def broken(self, data: bytes) -> None:
        """Bytes that break the rules, as they came; nothing is read after them."""
        ...

    def refused(self, code: CloseCode, reason: str) -> None:
        """The peer did what is not allowed; nothing is read after that."""
        ...

    def holds(self, change_bytes: int) -> bool:
        """So many bytes more (or less) wait for their rest; False when there is no room."""
        ...


class FrameReader:
    """Takes messages out of what a client sends, a bounded number of frames at a time.

    The library gets control frames one by one and whole, so that it is always between two frames.
    """

    __slots__ = (
        "_at",
        "_clear",
        "_ended",
        "_fragments",
        "_gathered",
        "_held_bytes",
        "_kind",
        "_max_bytes",
        "_message",
        "_needed",
        "_parts",
        "_sink",
        "_whole",
        "unread",
    )

    def __init__(self, max_bytes: int, sink: FrameSink) -> None:
        self._max_bytes = max_bytes
        self._sink = sink
        self._message: Callable[[Frame], Awaitable[None] | None] = sink.message
        self._ended = False
        self._clear = True
        """Whether nothing is held, no message in fragments has begun, and it has not ended."""
        self._held_bytes = 0
        self._gathered = bytearray()
        """The beginning of a frame whose rest has not come."""
        self._needed = 0
        """How many bytes there must be before it is worth looking again."""
        self._whole: tuple[int, ...] = _WHOLE
        """What a whole message may begin with; nothing, inside a message in fragments."""
        self._kind = 0
        self._parts = bytearray()
        self._fragments = 0
        self.unread: Data = b""
        """What came and is not read, because the turn was over; `go_on` reads it."""
        self._at = 0

    def feed(self, data: bytes) -> None:
        """Bytes came, in whatever pieces."""
        if not self._clear:
            self._feed_rest(data)
            return
        # Mostly it is a few whole messages of up to 64 kB, and then there is nothing to keep.
        # What `_take` does with them is done here for all of them, up to one that is anything else.
        size, at, left, max_bytes = len(data), 0, FRAMES_PER_TURN, self._max_bytes
        while left and size - at >= _SHORTEST_BYTES:
            length = data[at + 1] - _MASKED
            if 0 <= length < _LENGTH_IN_2:
                mask = at + 2
            elif length == _LENGTH_IN_2:
                mask = at + 4
                length = data[at + 2] << 8 | data[at + 3]
            else:
                break
            body = mask + _MASK_BYTES
            end = body + length
            if end > size or length > max_bytes:
                break
            payload = apply_mask(data[body:end], data[mask:body])
            frame: Frame = payload
            first = data[at]
            if first != BINARY:
                if first != TEXT:
                    break
                try:
                    frame = payload.decode()
                except UnicodeDecodeError:
                    break
            at = end
            left -= 1
            waits = self._message(frame)
            if waits is not None:
                self._sink.must_wait(waits)
        if at < size:
            self._read(data, at, left)

    def _feed_rest(self, data: Data) -> None:
        """The same while something is held, or in the middle of a message in fragments."""
        if self._ended:
            return
        if self.unread:
            data = self.unread[self._at :] + data
        elif self._gathered:
            self._gathered += data
            if len(self._gathered) < self._needed:
                self._count_held()
                return
            data, self._gathered = self._gathered, bytearray()
        self._read(data, 0, FRAMES_PER_TURN)

    def go_on(self) -> None:
        """Read what the turn before left."""
        if not self._ended:
            self._read(self.unread, self._at, FRAMES_PER_TURN)

    def hand_to(self, message: Callable[[Frame], Awaitable[None] | None]) -> None:
        """Give messages to this from now on; what it answers has to be waited for."""
        if self._message is not _passed_over:
            self._message = message

    def only_close(self) -> None:
        """From now on only a close frame matters: the rest is passed over."""
        self._message = _passed_over

    def end(self) -> None:
        """Read nothing any more, and let go of what was held."""
        self._ended, self._clear = True, False
        self._gathered.clear()
        self._parts.clear()
        self.unread = b""
        self._count_held()

    def _read(self, data: Data, at: int, frames: int) -> None:
        size = len(data)
        for _ in range(frames):
            if at >= size:
                break
            end = self._take(data, at, size)
            if end < 0:
                self._needed = -end
                self._gathered += memoryview(data)[at:]
                at = size
            else:
                at = end
        self.unread, self._at = (data, at) if at < size else (b"", 0)
        self._count_held()

    def _take(self, data: Data, at: int, size: int) -> int:
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
        body = start + _MASK_BYTES
        end = body + length
        if first not in self._whole:
            if not self._may_follow(first, length):
                return self._break(data, at)
            if self._ended:
                return size
            if size < end:
                return at - end
            return end if self._take_part(first, data[at:end], body - at) else size
        if not 0 <= length <= self._max_bytes:
            return self._break(data, at)
        if size < end:
            return at - end
        # Its body may be large: it is not copied before it is unmasked.
        payload = apply_mask(memoryview(data)[body:end], data[start:body])
        if first == BINARY:
            self._tell(payload)
            return end
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            return self._break(data, at)
        self._tell(text)
        return end

    def _tell(self, frame: Frame) -> None:
        waits = self._message(frame)
        if waits is not None:
            self._sink.must_wait(waits)

    # --- fragments and control frames ------------------------------------------------------------

    def _may_follow(self, first: int, length: int) -> bool:
        """Whether a frame that is no whole message may come here; what is over a limit is refused
        before its body has come.
        """
        if self._fragments and first in _BEGINS_MESSAGE:
            self._refuse(CloseCode.PROTOCOL_ERROR, "a message began inside another")
            return True
        if first in _CONTROL:
            return 0 <= length < _LENGTH_IN_2
        if first not in _FRAGMENT or not 0 <= length <= self._max_bytes:
            return False
        if not self._fragments and first in (_MIDDLE, _LAST):
            return False
        if len(self._parts) + length > self._max_bytes:
            self._refuse(CloseCode.TOO_LARGE, f"a message is over {self._max_bytes} bytes")
        elif self._fragments >= MAX_FRAGMENTS:
            self._refuse(CloseCode.POLICY, f"a message has more than {MAX_FRAGMENTS} fragments")
        return True

    def _take_part(self, first: int, frame: Data, body: int) -> bool:
        """Whether to read on after a frame that is no whole message."""
        if first == _CLOSE:
            self._ended, self._clear = True, False
            self._sink.control(bytes(frame))
            return False
        if first in _CONTROL:
            if self._message is not _passed_over:
                self._sink.control(bytes(frame))
                self._tell(NO_MESSAGE)
            return True
        if first in (_FIRST_TEXT, _FIRST_BINARY):
            self._kind = first
            self._whole = ()
        self._fragments += 1
        self._parts += apply_mask(frame[body:], frame[body - _MASK_BYTES : body])
        if first != _LAST:
            self._tell(NO_MESSAGE)
            return True
        message = bytes(self._parts)
        self._parts.clear()
        self._fragments = 0
        self._whole = _WHOLE
        if self._kind == _FIRST_BINARY:
            self._tell(message)
            return True
        try:
            text = message.decode()
        except UnicodeDecodeError:
            self._refuse(CloseCode.NOT_TEXT, "a text is not UTF-8")
            return False
        self._tell(text)
        return True

    def _break(self, data: Data, at: int) -> int:
        self._ended, self._clear = True, False
        self._sink.broken(bytes(data[at:]))
        return len(data)

    def _refuse(self, code: CloseCode, reason: str) -> None:
        self._ended, self._clear = True, False
        self._sink.refused(code, reason)

    def _count_held(self) -> None:
        """Tell how much waits for its rest; a peer for which there is no room is refused."""
        held_bytes = len(self._gathered) + len(self._parts) + len(self.unread)
        self._clear = not held_bytes and not self._ended and bool(self._whole)
        if held_bytes == self._held_bytes:
            return
        change, self._held_bytes = held_bytes - self._held_bytes, held_bytes
        if not self._sink.holds(change) and change > 0 and not self._ended:
            self._refuse(
                CloseCode.TOO_MANY, "the server holds too much that is not finished; try again"
            )
            self.end()


def _passed_over(frame: Frame) -> None:
    """What becomes of a message that comes after the end."""


def frame_head(first: int, size: int) -> bytes:
    """What goes before a message of a server: one frame, not masked."""
    if size < _LENGTH_IN_2:
        return bytes((first, size))
    if size < 1 << 16:
        return bytes((first, _LENGTH_IN_2, size >> 8, size & 0xFF))
    return bytes((first, _LENGTH_IN_8)) + size.to_bytes(8, "big")


COPIED_BYTES = 4_096
"""A message below this is written in one piece with its head; a copy of a larger one would cost
more than a second piece."""

TEXT_HEADS, BINARY_HEADS = (
    tuple(frame_head(first, size) for size in range(COPIED_BYTES)) for first in (TEXT, BINARY)
)
"""The heads of messages below that size."""
