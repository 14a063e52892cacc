"""The directory on Redis: which cell each node lives in."""

from __future__ import annotations

from struct import Struct

from dragoman.ids import NodeId
from dragoman.live.ledger import (
    DirectoryEntry,
    DirectoryFull,
    Done,
    HolderConflict,
    Registered,
    Registration,
    Stale,
    StaleReason,
)
from dragoman.live.shared.redis.cell_packing import read_directory_entry
from dragoman.live.shared.redis.packing import names
from dragoman.live.shared.redis.server import DIRECTORY, Server, Tag

_ENROLL = Struct("<3IB")
_EPOCH = Struct("<I")


class RedisDirectory:
    """The part of the shared ledger that only registering and forgetting touch."""

    def __init__(self, server: Server, *, cell_size: int, max_cells: int) -> None:
        self._server = server
        self._cell_size = cell_size
        self._max_cells = max_cells
        self._tag = Tag(server.key_prefix, "directory", DIRECTORY)
        self._keys = tuple(self._tag.key(name) for name in ("entries", "members", "counts"))

    async def register(
        self, registration: Registration
    ) -> Registered | HolderConflict | DirectoryFull:
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
        return Registered(entry.cell, entry.owner, previous)

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
        return int(await self._server.plain(self._tag, "HLEN", self._keys[0]))
