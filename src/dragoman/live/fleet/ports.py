"""What the fleet needs of its neighbours, so that it need not know them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dragoman.ids import ConnectionId, NodeId
from dragoman.live.ledger import Freed, Owner, Sender
from dragoman.live.protocol import Command, RunningJob, SchedulerToNode


class NodeLink(Protocol):
    """The connection a node is reached through."""

    @property
    def id(self) -> ConnectionId: ...

    def send(self, message: SchedulerToNode) -> bool:
        """False when the connection is closed."""
        ...

    def superseded(self) -> None:
        """Close it: a newer connection speaks for the node."""
        ...

    def timed_out(self) -> None:
        """Close it: no heartbeat came in time."""
        ...


class Seated(Protocol):
    """A node that has its seat."""

    @property
    def node_id(self) -> NodeId: ...
    @property
    def owner(self) -> Owner: ...


class AttemptPort(Protocol):
    """Takes what the fleet learns about attempts."""

    async def lost(self, cell: int, running: Iterable[RunningJob]) -> None:
        """Their node no longer has them."""
        ...

    async def unknown(
        self, cell: int, sender: Sender, running: Iterable[RunningJob], number: int
    ) -> tuple[RunningJob, ...]:
        """A node runs attempts its cell does not know; answers those it must cancel.

        number is that of the node's word that lists them.
        """
        ...

    def passed(self, node: Seated, running: Iterable[RunningJob]) -> None:
        """Attempts go on over the node's new connection."""
        ...

    def freed(self, freed: Freed) -> None:
        """Slots came free."""
        ...

    def wake(self) -> None:
        """The fleet can do more than before."""
        ...


class FleetPeerPort(Protocol):
    """Tells other instances what concerns them. It does not wait; messages may get lost."""

    def changed(self, cell: int, node_id: NodeId) -> None:
        """A node's facts are new."""
        ...

    def superseded(self, node_id: NodeId, owner: Owner) -> None:
        """A node left another instance's connection for one of ours."""
        ...

    def control(
        self, node_id: NodeId, owner: Owner, command: Command, reason: str | None = None
    ) -> None:
        """A command for a node that is connected to another instance."""
        ...
