"""How a connection ends: the close codes, and the reason that goes with one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

_MAX_REASON_BYTES = 123  # a close frame holds 125 bytes, two of them are the code


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


@dataclass(frozen=True, slots=True)
class Closed:
    """The end of a connection, as a transport reports it."""

    code: int
    reason: str = ""


class ConnectionClosed(ConnectionError):
    """Raised when one reads from, or writes to, a connection that has ended."""

    def __init__(self, end: Closed) -> None:
        super().__init__(f"the connection was closed: {end.code} {end.reason}".rstrip())
        self.code = end.code
        self.reason = end.reason


def fitting_reason(reason: str) -> str:
    """The reason, cut to what a close frame can hold, never inside a character."""
    return reason.encode(errors="replace")[:_MAX_REASON_BYTES].decode(errors="ignore")
