"""Marking the nodes of an instance that is gone as offline, and ending what they held."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from dragoman.clock import Clock
from dragoman.ids import InstanceId, NodeId
from dragoman.live.cluster import CleanUp, Presence
from dragoman.live.dispatch import NodeMessages
from dragoman.live.fleet import RemoteNode
from dragoman.live.gateway.cluster.outbox import Outbox
from dragoman.live.ledger import NodeLost, Seats, Sender
from dragoman.live.protocol import NodeHealth
from dragoman.observability import get_logger, yielding

log = get_logger("dragoman.cluster")

Seat = tuple[int, Sender]
"""A cell, and a node in it under one connection."""


class NodeCleaner:
    """Takes a lapsed instance's nodes out of service, each by the connection it had there."""

    def __init__(
        self,
        ledger: Seats,
        presence: Presence,
        events: NodeMessages,
        outbox: Outbox,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        *,
        grace_seconds: float,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._presence = presence
        self._events = events
        self._outbox = outbox
        self._spawn = spawn
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._offline_since: dict[tuple[NodeId, int], float] = {}
        """Since when nodes of others are offline, by this machine's monotonic clock."""

    async def clean_up_after(self, gone: CleanUp) -> None:
        """Its nodes get no more slots; those that do not come back in time lose what they held."""
        seats = await self._seats_of(gone.instance_id)
        # Asked after the seats were read: if the instance is still down now, those were its old
        # connections, and a node that registers with its next life has a newer epoch.
        still = await self._presence.take_down(gone.instance_id)
        if still is not None and still.incarnation == gone.incarnation:
            await self._cut_off(gone.instance_id, seats)

    async def clean_up_before(self, instance_id: InstanceId) -> None:
        """The same for an earlier life of this instance, before it accepts its first socket."""
        await self._cut_off(instance_id, await self._seats_of(instance_id))

    async def forget_long_gone(self, far: Iterable[RemoteNode], after_seconds: float) -> None:
        """Give up the seats of nodes that this instance has seen offline for so long."""
        now = self._clock.monotonic()
        known, self._offline_since = self._offline_since, {}
        async for node in yielding(far, self._clock):
            if node.status is not NodeHealth.OFFLINE:
                continue
            connection = (node.node_id, node.owner.epoch)
            since = self._offline_since[connection] = known.get(connection, now)
            if now - since < after_seconds:
                continue
            record = await self._ledger.read_cell(node.cell)
            for seat in record.seats if record is not None else ():
                # What is shown may be old; what the cell says now decides.
                if seat.node_id == node.node_id and not seat.online and seat.owner == node.owner:
                    await self._forget(node.cell, Sender(seat.node_id, seat.owner.epoch))

    async def _forget(self, cell: int, sender: Sender) -> None:
        removed = await self._ledger.remove(cell, sender)
        await self._ledger.forget(sender.node_id, sender.epoch)
        if isinstance(removed, NodeLost):
            self._events.freed(removed.freed)
            await self._events.lost(cell, removed.lost)
            self._outbox.changed(cell, sender.node_id)

    async def _cut_off(self, instance_id: InstanceId, seats: list[Seat]) -> None:
        for cell, sender in seats:
            await self._ledger.disconnect(cell, sender)
            self._outbox.changed(cell, sender.node_id)
        if seats:
            log.info("nodes_cut_off", instance_id=instance_id, nodes=len(seats))
            self._spawn(self._lose_after_grace(seats))

    async def _seats_of(self, instance_id: InstanceId) -> list[Seat]:
        seats: list[Seat] = []
        for cell in await self._ledger.cells():
            record = await self._ledger.read_cell(cell)
            for seat in record.seats if record is not None else ():
                if seat.owner.instance_id == instance_id and seat.online:
                    seats.append((cell, Sender(seat.node_id, seat.owner.epoch)))
        return seats

    async def _lose_after_grace(self, seats: list[Seat]) -> None:
        await asyncio.sleep(self._grace_seconds)
        for cell, sender in seats:
            lost = await self._ledger.lose(cell, sender, only_if_silent=True)
            if isinstance(lost, NodeLost):
                self._events.freed(lost.freed)
                await self._events.lost(cell, lost.lost)
                self._outbox.changed(cell, sender.node_id)
