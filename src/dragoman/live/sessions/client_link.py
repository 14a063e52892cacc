"""What sessions need of connections, so that they need not know them."""

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

    def ended(self) -> None:
        """Close it: the session was ended by order of its tenant or an operator."""
        ...

    def draining(self) -> None:
        """Close it: this server is about to stop, and the client may go on at another."""
        ...
