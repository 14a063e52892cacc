"""The directory in memory: which cell each node lives in."""

from __future__ import annotations

from dragoman.ids import NodeId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Registration
from dragoman.live.ledger.records import DirectoryEntry, Owner


class Directory:
    """Nodes by name, and the members of each cell."""

    def __init__(self, cell_size: int, max_cells: int) -> None:
        self._cell_size = cell_size
        self._max_cells = max_cells
        self.entries: dict[NodeId, DirectoryEntry] = {}
        self._members: dict[int, dict[NodeId, None]] = {}
        self._lowest = 0
        """No cell below this one has room."""

    def register(
        self, registration: Registration
    ) -> a.NodeRegistered | a.HolderConflict | a.DirectoryFull:
        known = self.entries.get(registration.node_id)
        if known is None:
            cell = self._cell_with_room(registration.not_cells)
            if cell is None:
                return a.DirectoryFull()
            self._members.setdefault(cell, {})[registration.node_id] = None
            return self._write(registration, cell, None)
        allowed = ("", registration.holder, registration.known_holder)
        if registration.exclusive and known.holder not in allowed:
            return a.HolderConflict()
        cell = known.cell
        full = cell in registration.not_cells
        same = known.holder == (registration.holder or known.holder)
        if known.owner.connection_id == registration.connection_id and same and not full:
            return a.NodeRegistered(cell, known.owner, None)
        if full:
            moved = self._cell_with_room(registration.not_cells)
            if moved is None:
                return a.DirectoryFull()
            self._leave(known)
            cell = moved
            self._members.setdefault(cell, {})[registration.node_id] = None
        return self._write(registration, cell, known)

    def forget(self, node_id: NodeId, epoch: int) -> a.Done | a.Stale:
        known = self.entries.get(node_id)
        if known is None:
            return a.Done()
        if known.owner.epoch != epoch:
            return a.Stale(a.StaleReason.OLD_ATTEMPT)
        del self.entries[node_id]
        self._leave(known)
        return a.Done()

    def members(self, cell: int) -> tuple[NodeId, ...]:
        return tuple(self._members.get(cell, ()))

    def cells(self) -> tuple[int, ...]:
        return tuple(sorted(self._members))

    def _write(
        self, registration: Registration, cell: int, known: DirectoryEntry | None
    ) -> a.NodeRegistered:
        before = known.owner.epoch if known else 0
        owner = Owner(
            registration.instance_id,
            registration.connection_id,
            max(before, registration.at_least_epoch) + 1,
        )
        holder = registration.holder or (known.holder if known else "")
        self.entries[registration.node_id] = DirectoryEntry(
            registration.node_id, cell, holder, owner
        )
        return a.NodeRegistered(cell, owner, known.owner if known else None)

    def _cell_with_room(self, not_cells: tuple[int, ...]) -> int | None:
        for cell in range(self._lowest, self._max_cells):
            if len(self._members.get(cell, ())) < self._cell_size:
                if cell not in not_cells:
                    return cell
            elif cell == self._lowest:
                self._lowest += 1
        return None

    def _leave(self, entry: DirectoryEntry) -> None:
        members = self._members[entry.cell]
        members.pop(entry.node_id, None)
        if not members:
            del self._members[entry.cell]
        self._lowest = min(self._lowest, entry.cell)
