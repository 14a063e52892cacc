"""A node as the registry knows it."""

from __future__ import annotations

from dragoman.ids import ConnectionId, InstanceId, NodeId, TenantId
from dragoman.live.fleet.census import Headcount
from dragoman.live.fleet.health import Health, HealthRules
from dragoman.live.fleet.marks import Mark
from dragoman.live.fleet.ports import NodeLink
from dragoman.live.ledger import Owner, Sender
from dragoman.live.protocol import (
    Capability,
    Languages,
    NodeHealth,
    NodeHeartbeat,
    NodeRegister,
    ResourceUsage,
    Service,
    ServiceStatus,
)
from dragoman.live.snapshot import NodeFacts

NOBODY = Owner(InstanceId(""), ConnectionId(""), 0)


class Node:
    """Facts of one node under one connection. The registry alone changes them."""

    __slots__ = (
        "capabilities",
        "cell",
        "counted",
        "features",
        "health",
        "holder",
        "index",
        "languages",
        "last_beat",
        "last_seen_ms",
        "last_sign",
        "link",
        "marks",
        "node_id",
        "over_threshold",
        "owner",
        "public",
        "services",
        "shared",
        "slots",
        "tenant",
        "token",
    )

    def __init__(
        self,
        node_id: NodeId,
        register: NodeRegister,
        *,
        slots: int,
        tenant: TenantId,
        link: NodeLink,
        token: str,
        rules: HealthRules,
    ) -> None:
        self.node_id = node_id
        self.cell = -1
        self.index = -1
        self.link = link
        self.owner = NOBODY
        self.token = token
        self.holder = ""
        """How the directory remembers whom the node's name belongs to."""
        self.tenant = tenant
        self.slots = slots
        self.public = register.accept_public_jobs
        self.services: tuple[Service, ...] = register.services
        self.capabilities: tuple[Capability, ...] = register.capability_by_type or ()
        self.languages: Languages = register.languages
        self.features = frozenset(register.features)
        self.over_threshold = False
        self.marks: tuple[Mark, ...] = ()
        self.health = Health(rules)
        self.counted: Headcount | None = None
        """As what the census counts it."""
        self.shared = b""
        """Its facts as they were last written for other instances."""
        self.last_seen_ms = 0
        self.last_beat = 0.0
        """Of a heartbeat that could be read; monotonic seconds."""
        self.last_sign = 0.0
        """Of any heartbeat, sense or not; the next one is late by it."""

    @property
    def sender(self) -> Sender:
        return Sender(self.node_id, self.owner.epoch)

    @property
    def status(self) -> NodeHealth:
        return self.health.state

    @property
    def online(self) -> bool:
        return self.health.state is not NodeHealth.OFFLINE

    def left_for(self, owner: Owner) -> bool:
        """Whether another connection owns the node's seat, a newer one or one that is left."""
        if owner.connection_id == self.owner.connection_id:
            # A seat that its own connection took again has a newer epoch, too.
            return False
        # Epochs begin anew in a ledger that lost its memory: who is gone cannot go by them.
        return owner.epoch > self.owner.epoch or not self.online

    def take(self, heartbeat: NodeHeartbeat, threshold_percent: float) -> None:
        """Take over what a heartbeat says has changed."""
        if heartbeat.services is not None:
            self.services = heartbeat.services
        if heartbeat.capability_by_type is not None:
            self.capabilities = heartbeat.capability_by_type
        if heartbeat.languages is not None:
            self.languages = heartbeat.languages
        if heartbeat.max_concurrent_jobs is not None:
            self.slots = heartbeat.max_concurrent_jobs
        self.over_threshold = over_threshold(heartbeat.resource_usage, threshold_percent)

    def fit(self) -> bool:
        """Whether it can do anything at all: a service runs, and not every kind is unready."""
        runs = any(service.status is ServiceStatus.RUNNING for service in self.services)
        unready = bool(self.capabilities) and not any(c.ready for c in self.capabilities)
        return runs and not unready

    def facts(self) -> NodeFacts:
        return NodeFacts(
            node_id=self.node_id,
            cell=self.cell,
            index=self.index,
            languages=self.languages,
            services=self.services,
            capabilities=self.capabilities,
            features=self.features,
            ready=self.health.state is NodeHealth.READY,
            public=self.public,
            tenant=self.tenant,
            over_threshold=self.over_threshold,
            marked=frozenset(mark.service_id for mark in self.marks),
        )


def over_threshold(usage: ResourceUsage, threshold_percent: float) -> bool:
    """Whether any resource is as busy as the threshold, or busier."""
    percentages = (
        usage.cpu_percent,
        usage.mem_percent,
        usage.gpu_percent,
        usage.gpu_mem_percent,
    )
    return any(percent is not None and percent >= threshold_percent for percent in percentages)
