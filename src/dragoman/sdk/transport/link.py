"""One connection after another to a scheduler, over whatever transport."""

from __future__ import annotations

from typing import Protocol, TypeVar

from dragoman.live.protocol import Message

M_co = TypeVar("M_co", covariant=True)

NO_GOODBYE = 1006
"""The code that stands for a connection that broke without a close frame."""


class LinkClosed(ConnectionError):
    """Raised when one reads from, or writes to, a link that has ended."""

    def __init__(self, code: int = NO_GOODBYE, reason: str = "") -> None:
        super().__init__(f"the connection was closed: {code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class Unreachable(ConnectionError):
    """Raised when no connection could be made; the message says why."""


class Link(Protocol[M_co]):
    """One connection to a scheduler."""

    async def send(self, message: Message) -> None:
        """Send a message; LinkClosed when the connection has ended."""
        ...

    async def receive(self) -> M_co:
        """The next message; LinkClosed when there will be none, InvalidMessage for nonsense."""
        ...

    async def close(self) -> None:
        """Say goodbye; closing again changes nothing."""
        ...


class Connect(Protocol[M_co]):
    """Makes a new link to the scheduler, or raises Unreachable."""

    async def __call__(self) -> Link[M_co]: ...
