"""What answers on one path: who may come in, what is understood, and who handles it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from dragoman.auth import Authenticator, Permission, Principal
from dragoman.clock import Clock
from dragoman.errors import InvalidMessage
from dragoman.live.gateway.connection import Connection
from dragoman.live.gateway.connections import Connections
from dragoman.live.gateway.limits import ConnectionLimits
from dragoman.live.gateway.wire import Frame
from dragoman.live.protocol import SubProtocol

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)
M_contra = TypeVar("M_contra", contravariant=True)


class Handler(Protocol[M_contra]):
    """Handles one connection. Its calls come one after another, in the order of the frames.

    A `DragomanError` raised here is sent to the peer as an `error` with its code; anything else
    is logged and sent as INTERNAL_ERROR. Either way the connection stays open.
    """

    async def opened(self, connection: Connection) -> None:
        """The peer was let in. A failure here closes the connection."""
        ...

    def received(self, message: M_contra, now: float) -> Awaitable[None] | None:
        """A message came for whose type `connection.methods` has no method; answers what to await
        where handling it has to wait."""
        ...

    async def malformed(self, error: InvalidMessage) -> None:
        """A frame came that is no message; the peer was told, and closed if it was its first."""
        ...

    async def closed(self, code: int, reason: str) -> None:
        """The connection is over. Comes exactly once, and nothing comes after it."""
        ...


class Decodes(Protocol[M_co]):
    """Turns frames into messages; raises InvalidMessage and nothing else."""

    def reader(self, sub: SubProtocol) -> Callable[[Any], M_co]:
        """The short way, for frames as they should be; when it raises, `decode` is asked."""
        ...

    def decode(self, data: Frame, sub: SubProtocol) -> M_co: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is at the other end of a new connection."""

    principal: Principal
    remote: str
    """The address, without a port; empty when the server cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Generic[M]):
    """One path of the live plane, whatever transport the peers come by."""

    name: str
    decoder: Decodes[M]
    authenticator: Authenticator
    permission: Permission
    """What a caller's key must allow."""
    handler: Callable[[Caller], Handler[M]]
    """Makes the handler of a new connection."""
    limits: ConnectionLimits
    connections: Connections
    clock: Clock
    random: Random
    allowed_origins: frozenset[str] = frozenset()
    """Origins, besides the server's own, whose pages may connect."""
    stood_still: Callable[[float], bool] | None = None
    """Tells, by the time, whether this process was paused for longer than other instances wait for
    it: they may own what the peer is part of, and its connection goes before it is heard."""
    at_once: bool = False
    """Its handlers seldom wait: frames are handled where they arrive."""
