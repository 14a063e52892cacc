"""Nodes with their cells and seats: the part of the ledger that other rooms may use."""

from __future__ import annotations

from typing import Protocol

from dragoman.ids import AttemptId, JobId, NodeId, TenantId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import (
    Heartbeat,
    Placement,
    Registration,
    Sender,
)
from dragoman.live.ledger.records import (
    AttemptRecord,
    CellRecord,
    DirectoryEntry,
    JobRecord,
)


class Seats(Protocol):
    """Nodes with their cells and seats, and what can be read: the part that every room may use."""

    # --- the directory: which cell a node lives in ------------------------------------------------

    async def register(
        self, registration: Registration
    ) -> a.NodeRegistered | a.HolderConflict | a.DirectoryFull:
        """Give the node a cell (the lowest with room) and make the connection its owner."""
        ...

    async def forget(self, node_id: NodeId, epoch: int) -> a.Done | a.Stale:
        """Take the node out of the directory, unless a newer connection owns it."""
        ...

    async def lookup(self, node_id: NodeId) -> DirectoryEntry | None: ...

    async def members(self, cell: int) -> tuple[NodeId, ...]:
        """The nodes the directory says live in a cell."""
        ...

    async def cells(self) -> tuple[int, ...]:
        """The cells that have members, lowest first."""
        ...

    # --- seats: nodes in their cells -------------------------------------------------------------

    async def seat(self, cell: int, placement: Placement) -> a.Placed | a.CellFull | a.Stale:
        """Seat the node, and settle every attempt of its older connections."""
        ...

    async def amend(
        self,
        cell: int,
        sender: Sender,
        *,
        slots: int | None = None,
        facts: bytes | None = None,
    ) -> a.Done | a.Stale | a.NotSeated | a.Cold:
        """Change a seat's slots or facts. Fewer slots cancel nothing."""
        ...

    async def set_drained(
        self, cell: int, node_id: NodeId, drained: bool
    ) -> a.Done | a.NotSeated | a.Cold:
        """An operator's drain or resume: a drained seat is granted no slot."""
        ...

    async def disconnect(
        self, cell: int, sender: Sender
    ) -> a.Done | a.Stale | a.NotSeated | a.Cold:
        """The node's socket is lost: no slot is granted on it, what it holds is kept."""
        ...

    async def lose(
        self, cell: int, sender: Sender, *, only_if_silent: bool = False
    ) -> a.NodeLost | a.Stale | a.NotSeated | a.Cold:
        """The node did not come back in time: everything it held is ended.

        only_if_silent leaves alone a node whose heartbeats still come.
        """
        ...

    async def remove(
        self, cell: int, sender: Sender
    ) -> a.NodeLost | a.Stale | a.NotSeated | a.Cold:
        """Lose the node and give up its seat."""
        ...

    async def beat(
        self, cell: int, heartbeat: Heartbeat
    ) -> a.Beat | a.Stale | a.NotSeated | a.Cold:
        """Renew the leases of what the node lists, and say where the two lists differ."""
        ...

    async def read_cell(self, cell: int) -> CellRecord | None: ...

    async def cell_version(self, cell: int) -> int | None:
        """None when the cell is cold."""
        ...

    # --- reading ------------------------------------------------------------------------------

    async def read_attempt(self, cell: int, attempt_id: AttemptId) -> AttemptRecord | None: ...

    async def read(self, job_id: JobId) -> JobRecord | None: ...

    async def recent(
        self, tenant: TenantId, limit: int, before: tuple[int, JobId] | None = None
    ) -> tuple[JobRecord, ...]:
        """A tenant's jobs, newest first; `before` is (created_at_ms, job_id) of the last seen."""
        ...

    async def slots_held(self) -> int:
        """How many slots are held now, over every cell."""
        ...

    async def size(self) -> dict[str, int]:
        """How many things of each kind are kept, for tests and for operators."""
        ...

    async def close(self) -> None: ...
