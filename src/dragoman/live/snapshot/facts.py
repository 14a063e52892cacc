"""What a scheduling decision needs to know of a node, and nothing that changes by the second."""

from __future__ import annotations

import msgspec

from dragoman.ids import NodeId, TenantId
from dragoman.live.protocol import Capability, Languages, Service, ServiceStatus, ServiceType


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the last change left it. Percentages and running counts are not facts."""

    node_id: NodeId
    cell: int
    index: int
    languages: Languages
    services: tuple[Service, ...]
    capabilities: tuple[Capability, ...] = ()
    """Kinds of work the node speaks of; for the others its services speak."""
    features: frozenset[str] = frozenset()
    ready: bool = False
    public: bool = True
    tenant: TenantId | None = None
    over_threshold: bool = False
    resting: bool = False
    """Its jobs mostly fail, and it failed one just now: others are asked first."""
    here: bool = False
    """It is connected to this instance."""
    marked: frozenset[str] = frozenset()
    """Services that are marked unavailable for a while, by service_id."""

    def present_types(self) -> frozenset[ServiceType]:
        """Kinds of work the node has a service for, running or not."""
        return frozenset(service.type for service in self.services)

    def ready_types(self) -> frozenset[ServiceType]:
        """Kinds of work it can do now: a service runs, and the node does not call it unready."""
        return self._types(frozenset())

    def unmarked_types(self) -> frozenset[ServiceType]:
        """Ready kinds of work with at least one service that is not marked."""
        return self._types(self.marked)

    def _types(self, without: frozenset[str]) -> frozenset[ServiceType]:
        unready = {capability.type for capability in self.capabilities if not capability.ready}
        return frozenset(
            service.type
            for service in self.services
            if service.status is ServiceStatus.RUNNING
            and service.type not in unready
            and service.service_id not in without
        )
