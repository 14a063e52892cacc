"""Nodes that take no new jobs for a while, by an operator's word or their own."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.errors import NodeUnavailable
from dragoman.ids import NodeId
from dragoman.live.fleet.health import HealthEvent
from dragoman.live.fleet.node import RegisteredNode
from dragoman.live.fleet.node_table import NodeTable
from dragoman.live.fleet.ports import FleetPeerPort
from dragoman.live.fleet.remote_nodes import RemoteNode
from dragoman.live.ledger import Owner, Seats
from dragoman.live.protocol import Command, NodeControl, NodeHealth, NodeStatus

DRAINED_BY_OPERATOR = "drained by an operator"


class Drains:
    """Stores what operators want of a node, and tells it, wherever it is connected."""

    def __init__(
        self,
        ledger: Seats,
        table: NodeTable,
        known: Callable[[NodeId], RegisteredNode | RemoteNode],
        peers: FleetPeerPort | None,
    ) -> None:
        self._ledger = ledger
        self._table = table
        self._known = known
        self._peers = peers

    async def drain(self, node_id: NodeId, reason: str | None = None) -> None:
        """An operator's drain: no new jobs, also after a reconnect."""
        node = self._known(node_id)
        await self._ledger.set_drained(node.cell, node_id, True)
        self._control(node, Command.DRAIN, reason)

    def drained_itself(self, node: RegisteredNode, reason: str | None) -> None:
        """The node wants no more jobs, on this connection."""
        if node.health.happened(HealthEvent.DRAIN):
            node.drain_reason = reason
            self._table.show(node)
            node.link.send(NodeStatus(node.health.state, reason))

    async def resume(self, node_id: NodeId) -> None:
        """Undo a drain: the node proves itself anew."""
        node = self._known(node_id)
        await self._ledger.set_drained(node.cell, node_id, False)
        self._control(node, Command.RESUME)

    def shut_down(self, node_id: NodeId, reason: str | None = None) -> None:
        """Have a node finish its jobs and end; it gets no new ones on this connection."""
        node = self._known(node_id)
        if node.status is NodeHealth.OFFLINE:
            raise NodeUnavailable(
                f"Node {node_id} is not connected, so it cannot be told to shut down."
            )
        self._control(node, Command.SHUTDOWN, reason)

    def control(self, node_id: NodeId, owner: Owner, command: Command, reason: str | None) -> None:
        """Pass on a command that came to another instance, if this connection still speaks."""
        node = self._table.nodes.get(node_id)
        if node is not None and node.owner == owner and node.online:
            self._control(node, command, reason)

    def _control(
        self, node: RegisteredNode | RemoteNode, command: Command, reason: str | None = None
    ) -> None:
        if isinstance(node, RemoteNode):
            if self._peers is not None:
                self._peers.control(node.node_id, node.owner, command, reason)
                self._peers.changed(node.cell, node.node_id)
            return
        if command is Command.DRAIN:
            self.drained_itself(node, reason or DRAINED_BY_OPERATOR)
        if command is Command.SHUTDOWN:
            self.drained_itself(node, reason or "told by an operator to shut down")
        if command is Command.RESUME and node.health.happened(HealthEvent.RESUME):
            self._table.show(node)
            node.link.send(NodeStatus(node.health.state, "resumed by an operator"))
        node.link.send(NodeControl(command, reason))
        if command is Command.RESUME:
            node.link.send(NodeControl(Command.REPORT))
