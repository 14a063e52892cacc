"""What other rooms bring to a server: planes, routes and sockets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fastapi import APIRouter
from starlette.types import ASGIApp

from dragoman.api.services import Services


class Plane(Protocol):
    """A part of the server with a life of its own; it starts, drains and stops with it."""

    async def start(self) -> None:
        """Begin; the server is ready when every plane has begun."""

    async def drain(self) -> None:
        """Take no new work, and return when the work in hand has ended."""

    async def stop(self) -> None:
        """Let go of everything; called once, also when start failed or drain was cut short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What is built on the services: planes, the routes of the API, and sockets by path."""

    planes: Sequence[Plane] = ()
    routers: Sequence[APIRouter] = ()
    sockets: Mapping[str, ASGIApp] = field(default_factory=dict)
    larger_bodies: Mapping[str, int] = field(default_factory=dict)
    """Most bytes of a body where it may be over limits.max_frame_bytes, by path prefix."""

    def __add__(self, other: Parts) -> Parts:
        """A server with the parts of both."""
        return Parts(
            planes=[*self.planes, *other.planes],
            routers=[*self.routers, *other.routers],
            sockets={**self.sockets, **other.sockets},
            larger_bodies={**self.larger_bodies, **other.larger_bodies},
        )


Assemble = Callable[[Services], Parts]
"""Builds the parts of a server from its services."""


def no_parts(services: Services) -> Parts:
    """A server with its own routes alone: health, readiness, metrics."""
    return Parts()
