"""The directory on Redis: which cell each node lives in."""

from __future__ import annotations

import msgspec

from dragoman.ids import ConnectionId, InstanceId, NodeId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Registration
from dragoman.live.ledger.records import DirectoryEntry, Owner
from dragoman.live.ledger.redis.tags import Tags


class _PackedEntry(msgspec.Struct, array_like=True, frozen=True):
    """The fields of lua/directory/directory.lua, in its order."""

    cell: int
    holder: str
    instance_id: InstanceId
    connection_id: ConnectionId
    epoch: int

    @property
    def owner(self) -> Owner:
        return Owner(self.instance_id, self.connection_id, self.epoch)


_read_entry = msgspec.msgpack.Decoder(_PackedEntry).decode


class DirectoryOperations:
    """The part of the ledger that only registering and forgetting touch."""

    _tags: Tags

    async def register(
        self, registration: Registration
    ) -> a.Registered | a.HolderConflict | a.DirectoryFull:
        answer = await self._tags.ask_directory(
            "register",
            (
                registration.node_id,
                registration.instance_id,
                registration.connection_id,
                registration.holder,
                registration.known_holder,
                registration.exclusive,
                registration.at_least_epoch,
                registration.not_cells,
                self._tags.cell_size,
                self._tags.max_cells,
            ),
        )
        match answer[0]:
            case b"conflict":
                return a.HolderConflict()
            case b"full":
                return a.DirectoryFull()
        entry = _read_entry(answer[1])
        previous = _read_entry(answer[2]).owner if answer[2] else None
        return a.Registered(entry.cell, entry.owner, previous)

    async def forget(self, node_id: NodeId, epoch: int) -> a.Done | a.Stale:
        answer = await self._tags.ask_directory("forget", (node_id, epoch))
        if answer[0] == b"stale":
            return a.Stale(a.StaleReason(answer[1].decode()))
        return a.Done()

    async def lookup(self, node_id: NodeId) -> DirectoryEntry | None:
        answer = await self._tags.ask_directory("lookup", (node_id,))
        if not answer:
            return None
        entry = _read_entry(answer[0])
        return DirectoryEntry(node_id, entry.cell, entry.holder, entry.owner)

    async def members(self, cell: int) -> tuple[NodeId, ...]:
        answer = await self._tags.ask_directory("members", (cell,))
        return tuple(NodeId(name.decode()) for name in answer)

    async def cells(self) -> tuple[int, ...]:
        answer = await self._tags.ask_directory("cells")
        return tuple(sorted(int(cell) for cell in answer))
