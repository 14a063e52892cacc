"""The directory on Redis: which cell each node lives in."""

from __future__ import annotations

from struct import Struct

from dragoman.ids import NodeId
from dragoman.live.ledger import (
    DirectoryEntry,
    DirectoryFull,
    Done,
    HolderConflict,
    NodeRegistered,
    Registration,
    Stale,
    StaleReason,
)
from dragoman.live.shared.redis.cell_packing import read_directory_entry
from dragoman.live.shared.redis.packing import names
from dragoman.live.shared.redis.server import DIRECTORY, FunctionServer, FunctionTag

_ENROLL = Struct("<3IB")
_COPY = Struct("<3I")
_EPOCH = Struct("<I")


class RedisDirectory:
    """The part of the shared ledger that only registering and forgetting touch."""

    def __init__(self, server: FunctionServer, *, cell_size: int, max_cells: int) -> None:
        self._server = server
        self._cell_size = cell_size
        self._max_cells = max_cells
        self._tag = FunctionTag(server.key_prefix, "directory", DIRECTORY)
        self._keys = tuple(self._tag.key(name) for name in ("entries", "members", "counts"))

    async def register(
        self, registration: Registration
    ) -> NodeRegistered | HolderConflict | DirectoryFull:
        terms = _ENROLL.pack(
            self._cell_size,
            self._max_cells,
            registration.at_least_epoch,
            registration.exclusive,
        ) + names(
            registration.node_id,
            registration.holder,
            registration.known_holder,
            registration.instance_id,
            registration.connection_id,
        )
        answer = await self._server.call(
            self._tag, "enroll", self._keys, terms, *registration.not_cells
        )
        match answer[0]:
            case b"conflict":
                return HolderConflict()
            case b"full":
                return DirectoryFull()
        entry = read_directory_entry(registration.node_id, answer[1])
        previous = (
            read_directory_entry(registration.node_id, answer[2]).owner if answer[2] else None
        )
        return NodeRegistered(entry.cell, entry.owner, previous)

    async def copy_entry(self, node_id: NodeId, holder: str, epoch: int) -> int | None:
        """Enter a node of another model; its cell, or None when it is known here."""
        terms = _COPY.pack(self._cell_size, self._max_cells, epoch) + names(node_id, holder)
        cell = int(await self._server.call(self._tag, "copy_entry", self._keys, terms))
        return None if cell < 0 else cell

    async def was_copied(self) -> bool:
        """Whether the nodes of another model have been entered here; from now on for good."""
        # Some versions gave the mark a time to live.
        return bool(
            await self._server.plain(self._tag, "GETEX", self._tag.key("copied"), "PERSIST")
        )

    async def set_copied(self) -> None:
        await self._server.plain(self._tag, "SET", self._tag.key("copied"), "1")

    async def forget(self, node_id: NodeId, epoch: int) -> Done | Stale:
        terms = _EPOCH.pack(epoch) + names(node_id)
        known = await self._server.call(self._tag, "forget", self._keys, terms)
        return Done() if known else Stale(StaleReason.OLD_ATTEMPT)

    async def lookup(self, node_id: NodeId) -> DirectoryEntry | None:
        packed = await self._server.plain(self._tag, "HGET", self._keys[0], node_id)
        return read_directory_entry(node_id, packed) if packed else None

    async def members(self, cell: int) -> tuple[NodeId, ...]:
        found = await self._server.plain(self._tag, "ZRANGEBYSCORE", self._keys[1], cell, cell)
        return tuple(NodeId(name.decode()) for name in found)

    async def cells(self) -> tuple[int, ...]:
        found = await self._server.plain(self._tag, "HKEYS", self._keys[2])
        return tuple(sorted(int(cell) for cell in found))

    async def count(self) -> int:
        """How many nodes are known."""
        return int(await self._server.call(self._tag, "known_nodes", self._keys, b""))
