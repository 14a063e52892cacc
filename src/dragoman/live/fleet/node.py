"""A node as the registry knows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

import msgspec

from dragoman.ids import ConnectionId, InstanceId, NodeId, TenantId
from dragoman.live.fleet.health import Breaker, HealthRecord, HealthRules, RecentUsage, ResourceMean
from dragoman.live.fleet.ports import NodeLink
from dragoman.live.fleet.unavailable_services import Mark
from dragoman.live.ledger import Owner, Sender
from dragoman.live.protocol import (
    Capability,
    Languages,
    NodeHealth,
    NodeHeartbeat,
    NodeRegister,
    Service,
    ServiceStatus,
    ServiceType,
)
from dragoman.live.snapshot import NodeFacts, PoolRule, is_in_a_pool, what_is_missing
from dragoman.observability import Metrics


class Headcount(msgspec.Struct, frozen=True):
    """What one node adds to the census."""

    status: NodeHealth
    slots: int
    types: frozenset[ServiceType]
    """Kinds of work it can do now."""


class Census:
    """The fleet in numbers. Offline nodes are known, but bring neither slots nor services."""

    def __init__(self, metrics: Metrics) -> None:
        self._nodes_by_status = metrics.nodes
        self.total = 0
        self.slots = 0
        self.by_status: Counter[NodeHealth] = Counter()
        self.by_service_type: Counter[ServiceType] = Counter()

    def change(self, before: Headcount | None, after: Headcount | None) -> None:
        """A node is counted otherwise than before; None: it was not, or is no longer, known."""
        if before == after:
            return
        for headcount, step in ((before, -1), (after, 1)):
            if headcount is not None:
                self._add(headcount, step)

    def _add(self, headcount: Headcount, step: int) -> None:
        status = headcount.status
        self.total += step
        self.by_status[status] += step
        self._nodes_by_status.labels(status.value).set(self.by_status[status])
        if status is not NodeHealth.OFFLINE:
            self.slots += step * headcount.slots
            for kind in headcount.types:
                self.by_service_type[kind] += step


NO_OWNER = Owner(InstanceId(""), ConnectionId(""), 0)


class RegisteredNode:
    """Facts of one node under one connection. The registry alone changes them."""

    __slots__ = (
        "_sender",
        "capabilities",
        "cell",
        "counted",
        "declared_slots",
        "drain_reason",
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
        "owner",
        "public",
        "rests",
        "seated_slots",
        "services",
        "shared",
        "tenant",
        "usage",
        "words",
    )

    def __init__(
        self,
        node_id: NodeId,
        register: NodeRegister,
        *,
        slots: int,
        tenant: TenantId,
        link: NodeLink,
        rules: HealthRules,
    ) -> None:
        self.node_id = node_id
        self._sender = Sender(node_id, -1)
        self.cell = -1
        self.index = -1
        self.link = link
        self.owner = NO_OWNER
        self.holder = ""
        """How the directory remembers whom the node's name belongs to."""
        self.tenant = tenant
        self.declared_slots = slots
        """How many jobs it says it can do at once."""
        self.seated_slots = slots
        """How many its seat in the ledger has."""
        self.public = register.accept_public_jobs
        self.services: tuple[Service, ...] = register.services
        self.capabilities: tuple[Capability, ...] = register.capability_by_type or ()
        self.languages: Languages = register.languages
        self.features = frozenset(register.features)
        self.usage = RecentUsage(rules.thresholds)
        self.drain_reason: str | None = None
        self.rests = 0
        """Failed trials after which it still rests: others are asked first meanwhile."""
        self.marks: tuple[Mark, ...] = ()
        self.health = HealthRecord(rules)
        self.counted: Headcount | None = None
        """As what the census counts it."""
        self.shared = b""
        """Its facts as they were last written for other instances."""
        self.words = 0
        """Heartbeats and acknowledgements over this connection, in the order in which they came."""
        self.last_seen_ms = 0
        self.last_beat = 0.0
        """Of a heartbeat that could be read; monotonic seconds."""
        self.last_sign = 0.0
        """Of any heartbeat, sense or not; the next one is late by it."""

    @property
    def sender(self) -> Sender:
        """The node under the connection that it has now."""
        known = self._sender
        if known.epoch != self.owner.epoch:
            known = self._sender = Sender(self.node_id, self.owner.epoch)
        return known

    @property
    def breaker(self) -> Breaker:
        return self.health.breaker

    @property
    def status(self) -> NodeHealth:
        return self.health.state

    @property
    def slots(self) -> int:
        """How many jobs it may be given at once: one, while its jobs mostly fail."""
        return 1 if self.health.breaker.tripped else self.declared_slots

    @property
    def resources(self) -> tuple[ResourceMean, ...]:
        """How busy its machine is, by its last heartbeats."""
        return self.usage.means()

    @property
    def resting(self) -> bool:
        """Whether it failed a job just now, while it is on trial."""
        return self.rests > 0 and self.health.on_trial

    @property
    def reason(self) -> str | None:
        """Why it is degraded or draining, in words for its owner."""
        return self.drain_reason if self.status is NodeHealth.DRAINING else self.health.reason

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

    def take(self, heartbeat: NodeHeartbeat) -> None:
        """Take over what a heartbeat says has changed."""
        if heartbeat.services is not None:
            self.services = heartbeat.services
        if heartbeat.capability_by_type is not None:
            self.capabilities = heartbeat.capability_by_type
        if heartbeat.languages is not None:
            self.languages = heartbeat.languages
        if heartbeat.max_concurrent_jobs is not None:
            self.declared_slots = heartbeat.max_concurrent_jobs
        self.usage.add(heartbeat.resource_usage)

    def unfit_because(self) -> str | None:
        """Why it can do no job at all; None when it can do some."""
        if not any(service.status is ServiceStatus.RUNNING for service in self.services):
            return "no service runs"
        if self.capabilities and not any(c.ready for c in self.capabilities):
            return "every capability is not ready"
        return None

    def facts(self) -> NodeFacts:
        return NodeFacts(
            node_id=self.node_id,
            cell=self.cell,
            index=self.index,
            languages=self.languages,
            services=self.services,
            capabilities=self.capabilities,
            features=self.features,
            ready=self.health.takes_jobs,
            public=self.public,
            tenant=self.tenant,
            over_threshold=self.usage.over,
            resting=self.resting,
            here=True,
            marked=marked_services(self.marks),
        )


class ServiceMark(Protocol):
    """A mark, as this instance or another one keeps it."""

    @property
    def service_id(self) -> str: ...
    @property
    def version(self) -> str | None: ...


def marked_services(marks: Iterable[ServiceMark]) -> frozenset[str]:
    """The names of what is marked: a service, or one version of it."""
    return frozenset(
        f"{mark.service_id}@{mark.version}" if mark.version else mark.service_id for mark in marks
    )


class Explained(Protocol):
    """A node, here or elsewhere, whose lack of jobs can be explained."""

    @property
    def reason(self) -> str | None: ...
    @property
    def languages(self) -> Languages: ...
    @property
    def resources(self) -> tuple[ResourceMean, ...]: ...


def why_no_jobs(node: Explained, rule: PoolRule) -> str | None:
    """Why a node gets no jobs, or fewer than it could; None when it gets all it can."""
    if node.reason is not None:
        return node.reason
    if not is_in_a_pool(rule, node.languages):
        return what_is_missing(node.languages)
    return busy_reason(node.resources)


def busy_reason(resources: Iterable[ResourceMean]) -> str | None:
    """Why a machine that is too busy leaves its node out; None while it is calm."""
    busy = [f"{mean.resource.value} at {mean.mean_percent:g} %" for mean in resources if mean.over]
    if not busy:
        return None
    return f"the machine is too busy: {', '.join(busy)} over the last heartbeats"
