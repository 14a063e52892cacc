"""Nodes that are connected to other instances: read from their cells, shown in the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from typing import Any

import msgspec

from dragoman.errors import DependencyDown
from dragoman.ids import InstanceId, NodeId, TenantId
from dragoman.live.fleet.health import ResourceMean
from dragoman.live.fleet.node import Census, Headcount, RegisteredNode, marked_services
from dragoman.live.ledger import CellRecord, Done, Owner, SeatRecord, Seats
from dragoman.live.protocol import Capability, Languages, NodeHealth, Service
from dragoman.live.snapshot import CellView, NodeFacts, SnapshotHolder


class SharedMark(msgspec.Struct, frozen=True, array_like=True):
    """A service that is left alone for a while."""

    service_id: str
    reason: str
    expires_at_ms: int
    version: str | None = None


class SharedFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node as the instance it is connected to knows it. Its slots are the ledger's."""

    status: NodeHealth
    languages: Languages
    services: tuple[Service, ...]
    capabilities: tuple[Capability, ...] = ()
    features: tuple[str, ...] = ()
    public: bool = True
    tenant: TenantId | None = None
    takes_jobs: bool | None = None
    """Whether it may be given jobs; None: when it is ready."""
    resting: bool = False
    resources: tuple[ResourceMean, ...] = ()
    """As they were when the facts were written; the verdicts are always of now."""
    reason: str | None = None
    marks: tuple[SharedMark, ...] = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SharedFacts)


def write_facts(node: RegisteredNode) -> bytes:
    """The same facts are always the same bytes."""
    return _encoder.encode(
        SharedFacts(
            status=node.status,
            languages=node.languages,
            services=node.services,
            capabilities=node.capabilities,
            features=tuple(sorted(node.features)),
            public=node.public,
            tenant=node.tenant,
            takes_jobs=node.health.takes_jobs if node.health.on_trial else None,
            resting=node.resting,
            resources=node.resources,
            reason=node.reason,
            marks=tuple(
                SharedMark(mark.service_id, mark.reason, mark.expires_at_ms, mark.version)
                for mark in node.marks
            ),
        )
    )


def read_facts(written: bytes) -> SharedFacts | None:
    """None for facts that are not there, or that this version of Dragoman cannot read."""
    try:
        return _decoder.decode(written)
    except msgspec.DecodeError:
        return None


class RemoteNode:
    """A node as its cell shows it. What it is doing is another instance's to know."""

    __slots__ = (
        "_facts",
        "cell",
        "counted",
        "index",
        "last_seen_ms",
        "node_id",
        "owner",
        "slots",
        "status",
    )

    def __init__(
        self,
        node_id: NodeId,
        cell: int,
        index: int,
        owner: Owner,
        slots: int,
        status: NodeHealth,
        facts: SharedFacts,
        last_seen_ms: int = 0,
    ) -> None:
        self.node_id = node_id
        self.cell = cell
        self.index = index
        self.owner = owner
        self.slots = slots
        self.status = status
        self.last_seen_ms = last_seen_ms
        """When it was heard of before its cell was read; its heartbeats are not told on."""
        self.counted: Headcount | None = None
        """As what the census counts it."""
        self._facts = facts

    @property
    def services(self) -> tuple[Service, ...]:
        return self._facts.services

    @property
    def languages(self) -> Languages:
        return self._facts.languages

    @property
    def features(self) -> frozenset[str]:
        return frozenset(self._facts.features)

    @property
    def marks(self) -> tuple[SharedMark, ...]:
        return self._facts.marks

    @property
    def resources(self) -> tuple[ResourceMean, ...]:
        return self._facts.resources

    @property
    def reason(self) -> str | None:
        """Why it is degraded or draining, as its instance says."""
        return self._facts.reason if self.status is self._facts.status else None

    @property
    def takes_jobs(self) -> bool:
        if self.status is self._facts.status and self._facts.takes_jobs is not None:
            return self._facts.takes_jobs
        return self.status is NodeHealth.READY

    def facts(self) -> NodeFacts:
        known = self._facts
        return NodeFacts(
            node_id=self.node_id,
            cell=self.cell,
            index=self.index,
            languages=known.languages,
            services=known.services,
            capabilities=known.capabilities,
            features=self.features,
            ready=self.takes_jobs,
            public=known.public,
            tenant=known.tenant,
            over_threshold=any(mean.over for mean in known.resources),
            resting=known.resting,
            marked=marked_services(known.marks),
        )


class RemoteNodes:
    """The nodes of other instances, cell by cell."""

    def __init__(
        self,
        snapshots: SnapshotHolder,
        census: Census,
        instance_id: InstanceId,
        heartbeat_lease_ms: int,
    ) -> None:
        self._snapshots = snapshots
        self._census = census
        self._instance_id = instance_id
        self._lease_ms = heartbeat_lease_ms
        self._nodes: dict[NodeId, RemoteNode] = {}
        self._cells: dict[int, dict[NodeId, RemoteNode]] = {}
        self.cold: set[int] = set()
        """Cells that lost their memory: who is in them will be known when their nodes report."""

    def __iter__(self) -> Iterator[RemoteNode]:
        return iter(list(self._nodes.values()))

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, node_id: NodeId) -> RemoteNode | None:
        return self._nodes.get(node_id)

    def take(self, record: CellRecord, ours: Collection[NodeId]) -> bool:
        """A cell was read: show the nodes in it that are not ours; whether any can do more."""
        self.cold.discard(record.cell)
        found: dict[NodeId, RemoteNode] = {}
        for seat in record.seats:
            facts = read_facts(seat.facts)
            if facts is not None and seat.node_id not in ours:
                found[seat.node_id] = self._seated(record.cell, seat, facts)
        before = self._cells.get(record.cell, {})
        self._put(record.cell, found, {seat.index: seat.node_id for seat in record.seats})
        return any(
            node.takes_jobs and (node_id not in before or before[node_id].facts() != node.facts())
            for node_id, node in found.items()
        )

    def cool(self, cell: int) -> None:
        """The cell lost its memory: its nodes are known, but their state is not."""
        self.cold.add(cell)
        known = self._cells.get(cell, {})
        for node in known.values():
            node.status = NodeHealth.OFFLINE
        self._put(cell, known)

    def cut_off(self, instance_id: InstanceId) -> None:
        """The instance is unreachable: its nodes get no work until their cells are read again."""
        for cell, known in list(self._cells.items()):
            theirs = [node for node in known.values() if node.owner.instance_id == instance_id]
            for node in theirs:
                node.status = NodeHealth.OFFLINE
            if theirs:
                self._put(cell, known)

    def forget(self, cell: int) -> None:
        """The cell has no nodes any more."""
        self.cold.discard(cell)
        self._put(cell, {})

    def moved_away(self, node: RegisteredNode) -> None:
        """A node of ours is connected elsewhere; until its cell is read it gets no work."""
        facts = read_facts(write_facts(node))
        if facts is not None:
            far = RemoteNode(
                node.node_id,
                node.cell,
                node.index,
                node.owner,
                node.slots,
                NodeHealth.REGISTERING,
                facts,
                node.last_seen_ms,
            )
            self._put(node.cell, {**self._cells.get(node.cell, {}), node.node_id: far})

    def moved_in(self, node_id: NodeId) -> None:
        """The node is connected to this instance now: this table no longer shows it."""
        far = self._nodes.pop(node_id, None)
        if far is not None:
            known = {**self._cells.get(far.cell, {})}
            known.pop(node_id, None)
            self._put(far.cell, known)

    def _seated(self, cell: int, seat: SeatRecord, facts: SharedFacts) -> RemoteNode:
        status = facts.status
        if not seat.online or seat.owner.instance_id == self._instance_id:
            # Owned by us and not among ours: from an earlier life of this instance.
            status = NodeHealth.OFFLINE
        elif seat.drained and status is not NodeHealth.OFFLINE:
            status = NodeHealth.DRAINING
        last_seen_ms = seat.alive_until_ms - self._lease_ms
        return RemoteNode(
            seat.node_id, cell, seat.index, seat.owner, seat.slots, status, facts, last_seen_ms
        )

    def _put(
        self, cell: int, found: dict[NodeId, RemoteNode], seats: Mapping[int, NodeId] | None = None
    ) -> None:
        """These are the cell's far nodes now: keep the table and the snapshot so.

        seats tell whose each place is, when the cell was read just now.
        """
        before = self._cells.pop(cell, {})
        for node_id, node in before.items():
            if node_id not in found and self._nodes.get(node_id) is node:
                del self._nodes[node_id]
        for node_id, node in found.items():
            elsewhere = self._nodes.get(node_id)
            if elsewhere is not None and elsewhere.cell != cell:
                self.moved_in(node_id)
            self._nodes[node_id] = node
        if found:
            self._cells[cell] = found
        self._count(before, found)
        self._show(cell, before.keys(), found, seats or {})

    def _count(self, before: dict[NodeId, RemoteNode], found: dict[NodeId, RemoteNode]) -> None:
        """Keep the census, on change."""
        for node_id, node in before.items():
            if found.get(node_id) is not node:
                self._census.change(node.counted, None)
        for node in found.values():
            after = Headcount(node.status, node.slots, node.facts().ready_types())
            self._census.change(node.counted, after)
            node.counted = after

    def _show(
        self,
        cell: int,
        before: Collection[NodeId],
        found: dict[NodeId, RemoteNode],
        seats: Mapping[int, NodeId],
    ) -> None:
        view = self._snapshots.current.cells.get(cell)
        shown = view.nodes if view is not None else {}
        wanted = {node.index: node.facts() for node in found.values()}
        for index, facts in shown.items():
            if facts.node_id in before or facts.node_id in found:
                continue
            # One of ours. In a cell that lost its memory its place may be another's by now.
            if seats.get(index, facts.node_id) == facts.node_id:
                wanted[index] = facts
        if wanted != shown:
            self._snapshots.replace((view or CellView(cell)).with_nodes(wanted))


class Sharing:
    """At most one write is under way for a node; what changed meanwhile goes with the next."""

    def __init__(
        self,
        ledger: Seats,
        on_written: Callable[[RegisteredNode], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._ledger = ledger
        self._on_written = on_written
        self._spawn = spawn
        self._unwritten: dict[NodeId, RegisteredNode] = {}
        self._writing: set[NodeId] = set()

    def changed(self, node: RegisteredNode) -> None:
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

    async def _write_one(self, node: RegisteredNode) -> None:
        facts = write_facts(node)
        if facts == node.shared:
            return
        answer = await self._ledger.amend(node.cell, node.sender, facts=facts)
        # A node without its seat gets it back with its next heartbeat, and its facts with it.
        if isinstance(answer, Done):
            node.shared = facts
            self._on_written(node)
