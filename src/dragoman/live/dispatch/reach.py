"""Speaking to nodes, wherever they are connected."""

from __future__ import annotations

from dragoman.ids import InstanceId, NodeId
from dragoman.live.dispatch.ports import NodePort, PeerPort
from dragoman.live.ledger import Owner
from dragoman.live.protocol import Command, JobCancel, NodeControl, RunningJob


class Reach:
    """Nodes of this instance are told themselves, others through the instance they are at."""

    def __init__(self, nodes: NodePort, peers: PeerPort | None, instance_id: InstanceId) -> None:
        self._nodes = nodes
        self._peers = peers
        self._instance_id = instance_id

    def cancel(self, running: RunningJob, node_id: NodeId, owner: Owner, reason: str) -> None:
        """Have the node stop the attempt."""
        peers = self._far(owner)
        if peers is None:
            self._nodes.send(node_id, owner, JobCancel(running.job_id, running.attempt_id, reason))
        else:
            peers.cancel(running, node_id, owner, reason)

    def ask_report(self, node_id: NodeId, owner: Owner) -> None:
        """Have the node say now what it runs."""
        peers = self._far(owner)
        if peers is None:
            self._nodes.send(node_id, owner, NodeControl(Command.REPORT))
        else:
            peers.ask_report(node_id, owner)

    def ask_cold(self, cells: frozenset[int]) -> None:
        """Cells lost their memory: their nodes, wherever they are, know what they run."""
        if cells:
            self._nodes.report(cells)
            if self._peers is not None:
                self._peers.ask_cells(cells)

    def _far(self, owner: Owner) -> PeerPort | None:
        """How the node is reached when it is another instance's."""
        return None if owner.instance_id == self._instance_id else self._peers
