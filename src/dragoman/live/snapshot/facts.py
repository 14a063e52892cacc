"""What a scheduling decision needs to know of a node, and nothing that changes by the second."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dragoman.ids import NodeId, TenantId
from dragoman.live.protocol import (
    Capability,
    Languages,
    NamedService,
    Service,
    ServiceStatus,
    ServiceType,
    service_names,
)


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
    """Services that are marked unavailable for a while: by service_id with all versions, or by
    service_id and version."""

    def services_for(self, named: Iterable[NamedService]) -> dict[ServiceType, str]:
        """What does each kind of work, as ``service_id[@version]``: the service that runs and is
        named, or the first that runs."""
        wanted = dict(named)
        found: dict[ServiceType, str] = {}
        for service in self.services:
            if service.status is ServiceStatus.RUNNING:
                names = service_names(service)
                if wanted.get(service.type.value) in names:
                    found[service.type] = names[-1]
                    del wanted[service.type.value]
                else:
                    found.setdefault(service.type, names[-1])
        return found

    def present_types(self) -> frozenset[ServiceType]:
        """Kinds of work the node has a service for, running or not."""
        return frozenset(service.type for service in self.services)

    def ready_types(self) -> frozenset[ServiceType]:
        """Kinds of work it can do now: a service runs, and the node does not call it unready."""
        return frozenset(service.type for service in self._ready())

    def unmarked_types(self) -> frozenset[ServiceType]:
        """Ready kinds of work with at least one service that is not marked."""
        return frozenset(service.type for service in self._unmarked())

    def present_services(self) -> list[NamedService]:
        """Its services by every name that a job may call them, running or not."""
        return _named(self.services)

    def ready_services(self) -> list[NamedService]:
        """Those that it can work with now."""
        return _named(self._ready())

    def unmarked_services(self) -> list[NamedService]:
        """Ready ones that are not marked."""
        return _named(self._unmarked())

    def depends_on(self, stage: str, name: str) -> bool:
        """Whether every service that it could use for a stage now is called so."""
        return all(
            name in service_names(one) for one in self._unmarked() if one.type.value == stage
        )

    def has_same_services(self, other: NodeFacts) -> bool:
        """Whether jobs that ask for services by name find the same in both."""
        return (
            self.services == other.services
            and self.capabilities == other.capabilities
            and self.marked == other.marked
        )

    def _ready(self) -> list[Service]:
        unready = {capability.type for capability in self.capabilities if not capability.ready}
        return [
            service
            for service in self.services
            if service.status is ServiceStatus.RUNNING and service.type not in unready
        ]

    def _unmarked(self) -> list[Service]:
        if not self.marked:
            return self._ready()
        return [one for one in self._ready() if self.marked.isdisjoint(service_names(one))]


def _named(services: Iterable[Service]) -> list[NamedService]:
    return [(one.type.value, name) for one in services for name in service_names(one)]
