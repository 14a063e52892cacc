"""The life of a server: starting, ready, leaving, draining, stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum

from dragoman.errors import DependencyDown, ServerDraining

_TRY_AGAIN_MS = 1_000


class ServerState(StrEnum):
    """Where a server is in its life."""

    STARTING = "starting"
    READY = "ready"
    LEAVING = "leaving"
    """It still takes callers, but tells load balancers to send no more."""
    DRAINING = "draining"
    STOPPED = "stopped"


TRANSITIONS: Mapping[ServerState, frozenset[ServerState]] = {
    ServerState.STARTING: frozenset({ServerState.READY, ServerState.STOPPED}),
    ServerState.READY: frozenset({ServerState.LEAVING, ServerState.DRAINING, ServerState.STOPPED}),
    ServerState.LEAVING: frozenset({ServerState.DRAINING, ServerState.STOPPED}),
    ServerState.DRAINING: frozenset({ServerState.STOPPED}),
    ServerState.STOPPED: frozenset(),
}
"""Where each state may lead. A server never becomes ready twice: another process takes over."""


class Lifecycle:
    """The state that one server is in, for everyone who has to act by it."""

    def __init__(self) -> None:
        self._state = ServerState.STARTING
        self._begun = asyncio.Event()

    @property
    def state(self) -> ServerState:
        return self._state

    def move(self, to: ServerState) -> None:
        """Enter another state; a move that the table does not have is a mistake of ours."""
        if to not in TRANSITIONS[self._state]:
            raise ValueError(f"a server that is {self._state} cannot become {to}")
        self._state = to
        self._begun.set()

    async def begun(self) -> None:
        """Wait until the server is no longer starting."""
        await self._begun.wait()

    def check_takes_work(self) -> None:
        """Refuse new work while the server is starting, and when it drains."""
        if self._state is ServerState.STARTING:
            raise DependencyDown(
                "The server is still starting; try again in a moment.",
                retry_after_ms=_TRY_AGAIN_MS,
            )
        if self._state not in (ServerState.READY, ServerState.LEAVING):
            raise ServerDraining(
                "The server is shutting down and takes no new work; try again once it is back, "
                "or ask another instance.",
                retry_after_ms=_TRY_AGAIN_MS,
            )
