"""Nodes that leave: their connection closes, they fall silent, or they turn up elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from itertools import islice
from typing import Any

from dragoman import errors
from dragoman.clock import Clock
from dragoman.live.fleet.health import HealthEvent, HealthRules
from dragoman.live.fleet.node import RegisteredNode
from dragoman.live.fleet.node_table import NodeTable
from dragoman.live.fleet.remote_nodes import RemoteNodes
from dragoman.live.ledger import Cold, NodeLost, NotSeated, Seats, Stale
from dragoman.observability import get_logger, yielding

log = get_logger("dragoman.fleet")

TICK_SECONDS = 0.5
FORGOTTEN_A_TICK = 1_000

_INSIST_SECONDS = 1.0
"""The pause between two tries to tell an unreachable ledger of a lost node."""


class Departure:
    """Shows nodes as offline, gives up their attempts after a grace, and forgets them in time."""

    def __init__(
        self,
        ledger: Seats,
        table: NodeTable,
        far: RemoteNodes,
        rules: HealthRules,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._table = table
        self._far = far
        self._rules = rules
        self._spawn = spawn
        self._clock = clock

    async def run(self) -> None:
        """Find nodes that fell silent, and forget those that are long gone."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            await self._time_out_silent()
            self._table.share_again()
            try:
                await self._forget_gone()
            except errors.DependencyDown as error:
                log.warning_limited(
                    "forgetting_skipped", key="forget", every_seconds=10, error=error.message
                )
            except Exception:
                log.exception("forgetting_failed")

    def gone(self, node: RegisteredNode) -> bool:
        """The node's connection is lost; False when another one speaks for it."""
        if self._table.nodes.get(node.node_id) is not node or not node.online:
            return False
        node.health.happened(HealthEvent.LOST)
        self._table.by_beat.pop(node.node_id, None)
        self._table.offline[node.node_id] = self._clock.monotonic()
        self._table.show(node)
        log.info("node_offline", node_id=node.node_id)
        self._spawn(self._lose_after(self._rules.reconnect_grace_seconds, node))
        return True

    def moved_away(self, node: RegisteredNode) -> None:
        """A newer connection, of another instance, speaks for the node."""
        node.link.superseded()
        if self._table.nodes.get(node.node_id) is not node:
            return
        del self._table.nodes[node.node_id]
        self._table.by_beat.pop(node.node_id, None)
        self._table.offline.pop(node.node_id, None)
        self._table.count(node, gone=True)
        self._far.moved_away(node)
        log.info("node_moved_away", node_id=node.node_id)

    async def _time_out_silent(self) -> None:
        """Remove silent nodes; a whole fleet may be cut off at the same moment."""
        async for node in yielding(self._silent(), self._clock):
            node.link.timed_out()
            self.gone(node)

    def _silent(self) -> Iterator[RegisteredNode]:
        """Nodes that were silent for too long, one after another as they are removed."""
        limit = self._clock.monotonic() - self._rules.timeout_seconds
        while self._table.by_beat:
            node = next(iter(self._table.by_beat.values()))
            if node.last_beat > limit:
                return
            yield node

    async def _forget_gone(self) -> None:
        limit = self._clock.monotonic() - self._rules.forget_offline_seconds
        oldest = list(islice(self._table.offline.items(), FORGOTTEN_A_TICK))
        async for node_id, since in yielding(oldest, self._clock):
            if since > limit:
                return
            if self._table.offline.get(node_id) != since:
                continue  # It came back while others were forgotten.
            node = self._table.nodes[node_id]
            gone = await self._ledger.remove(node.cell, node.sender)
            await self._ledger.forget(node_id, node.owner.epoch)
            if self._table.nodes.get(node_id) is not node or node.online:
                continue
            self._table.offline.pop(node_id, None)
            del self._table.nodes[node_id]
            self._table.hide(node_id, node.cell, node.index)
            self._table.count(node, gone=True)
            self._table.told_others(node)
            if isinstance(gone, NodeLost):
                await self._table.port.lost(node.cell, gone.lost)
                self._table.port.freed(gone.freed)

    async def _lose_after(self, seconds: float, node: RegisteredNode) -> None:
        """When the grace is over; a node that came back has another connection by then."""
        await asyncio.sleep(seconds)
        answer = await self._lose(node)
        if isinstance(answer, NodeLost):
            self._table.told_others(node)
            self._table.port.freed(answer.freed)
            await self._table.port.lost(node.cell, answer.lost)

    async def _lose(self, node: RegisteredNode) -> NodeLost | Stale | NotSeated | Cold:
        """No other instance releases what the node held before its lease ends: keep trying."""
        while True:
            try:
                return await self._ledger.lose(node.cell, node.sender)
            except errors.DependencyDown as down:
                log.warning_limited(
                    "node_not_lost", key="lose", every_seconds=10, error=down.message
                )
            await asyncio.sleep(_INSIST_SECONDS)
