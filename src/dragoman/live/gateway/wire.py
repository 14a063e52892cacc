"""What a transport offers to a connection: a way to write frames, and a way to read them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol, TypeAlias

_MAX_REASON_BYTES = 123  # a close frame holds 125 bytes, two of them are the code
_CUT = "..."
"""What a reason ends with that was too long."""


class CloseCode(IntEnum):
    """Why a connection was closed, as the peer sees it."""

    NORMAL = 1000
    DRAINING = 1001
    ABNORMAL = 1006
    """Never sent: what a side notes when the other one is gone without a word."""
    PROTOCOL_ERROR = 1002
    NOT_TEXT = 1007
    POLICY = 1008
    TOO_LARGE = 1009
    INTERNAL_ERROR = 1011
    BAD_FIRST_MESSAGE = 4400
    UNAUTHORIZED = 4401
    FORBIDDEN = 4403
    HEARTBEAT_TIMEOUT = 4408
    SUPERSEDED = 4409
    TOO_SLOW = 4429
    TOO_MANY = 4429
    """The same code: the peer sent too much, instead of reading too little."""


STOOD_STILL = "this server stood still, and others may have taken over"
"""Why an instance closes every socket after a pause."""


@dataclass(frozen=True, slots=True)
class WireClosed:
    """The end of a connection, as a transport reports it."""

    code: int
    reason: str = ""


class ConnectionClosed(ConnectionError):
    """Raised when one reads from, or writes to, a connection that has ended."""

    def __init__(self, end: WireClosed) -> None:
        super().__init__(f"the connection was closed: {end.code} {end.reason}".rstrip())
        self.code = end.code
        self.reason = end.reason


def fitting_reason(reason: str) -> str:
    """The reason, cut to what a close frame can hold, after a word where there are several."""
    whole = reason.encode(errors="replace")
    if len(whole) <= _MAX_REASON_BYTES:
        return whole.decode()
    kept = whole[: _MAX_REASON_BYTES - len(_CUT)].decode(errors="ignore")
    return f"{kept.rpartition(' ')[0] or kept}{_CUT}"


Frame: TypeAlias = bytes | str


class _NoMessage(bytes):
    """The type of `NO_MESSAGE`, which equals an empty message but is not one."""


NO_MESSAGE: Final[Frame] = _NoMessage()
"""Stands for a frame that is no message, such as a ping or a fragment: it is charged like one."""

Receive: TypeAlias = Callable[[], Awaitable[Frame | WireClosed]]
"""Waits for the next frame, or for the end of the connection."""

Handle: TypeAlias = Callable[[Frame], Awaitable[None] | None]
"""Does what a frame calls for, and never raises; answers what to await where it has to wait."""

Feed: TypeAlias = Callable[[Handle], Awaitable[WireClosed]]
"""Has frame after frame handled, each when the one before is done; answers what ended it all."""


class Wire(Protocol):
    """The outgoing half of a socket.

    Most writes need not wait, so writing is a plain call: it answers None when the frame is on its
    way, and something to await when it has to wait for room. A frame for a peer that is gone
    vanishes; that the peer is gone, the reading half tells.
    """

    def write_now(self, frame: Frame) -> bool:
        """Write a frame for which there is room; False: nothing was written, ask `write`."""
        ...

    def write(self, frame: Frame) -> Awaitable[None] | None: ...

    def close(self, code: int, reason: str) -> Awaitable[None] | None: ...

    def abort(self) -> None:
        """Drop the socket at once, with whatever was not sent yet."""
        ...


def frame_bytes(frame: Frame) -> int:
    """How many bytes a frame takes on the wire."""
    if isinstance(frame, str) and not frame.isascii():
        return len(frame.encode())
    return len(frame)


MOST_BYTES_A_CHARACTER = 4


def is_larger(frame: Frame, limit_bytes: int) -> bool:
    """Whether a frame is over the limit; a text is only measured when it comes near."""
    return len(frame) * MOST_BYTES_A_CHARACTER > limit_bytes and frame_bytes(frame) > limit_bytes
