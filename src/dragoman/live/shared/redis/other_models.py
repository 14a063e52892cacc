"""Instances and nodes of another data model, under the same prefix.

Two models share no key, so two instances of different models would not know of each other, and
would both think that a node is theirs alone. So an instance does not start beside another model's.
When none is there, what the first model kept of nodes is copied over, once: to whom a name
belongs, and what an operator has drained. Nothing of the other model is changed, and its directory
stays for ever, so it is remembered for ever that this was done.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import AsyncIterator, Iterator
from struct import Struct
from urllib.parse import quote

import msgspec

from dragoman.errors import CannotStart
from dragoman.ids import ConnectionId, InstanceId, NodeId
from dragoman.live.ledger import Owner, Placement, Sender
from dragoman.live.shared.redis.cells import RedisCells
from dragoman.live.shared.redis.directory import RedisDirectory
from dragoman.live.shared.redis.server import Answer
from dragoman.observability import get_logger
from dragoman.redis_servers import MODEL, Plain, RedisPipeline

log = get_logger("dragoman.cluster")

_MODELS_KNOWN = 9
"""A later model than these checks for this one itself."""

_PAGE = 500
_SAFE = ":/@+ "
"""What stands for itself in the tag of an instance."""

_NO_CONNECTION = Owner(InstanceId(""), ConnectionId(""), 0)


class OtherModels:
    """What was kept under the same prefix by other versions of Dragoman."""

    def __init__(
        self,
        caller: RedisPipeline,
        cells: RedisCells,
        directory: RedisDirectory,
        key_prefix: str,
    ) -> None:
        self._caller = caller
        self._cells = cells
        self._directory = directory
        self._prefix = key_prefix

    async def refuse_beside(self) -> None:
        """Raise CannotStart while instances of another model are present."""
        present: list[str] = []
        for prefix in self._other_prefixes():
            present += [name async for name in self._present(prefix)]
        if present:
            raise CannotStart(
                f"Instances of another version of Dragoman are present: {', '.join(present)}. "
                "Versions with different data models cannot work together: drain and stop the "
                "other instances, then start this one."
            )

    async def copy_nodes(self) -> int:
        """Take over what the first model kept of nodes; how many there were, 0 the next time."""
        if await self._directory.was_copied():
            return 0
        first, copied = _FirstModel(self._caller, self._prefix), 0
        async for node in first.nodes():
            copied += await self._copy(node)
        await self._directory.set_copied()
        if copied:
            log.info("nodes_copied", count=copied, model=MODEL)
        return copied

    async def _copy(self, node: _FirstNode) -> bool:
        """Copy a node, as one that is offline, unless it has registered with this model."""
        cell = await self._directory.copy_entry(node.node_id, node.holder, node.epoch)
        if cell is None:
            return False
        owner = msgspec.structs.replace(_NO_CONNECTION, epoch=node.epoch)
        if node.facts is not None:
            placement = Placement(node.node_id, owner, node.slots, 1, (), node.facts)
            await self._cells.seat(cell, placement)
            if node.drained:
                await self._cells.set_drained(cell, node.node_id, True)
            await self._cells.disconnect(cell, Sender(node.node_id, node.epoch))
        return True

    def _other_prefixes(self) -> Iterator[str]:
        yield self._prefix
        for number in range(1, _MODELS_KNOWN + 1):
            if f"m{number}" != MODEL:
                yield f"{self._prefix}:m{number}"

    async def _present(self, prefix: str) -> AsyncIterator[str]:
        tag = f"{prefix}:{{instances}}"
        for name in await _ask(self._caller, tag, "HKEYS", f"{tag}:known"):
            instance = f"{prefix}:{{i:{quote(name.decode(), safe=_SAFE)}}}"
            record = f"{instance}:record"
            standing, until_ms = await _ask(
                self._caller, instance, "HMGET", record, "standing", "until_ms"
            )
            seconds, micros = await _ask(self._caller, instance, "TIME")
            now_ms = int(seconds) * 1000 + int(micros) // 1000
            if standing == b"up" and until_ms and float(until_ms) > now_ms:
                yield name.decode()


# --- the first model ----------------------------------------------------------------------------


class _FirstNode(msgspec.Struct, frozen=True):
    """A node as the first model kept it."""

    node_id: NodeId
    holder: str
    epoch: int
    drained: bool = False
    slots: int = 0
    facts: bytes | None = None
    """None: it had no seat."""


class _Entry(msgspec.Struct, array_like=True, frozen=True):
    cell: int
    holder: str
    instance_id: str
    connection_id: str
    epoch: int


_read_entry = msgspec.msgpack.Decoder(_Entry).decode

_RECORD = Struct(">HHHBBddd")
_DRAINED, _SEATED = 2, 4


class _FirstModel:
    """The keys of the first model, whose prefix names no version."""

    def __init__(self, caller: RedisPipeline, prefix: str) -> None:
        self._caller = caller
        self._prefix = prefix

    async def nodes(self) -> AsyncIterator[_FirstNode]:
        """Every node that its directory knows, page by page."""
        tag = f"{self._prefix}:{{directory}}"
        cursor = b"0"
        while True:
            cursor, fields = await _ask(
                self._caller, tag, "HSCAN", f"{tag}:entries", cursor, "COUNT", _PAGE
            )
            for name, packed in zip(fields[::2], fields[1::2], strict=True):
                yield await self._node(NodeId(name.decode()), _read_entry(packed))
            if cursor == b"0":
                return

    async def _node(self, node_id: NodeId, entry: _Entry) -> _FirstNode:
        known = _FirstNode(node_id, entry.holder, int(entry.epoch))
        tag = f"{self._prefix}:{{c{entry.cell}}}"
        index = await _ask(self._caller, tag, "HGET", f"{tag}:seats", f"n{node_id}")
        if index is None:
            return known
        at = _RECORD.size * (int(index) + 1)
        record = await _ask(
            self._caller, tag, "GETRANGE", f"{tag}:board", at, at + _RECORD.size - 1
        )
        facts = await _ask(self._caller, tag, "HGET", f"{tag}:seats", f"f{int(index)}")
        if len(record) < _RECORD.size or facts is None:
            return known
        _, slots, _, flags, *_ = _RECORD.unpack(record)
        if flags < _SEATED:
            return known
        return msgspec.structs.replace(
            known, drained=bool(flags & _DRAINED), slots=slots, facts=facts
        )


def _ask(caller: RedisPipeline, tag: str, *words: bytes | str | int) -> Future[Answer]:
    return caller.ask(tag, str(words[0]), Plain(words))
