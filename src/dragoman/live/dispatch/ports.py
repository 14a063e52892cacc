"""What dispatch needs of its neighbours, so that it need not know them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dragoman.ids import NodeId
from dragoman.live.ledger import Owner
from dragoman.live.protocol import SchedulerToNode


class NodePort(Protocol):
    """Reaches nodes."""

    def send(self, node_id: NodeId, owner: Owner, message: SchedulerToNode) -> bool:
        """Say something over this very connection; False when it is gone."""
        ...

    def report(self, cells: Iterable[int]) -> None:
        """These cells lost their memory: have their nodes say what they run."""
        ...
