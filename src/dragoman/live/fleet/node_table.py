"""The table of an instance's nodes, and how they look to selection, statistics and others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import NodeId
from dragoman.live.fleet.node import Census, Headcount, RegisteredNode
from dragoman.live.fleet.ports import AttemptPort, FleetPeerPort
from dragoman.live.fleet.remote_nodes import RemoteNodes, Sharing
from dragoman.live.ledger import Seats
from dragoman.live.snapshot import CellView, SnapshotHolder


class NodeTable:
    """Who is connected here, or was a while ago. What changes is shown at once."""

    def __init__(
        self,
        *,
        ledger: Seats,
        snapshots: SnapshotHolder,
        census: Census,
        far: RemoteNodes,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        clock: Clock,
        peers: FleetPeerPort | None,
    ) -> None:
        self.nodes: dict[NodeId, RegisteredNode] = {}
        self.by_beat: OrderedDict[NodeId, RegisteredNode] = OrderedDict()
        """Online nodes, the one not heard of for longest first."""
        self.offline: OrderedDict[NodeId, float] = OrderedDict()
        """Since when nodes are offline, the one that is for longest first."""
        self._snapshots = snapshots
        self._census = census
        self._far = far
        self._clock = clock
        self._peers = peers
        self._sharing = Sharing(ledger, self.told_others, spawn) if peers else None
        self._attempts: AttemptPort | None = None

    def attach(self, attempts: AttemptPort) -> None:
        self._attempts = attempts

    @property
    def port(self) -> AttemptPort:
        """Who looks after attempts."""
        if self._attempts is None:
            raise errors.InternalError("The registry was started before it was attached.")
        return self._attempts

    def enter(self, node: RegisteredNode) -> None:
        """The node is connected here, from now on over this connection."""
        self.nodes[node.node_id] = node
        self._far.moved_in(node.node_id)
        self.offline.pop(node.node_id, None)
        self.heard_from(node)
        self.show(node)

    def heard_from(self, node: RegisteredNode) -> None:
        """The node lives."""
        node.last_beat = node.last_sign = self._clock.monotonic()
        node.last_seen_ms = self._clock.now_ms()
        self.by_beat[node.node_id] = node
        self.by_beat.move_to_end(node.node_id)

    def show(self, node: RegisteredNode) -> None:
        """Put the node's facts into the snapshot."""
        view = self._snapshots.current.cells.get(node.cell) or CellView(node.cell)
        self._snapshots.replace(view.with_node(node.facts()))
        self.count(node)
        if self._sharing is not None:
            self._sharing.changed(node)
        if node.health.takes_jobs:
            self.port.wake()

    def show_in_its_seat(self, node: RegisteredNode, cell: int, index: int) -> None:
        """Show the node again, if its seat was thought to be another node's."""
        view = self._snapshots.current.cells.get(cell)
        shown = view.indexes.get(node.node_id) if view is not None else None
        if (node.cell, node.index) == (cell, index) and shown != index:
            self.show(node)

    def hide(self, node_id: NodeId, cell: int, index: int) -> None:
        """Take the node out of the snapshot, unless another one has its place by now."""
        view = self._snapshots.current.cells.get(cell)
        if view is not None and view.indexes.get(node_id) == index:
            self._snapshots.replace(view.without_node(index))

    def count(self, node: RegisteredNode, gone: bool = False) -> None:
        """Keep the census, on change."""
        after: Headcount | None = None
        if not gone:
            if self.nodes.get(node.node_id) is not node:
                return  # Another connection speaks, and counts, for it.
            after = Headcount(node.health.state, node.slots, node.facts().ready_types())
        self._census.change(node.counted, after)
        node.counted = after

    def told_others(self, node: RegisteredNode) -> None:
        """Something new about the node is in its cell."""
        if self._peers is not None:
            self._peers.changed(node.cell, node.node_id)

    def share_again(self) -> None:
        """Try again to tell others what could not be written."""
        if self._sharing is not None:
            self._sharing.go_on()
