"""The registry: the single writer of node facts. Each change yields a new snapshot."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator, Set
from contextlib import suppress
from typing import Any

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import InstanceId, NodeId
from dragoman.live.fleet.drains import DRAINED_BY_OPERATOR, Drains
from dragoman.live.fleet.health import HealthEvent, HealthRules, Thresholds, failed
from dragoman.live.fleet.node import Census, RegisteredNode, why_no_jobs
from dragoman.live.fleet.node_table import NodeTable
from dragoman.live.fleet.offline import Departure
from dragoman.live.fleet.ports import AttemptPort, FleetPeerPort, NodeLink
from dragoman.live.fleet.registration import Applicant, ClaimedName, NodePlacement, choose_node_id
from dragoman.live.fleet.remote_nodes import RemoteNode, RemoteNodes
from dragoman.live.fleet.unavailable_services import Mark
from dragoman.live.ledger import (
    Beat,
    CellRecord,
    Owner,
    Seats,
    Stale,
)
from dragoman.live.protocol import (
    Command,
    JobAssign,
    JobCancel,
    JobResult,
    NodeControl,
    NodeHealth,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
    NodeStatus,
    RunningJob,
    SchedulerToNode,
    check_register,
)
from dragoman.live.snapshot import SnapshotHolder, count_pools, is_in_a_pool, what_is_missing
from dragoman.observability import LimitWatch, Metrics, get_logger
from dragoman.randomness import Secrets
from dragoman.task_set import TaskSet

log = get_logger("dragoman.fleet")

_OFFLINE = NodeHealth.OFFLINE


class Registry:
    """The nodes of this instance: their facts, their health, and their connections."""

    def __init__(
        self,
        *,
        ledger: Seats,
        snapshots: SnapshotHolder,
        rules: HealthRules,
        default_slots: int,
        exclusive_names: bool,
        metrics: Metrics,
        watch: LimitWatch,
        instance_id: InstanceId,
        clock: Clock,
        secrets: Secrets,
        peers: FleetPeerPort | None = None,
    ) -> None:
        """peers are told what other instances need to know; None: there are none."""
        self._ledger = ledger
        lease_ms = int(rules.timeout_seconds * 1000)
        self._placement = NodePlacement(ledger, instance_id, exclusive_names, lease_ms, peers)
        self.census = Census(metrics)
        self.far = RemoteNodes(snapshots, self.census, instance_id, lease_ms)
        self._table = NodeTable(
            ledger=ledger,
            snapshots=snapshots,
            census=self.census,
            far=self.far,
            spawn=self._spawn,
            clock=clock,
            peers=peers,
        )
        self._nodes = self._table.nodes
        self._departure = Departure(ledger, self._table, self.far, rules, self._spawn, clock)
        self.run = self._departure.run
        drains = Drains(ledger, self._table, self.known, peers)
        self.drain = drains.drain
        self.resume = drains.resume
        self.shut_down = drains.shut_down
        self.drained_itself = drains.drained_itself
        self.control = drains.control
        self._snapshots = snapshots
        self._rule = snapshots.current.rule
        self._rules = rules
        self._default_slots = default_slots
        self._watch = watch
        self._instance_id = instance_id
        self._clock = clock
        self._secrets = secrets
        self._tasks = TaskSet(_interrupted)

    def attach(self, attempts: AttemptPort) -> None:
        """Attach the dispatch, which looks after attempts."""
        self._table.attach(attempts)
        self._placement.attach(attempts)

    async def stop(self) -> None:
        await self._tasks.stop()

    # --- nodes that come and go ------------------------------------------------------------------

    async def register(
        self, register: NodeRegister, applicant: Applicant, link: NodeLink
    ) -> tuple[RegisteredNode, NodeRegisterAck]:
        """Register a node under a new connection."""
        with self._watch.path("registration"):
            return await self._register(register, applicant, link)

    async def _register(
        self, register: NodeRegister, applicant: Applicant, link: NodeLink
    ) -> tuple[RegisteredNode, NodeRegisterAck]:
        check_register(register)
        node_id = choose_node_id(register, applicant, self._secrets)
        if applicant.node_id is not None and node_id != applicant.node_id:
            raise errors.Forbidden(
                f"This key may register node {applicant.node_id} only, not {node_id}."
            )
        known = self._nodes.get(node_id)
        node = RegisteredNode(
            node_id,
            register,
            slots=register.max_concurrent_jobs or self._default_slots,
            tenant=applicant.tenant,
            link=link,
            rules=self._rules,
        )
        name = ClaimedName(applicant, register.registration_token, self._secrets.token())
        placed = await self._placement.seat(
            node,
            name,
            register.running,
            at_least_epoch=known.owner.epoch if known else 0,
        )
        self._supersede(node)
        node.health.happened(HealthEvent.REGISTERED)
        if placed.drained:
            node.health.happened(HealthEvent.DRAIN)
            node.drain_reason = DRAINED_BY_OPERATOR
        self._table.enter(node)
        try:
            cancel = await self._placement.settle(node, placed)
        except BaseException:
            self._departure.gone(node)
            raise
        pools = count_pools(self._rule, node.languages)
        log.info(
            "node_registered",
            node_id=node_id,
            services=[service.service_id for service in node.services],
            languages=sorted(node.languages.all_tags),
            pools=pools,
            cell=node.cell,
        )
        self._warn_of_no_pool(node)
        return node, NodeRegisterAck(
            node_id=node_id,
            registration_token=name.token,
            instance_id=self._instance_id,
            status=node.health.state,
            heartbeat_interval_ms=int(self._rules.interval_seconds * 1000),
            cell=node.cell,
            pools=pools,
            cancel=cancel,
        )

    async def disconnected(self, node: RegisteredNode) -> None:
        """A node's socket is gone. One that came back over a newer socket is not touched."""
        if not self._departure.gone(node):
            return
        try:
            await self._ledger.disconnect(node.cell, node.sender)
        except errors.DependencyDown as down:
            # It is offline in the ledger, too, when its grace is over.
            log.warning_limited(
                "node_not_disconnected", key="disconnect", every_seconds=10, error=down.message
            )
        else:
            self._table.told_others(node)

    async def beat(self, node: RegisteredNode, heartbeat: NodeHeartbeat) -> None:
        """A heartbeat came."""
        if self._nodes.get(node.node_id) is not node:
            return
        node.words += 1
        now = self._clock.monotonic()
        late = now - node.last_sign > self._rules.late_after_seconds
        self._table.heard_from(node)
        before = node.facts()
        node.take(heartbeat)
        told = self._count_beat(node, "it came late" if late else node.unfit_because())
        after = node.facts()
        if after != before:
            self._table.show(node)
            other_languages = after.languages != before.languages
            if other_languages:
                self._warn_of_no_pool(node)
            if not told and (other_languages or after.over_threshold != before.over_threshold):
                self._tell_status(node)
        if node.slots != node.seated_slots:
            await self._amend_slots(node)
        await self._reconcile(node, heartbeat.running)

    def invalid_beat(self, node: RegisteredNode) -> None:
        """A heartbeat came that made no sense. It was in time, but renews nothing."""
        node.last_sign = self._clock.monotonic()
        self.bad_beat(node, "it could not be read")

    def bad_beat(self, node: RegisteredNode, because: str) -> None:
        """Something counts as a bad heartbeat."""
        if self._nodes.get(node.node_id) is node and self._count_beat(node, because):
            self._table.show(node)

    def attempt_ended(self, node: RegisteredNode, result: JobResult) -> None:
        """An attempt on the node ended by its own word: how, counts for its circuit breaker."""
        breaker = node.health.breaker
        if result.success and not breaker.tripped:
            breaker.recent.append(False)
            return
        failure = failed(result)
        if failure is not None and self._nodes.get(node.node_id) is node:
            self._count_job(node, node.health.job_ended(failure), failure=failure)

    def set_marks(self, node_id: NodeId, marks: tuple[Mark, ...]) -> bool:
        """Which services of the node are left out for now; False for an unknown node."""
        node = self._nodes.get(node_id)
        if node is None:
            return False
        before = node.facts()
        node.marks = marks
        if node.facts() != before:
            self._table.show(node)
        return True

    def has_version(self, node_id: NodeId, service_id: str, version: str) -> bool:
        """Whether a node of this instance lists this version of a service."""
        node = self._nodes.get(node_id)
        return node is not None and any(
            (one.service_id, one.version) == (service_id, version) for one in node.services
        )

    # --- looking ----------------------------------------------------------------------------------

    def node(self, node_id: NodeId) -> RegisteredNode:
        """A node of this instance."""
        found = self._nodes.get(node_id)
        if found is None:
            raise errors.NotFound(f"There is no node {node_id}.")
        return found

    def known(self, node_id: NodeId) -> RegisteredNode | RemoteNode:
        """A node, wherever it is connected."""
        return self.far.get(node_id) or self.node(node_id)

    @property
    def by_status(self) -> Counter[NodeHealth]:
        """How many nodes are in each state."""
        return self.census.by_status

    @property
    def thresholds(self) -> Thresholds:
        """How busy a node's machine may be."""
        return self._rules.thresholds

    @property
    def timeout_seconds(self) -> float:
        """How long a node may be silent."""
        return self._rules.timeout_seconds

    def nodes(self) -> Iterator[RegisteredNode]:
        """The nodes of this instance."""
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def send(self, node_id: NodeId, owner: Owner, message: SchedulerToNode) -> bool:
        """Say something to a node over this very connection."""
        node = self._nodes.get(node_id)
        if node is None or node.owner != owner or not node.online:
            return False
        breaker = node.health.breaker
        if isinstance(message, JobAssign):
            breaker.told(message.attempt_id, self._clock.monotonic())
        elif (
            isinstance(message, JobCancel)
            and message.reason == errors.JobTimeout.code
            # Whichever instance found it out, the node hears of it here.
            and breaker.is_late(message.attempt_id, self._clock.monotonic())
        ):
            self._count_job(node, node.health.job_ended(failure=True), failure=True)
        return node.link.send(message)

    def assign(self, node_id: NodeId, owner: Owner, message: JobAssign) -> bool:
        """Give a node an attempt over this very connection."""
        node = self._nodes.get(node_id)
        if node is None or node.owner != owner or node.health.state is _OFFLINE:
            return False
        return node.link.send(message)

    def was_late(self, node_id: NodeId, owner: Owner) -> None:
        """The node let the time for an attempt pass: that counts for its circuit breaker."""
        node = self._nodes.get(node_id)
        if node is not None and node.owner == owner:
            self._count_job(node, node.health.job_ended(failure=True), failure=True)

    def own_cells(self) -> Set[int]:
        """The cells that have nodes which are connected here."""
        return {node.cell for node in self._nodes.values()}

    def report(self, cells: Iterable[int]) -> None:
        """Ask the nodes of these cells what they run."""
        for cell in cells:
            view = self._snapshots.current.cells.get(cell)
            for node_id in view.indexes if view else ():
                node = self._nodes.get(node_id)
                if node is not None and node.online:
                    node.link.send(NodeControl(Command.REPORT))

    # --- other instances -------------------------------------------------------------------------

    def take_cell(self, record: CellRecord) -> None:
        """A cell was read: its nodes may be connected elsewhere, or changed there."""
        ours: dict[NodeId, RegisteredNode] = {}
        for seat in record.seats:
            node = self._nodes.get(seat.node_id)
            if node is not None and node.left_for(seat.owner):
                self._departure.moved_away(node)
            elif node is not None:
                ours[seat.node_id] = node
        if self.far.take(record, ours):
            self._table.port.wake()
        for seat in record.seats:
            if seat.node_id in ours:
                self._table.show_in_its_seat(ours[seat.node_id], record.cell, seat.index)

    def superseded(self, node_id: NodeId, owner: Owner) -> None:
        """A node left this connection for one of another instance."""
        node = self._nodes.get(node_id)
        if node is not None and node.owner == owner:
            self._departure.moved_away(node)

    # --- inside ----------------------------------------------------------------------------------

    def _supersede(self, node: RegisteredNode) -> None:
        before = self._nodes.get(node.node_id)
        if before is None:
            return
        if before.owner.epoch > node.owner.epoch:
            raise errors.NodeIdConflict(
                f"A newer connection registered node {node.node_id} at the same moment."
            )
        node.counted = before.counted
        node.marks = before.marks
        node.usage = before.usage
        node.usage.restart()
        if before.cell != node.cell:
            self._table.hide(node.node_id, before.cell, before.index)
        if before.online:
            before.link.superseded()

    def _count_beat(self, node: RegisteredNode, bad_because: str | None) -> bool:
        """Count a heartbeat, bad for a reason or good."""
        changed = node.health.beat(bad_because is None, bad_because or "")
        if changed:
            self._tell_status(node)
        return changed

    def _count_job(self, node: RegisteredNode, changed: bool, *, failure: bool) -> None:
        """The end of a job was counted; one that changed the node's health is shown."""
        if failure and node.health.on_trial:
            node.rests += 1
            self._spawn(self._rest(node))
            self._table.show(node)
        if not changed:
            return
        tell = log.warning if node.health.breaker.tripped else log.info
        tell("node_breaker", node_id=node.node_id, status=node.status, reason=node.health.reason)
        self._tell_status(node)
        self._table.show(node)
        self._spawn(self._amend_slots_sometime(node))

    async def _rest(self, node: RegisteredNode) -> None:
        """Have other nodes asked first for a while: one that fails quickly is free so often."""
        await asyncio.sleep(node.health.breaker.rest_seconds)
        node.rests -= 1
        if not node.rests and self._nodes.get(node.node_id) is node and node.online:
            self._table.show(node)

    def _tell_status(self, node: RegisteredNode) -> None:
        node.link.send(NodeStatus(node.status, why_no_jobs(node, self._rule)))

    def _warn_of_no_pool(self, node: RegisteredNode) -> None:
        if not is_in_a_pool(self._rule, node.languages):
            log.warning(
                "node_in_no_pool", node_id=node.node_id, reason=what_is_missing(node.languages)
            )

    async def _amend_slots_sometime(self, node: RegisteredNode) -> None:
        """Have the ledger grant as many slots as the node has now, or leave it to a heartbeat."""
        with suppress(errors.DependencyDown):
            await self._amend_slots(node)

    async def _amend_slots(self, node: RegisteredNode) -> None:
        """Tell the ledger how many slots the node has; the next heartbeat tries again."""
        slots = node.slots
        try:
            await self._ledger.amend(node.cell, node.sender, slots=slots)
            node.seated_slots = slots
        finally:
            self._table.count(node)
        self._table.port.wake()

    async def _reconcile(self, node: RegisteredNode, running: tuple[RunningJob, ...]) -> None:
        """Compare what the node says it runs with what it should; rebuild a seat that is gone."""
        answer = await self._placement.beat(node, running)
        if isinstance(answer, Beat):
            for _ in answer.lost:
                self._count_job(node, node.health.job_ended(failure=True), failure=True)
        if isinstance(answer, Stale) and not await self._placement.owns_name(node):
            self._departure.moved_away(node)
        elif not isinstance(answer, Beat):
            before = (node.cell, node.index)
            if await self._placement.seat_again(node, running):
                if before != (node.cell, node.index):
                    self._table.hide(node.node_id, *before)
                self._table.show(node)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.spawn(work)


def _interrupted(error: BaseException) -> None:
    if isinstance(error, errors.DependencyDown):
        # What the task left undone, the sweep does when the ledger answers.
        log.warning_limited(
            "fleet_interrupted", key="ledger", every_seconds=10, error=error.message
        )
    else:
        log.error("fleet_task_failed", error=repr(error))
