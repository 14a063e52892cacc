"""What a session needs of its connection, so that it need not know transports."""

from __future__ import annotations

from typing import Protocol

from dragoman.ids import ConnectionId
from dragoman.live.protocol import SchedulerToClient


class ClientLink(Protocol):
    """The connection a session's client is reached through."""

    @property
    def id(self) -> ConnectionId: ...

    def send(self, message: SchedulerToClient) -> bool:
        """False when the connection is closed."""
        ...

    def superseded(self) -> None:
        """Close it: the client resumed over another connection."""
        ...

    def timed_out(self) -> None:
        """Close it: nothing was heard from the client in time."""
        ...

    def overrun(self, reason: str) -> None:
        """Close it: the client sends more than may be kept."""
        ...

    def finished(self) -> None:
        """Close it: the session came to its regular end."""
        ...
