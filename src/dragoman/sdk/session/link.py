"""How a session client reaches its scheduler; the transports differ, the conversation does not."""

from __future__ import annotations

from typing import Protocol

from dragoman.live.protocol import Message, SchedulerToClient


class SessionLink(Protocol):
    """One connection to a scheduler's door for clients."""

    async def send(self, message: Message) -> None:
        """Send a message; LinkClosed when the connection has ended."""
        ...

    async def receive(self) -> SchedulerToClient:
        """The next message; LinkClosed when there will be none, InvalidMessage for nonsense."""
        ...

    async def close(self) -> None:
        """Say goodbye; closing again changes nothing."""
        ...


class SessionConnect(Protocol):
    """Makes a new link to the scheduler, or raises Unreachable."""

    async def __call__(self) -> SessionLink: ...
