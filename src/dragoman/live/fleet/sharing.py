"""Writing the facts of this instance's nodes to their cells, where other instances read them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from dragoman.errors import DependencyDown
from dragoman.ids import NodeId
from dragoman.live.fleet.node import Node
from dragoman.live.fleet.shared_facts import write_facts
from dragoman.live.ledger import Done, Seats


class Sharing:
    """At most one write is under way for a node; what changed meanwhile goes with the next."""

    def __init__(
        self,
        ledger: Seats,
        on_written: Callable[[Node], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._ledger = ledger
        self._on_written = on_written
        self._spawn = spawn
        self._unwritten: dict[NodeId, Node] = {}
        self._writing: set[NodeId] = set()

    def changed(self, node: Node) -> None:
        """The node may look otherwise than others know."""
        if write_facts(node) == node.shared:
            return
        self._unwritten[node.node_id] = node
        if node.node_id not in self._writing:
            self._writing.add(node.node_id)
            self._spawn(self._write(node.node_id))

    def go_on(self) -> None:
        """Try again what could not be written."""
        for node in list(self._unwritten.values()):
            self.changed(node)

    async def _write(self, node_id: NodeId) -> None:
        try:
            while (node := self._unwritten.pop(node_id, None)) is not None:
                try:
                    await self._write_one(node)
                except DependencyDown:
                    self._unwritten.setdefault(node_id, node)
                    return
        finally:
            self._writing.discard(node_id)

    async def _write_one(self, node: Node) -> None:
        facts = write_facts(node)
        if facts == node.shared:
            return
        answer = await self._ledger.amend(node.cell, node.sender, facts=facts)
        # A node without its seat gets it back with its next heartbeat, and its facts with it.
        if isinstance(answer, Done):
            node.shared = facts
            self._on_written(node)
