"""What dispatch needs of its neighbours, so that it need not know them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from dragoman.ids import NodeId, TenantId
from dragoman.live.ledger import Owner
from dragoman.live.protocol import SchedulerToNode

Id = TypeVar("Id", contravariant=True)


class NodePort(Protocol):
    """Reaches nodes of this instance."""

    def send(self, node_id: NodeId, owner: Owner, message: SchedulerToNode) -> bool:
        """Say something over this very connection; False when it is gone."""
        ...

    def report(self, cells: Iterable[int]) -> None:
        """These cells lost their memory: have their nodes say what they run."""
        ...


class TenantCounts(Protocol[Id]):
    """Counts what each tenant has of something, by its id, over all instances."""

    async def acquire(self, tenant: TenantId, counted: Id) -> None:
        """Count a new one; RateLimited when the tenant has as many as it may."""
        ...

    def adopt(self, tenant: TenantId, counted: Id) -> None:
        """Go on counting one that was counted before, here or elsewhere."""
        ...

    def hand_on(self, tenant: TenantId, counted: Id) -> None:
        """Leave the counting to another instance."""
        ...

    def release(self, tenant: TenantId, counted: Id) -> None:
        """It is over."""
        ...
