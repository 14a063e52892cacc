"""The registry: the single writer of node facts. Each change yields a new snapshot."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Coroutine, Iterable, Iterator
from itertools import islice
from random import Random
from typing import Any

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import InstanceId, NodeId
from dragoman.live.fleet.census import Census, Headcount
from dragoman.live.fleet.far_nodes import FarNode, FarNodes
from dragoman.live.fleet.health import HealthEvent, HealthRules
from dragoman.live.fleet.marks import Mark
from dragoman.live.fleet.node import Node
from dragoman.live.fleet.ports import AttemptPort, NodeLink, PeerPort
from dragoman.live.fleet.registration import Applicant, choose_node_id, new_token
from dragoman.live.fleet.seating import Seating
from dragoman.live.fleet.sharing import Sharing
from dragoman.live.ledger import (
    Beat,
    CellRecord,
    Ledger,
    NodeLost,
    Owner,
    Stale,
)
from dragoman.live.protocol import (
    Command,
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
from dragoman.live.snapshot import CellView, SnapshotHolder, node_pairs
from dragoman.observability import Metrics, Watch, get_logger, yielding

log = get_logger("dragoman.fleet")

TICK_SECONDS = 0.5
FORGOTTEN_A_TICK = 1_000


class Registry:
    """Nodes of this instance: who they are, how they do, and how they are reached."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        snapshots: SnapshotHolder,
        rules: HealthRules,
        default_slots: int,
        exclusive_names: bool,
        metrics: Metrics,
        watch: Watch,
        instance_id: InstanceId,
        clock: Clock,
        random: Random,
        peers: PeerPort | None = None,
    ) -> None:
        """peers are told what other instances need to know; None: there are none."""
        self._ledger = ledger
        lease_ms = int(rules.timeout_seconds * 1000)
        self._seating = Seating(ledger, instance_id, exclusive_names, lease_ms, peers)
        self._peers = peers
        self._sharing = Sharing(ledger, self._told_others, self._spawn) if peers else None
        self.census = Census(metrics)
        self.far = FarNodes(snapshots, self.census, instance_id, lease_ms)
        self._snapshots = snapshots
        self._rules = rules
        self._default_slots = default_slots
        self._watch = watch
        self._instance_id = instance_id
        self._clock = clock
        self._random = random
        self._nodes: dict[NodeId, Node] = {}
        self._by_beat: OrderedDict[NodeId, Node] = OrderedDict()
        """Online nodes, the one not heard of for longest first."""
        self._offline: OrderedDict[NodeId, float] = OrderedDict()
        self._attempts: AttemptPort | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def attach(self, attempts: AttemptPort) -> None:
        """Tell the registry who looks after attempts."""
        self._attempts = attempts
        self._seating.attach(attempts)

    # --- nodes that come and go ------------------------------------------------------------------

    async def register(
        self, register: NodeRegister, applicant: Applicant, link: NodeLink
    ) -> tuple[Node, NodeRegisterAck]:
        """Take a node in under a new connection."""
        with self._watch.path("registration"):
            return await self._register(register, applicant, link)

    async def _register(
        self, register: NodeRegister, applicant: Applicant, link: NodeLink
    ) -> tuple[Node, NodeRegisterAck]:
        check_register(register)
        node_id = choose_node_id(register, applicant, self._random)
        if applicant.node_id is not None and node_id != applicant.node_id:
            raise errors.Forbidden(
                f"This key may register node {applicant.node_id} only, not {node_id}."
            )
        known = self._nodes.get(node_id)
        token = known.token if known else register.registration_token or new_token(self._random)
        node = Node(
            node_id,
            register,
            slots=register.max_concurrent_jobs or self._default_slots,
            tenant=applicant.tenant,
            link=link,
            token=token,
            rules=self._rules,
        )
        placed = await self._seating.seat(
            node,
            applicant,
            register.running,
            shown_token=register.registration_token,
            at_least_epoch=known.owner.epoch if known else 0,
        )
        self._supersede(node)
        node.health.happened(HealthEvent.REGISTERED)
        if placed.drained:
            node.health.happened(HealthEvent.DRAIN)
        self._enter(node)
        try:
            cancel = await self._seating.settle(node, placed)
        except BaseException:
            self._gone(node)
            raise
        pairs = node_pairs(self._snapshots.current.rule, node.facts())
        log.info(
            "node_registered",
            node_id=node_id,
            services=[service.service_id for service in node.services],
            languages=sorted({lang for pair in pairs for lang in pair}),
            pools=len(pairs),
            cell=node.cell,
        )
        return node, NodeRegisterAck(
            node_id=node_id,
            registration_token=token,
            instance_id=self._instance_id,
            status=node.health.state,
            heartbeat_interval_ms=int(self._rules.interval_seconds * 1000),
            cell=node.cell,
            pools=len(pairs),
            cancel=cancel,
        )

    async def disconnected(self, node: Node) -> None:
        """A node's socket is gone. One that came back over a newer socket is not touched."""
        if self._gone(node):
            await self._ledger.disconnect(node.cell, node.sender)
            self._told_others(node)

    async def beat(self, node: Node, heartbeat: NodeHeartbeat) -> None:
        """A heartbeat came."""
        if self._nodes.get(node.node_id) is not node:
            return
        now = self._clock.monotonic()
        late = now - node.last_sign > self._rules.late_after_seconds
        self._heard_from(node)
        before = node.facts()
        slots = node.slots
        node.take(heartbeat, self._rules.resource_threshold_percent)
        self._count_beat(node, good=node.fit() and not late)
        if node.facts() != before:
            self._show(node)
        if node.slots != slots:
            await self._amend_slots(node, before_slots=slots)
        await self._reconcile(node, heartbeat.running)

    def invalid_beat(self, node: Node) -> None:
        """A heartbeat came that made no sense. It was in time, but renews nothing."""
        node.last_sign = self._clock.monotonic()
        self.bad_beat(node)

    def bad_beat(self, node: Node) -> None:
        """Something counts as a bad heartbeat."""
        if self._nodes.get(node.node_id) is node and self._count_beat(node, good=False):
            self._show(node)

    def set_marks(self, node_id: NodeId, marks: tuple[Mark, ...]) -> bool:
        """Which services of the node are left alone for now; False for a node nobody knows."""
        node = self._nodes.get(node_id)
        if node is None:
            return False
        before = node.facts()
        node.marks = marks
        if node.facts() != before:
            self._show(node)
        return True

    # --- drains ----------------------------------------------------------------------------------

    async def drain(self, node_id: NodeId, reason: str | None = None) -> None:
        """An operator's drain: no new jobs, also after a reconnect."""
        node = self.known(node_id)
        await self._ledger.set_drained(node.cell, node_id, True)
        self._control(node, Command.DRAIN, reason)

    def drained_itself(self, node: Node, reason: str | None) -> None:
        """The node wants no more jobs, on this connection."""
        if node.health.happened(HealthEvent.DRAIN):
            self._show(node)
            node.link.send(NodeStatus(node.health.state, reason))

    async def resume(self, node_id: NodeId) -> None:
        """Undo a drain: the node proves itself anew."""
        node = self.known(node_id)
        await self._ledger.set_drained(node.cell, node_id, False)
        self._control(node, Command.RESUME)

    def control(self, node_id: NodeId, owner: Owner, command: Command, reason: str | None) -> None:
        """Pass on a command that came to another instance, if this connection still speaks."""
        node = self._nodes.get(node_id)
        if node is not None and node.owner == owner and node.online:
            self._control(node, command, reason)

    def _control(self, node: Node | FarNode, command: Command, reason: str | None = None) -> None:
        if isinstance(node, FarNode):
            if self._peers is not None:
                self._peers.control(node.node_id, node.owner, command, reason)
                self._peers.changed(node.cell, node.node_id)
            return
        if command is Command.DRAIN:
            self.drained_itself(node, reason or "drained by an operator")
        if command is Command.RESUME and node.health.happened(HealthEvent.RESUME):
            self._show(node)
            node.link.send(NodeStatus(node.health.state, "resumed by an operator"))
        node.link.send(NodeControl(command, reason))
        if command is Command.RESUME:
            node.link.send(NodeControl(Command.REPORT))

    # --- looking ----------------------------------------------------------------------------------

    def node(self, node_id: NodeId) -> Node:
        """A node of this instance."""
        found = self._nodes.get(node_id)
        if found is None:
            raise errors.NotFound(f"There is no node {node_id}.")
        return found

    def known(self, node_id: NodeId) -> Node | FarNode:
        """A node, wherever it is connected."""
        return self.far.get(node_id) or self.node(node_id)

    @property
    def by_status(self) -> Counter[NodeHealth]:
        """How many nodes are in each state."""
        return self.census.by_status

    @property
    def timeout_seconds(self) -> float:
        """How long a node may be silent."""
        return self._rules.timeout_seconds

    def nodes(self) -> Iterator[Node]:
        """The nodes of this instance."""
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def send(self, node_id: NodeId, owner: Owner, message: SchedulerToNode) -> bool:
        """Say something to a node over this very connection."""
        node = self._nodes.get(node_id)
        if node is None or node.owner != owner or not node.online:
            return False
        return node.link.send(message)

    def report(self, cells: Iterable[int]) -> None:
        """Have the nodes of these cells say what they run."""
        for cell in cells:
            view = self._snapshots.current.cells.get(cell)
            for node_id in view.indexes if view else ():
                node = self._nodes.get(node_id)
                if node is not None and node.online:
                    node.link.send(NodeControl(Command.REPORT))

    # --- other instances -------------------------------------------------------------------------

    def take_cell(self, record: CellRecord) -> None:
        """A cell was read: its nodes may be connected elsewhere, or changed there."""
        ours: set[NodeId] = set()
        for seat in record.seats:
            node = self._nodes.get(seat.node_id)
            if node is not None and node.left_for(seat.owner):
                self._yield(node)
            elif node is not None:
                ours.add(seat.node_id)
        if self.far.take(record, ours):
            self._port.wake()

    def superseded(self, node_id: NodeId, owner: Owner) -> None:
        """A node left this connection for one of another instance."""
        node = self._nodes.get(node_id)
        if node is not None and node.owner == owner:
            self._yield(node)

    # --- upkeep ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Find nodes that fell silent, and forget those that are long gone."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            await self._time_out_silent()
            if self._sharing is not None:
                self._sharing.go_on()
            try:
                await self._forget_gone()
            except errors.DependencyDown as error:
                log.warning_limited(
                    "forgetting_skipped", key="forget", every_seconds=10, error=error.message
                )
            except Exception:
                log.exception("forgetting_failed")

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _time_out_silent(self) -> None:
        """Let go of the silent; a whole fleet may be cut off at the same moment."""
        async for node in yielding(self._silent(), self._clock):
            node.link.timed_out()
            self._gone(node)

    def _silent(self) -> Iterator[Node]:
        """Nodes that nothing was heard of for too long, as long as they are let go of."""
        limit = self._clock.monotonic() - self._rules.timeout_seconds
        while self._by_beat:
            node = next(iter(self._by_beat.values()))
            if node.last_beat > limit:
                return
            yield node

    async def _forget_gone(self) -> None:
        limit = self._clock.monotonic() - self._rules.forget_offline_seconds
        oldest = list(islice(self._offline.items(), FORGOTTEN_A_TICK))
        async for node_id, since in yielding(oldest, self._clock):
            if since > limit:
                return
            if self._offline.get(node_id) != since:
                continue  # It came back while others were forgotten.
            node = self._nodes[node_id]
            gone = await self._ledger.remove(node.cell, node.sender)
            await self._ledger.forget(node_id, node.owner.epoch)
            if self._nodes.get(node_id) is not node or node.online:
                continue
            self._offline.pop(node_id, None)
            del self._nodes[node_id]
            self._hide(node_id, node.cell, node.index)
            self._count(node, gone=True)
            self._told_others(node)
            if isinstance(gone, NodeLost):
                await self._port.lost(node.cell, gone.lost)
                self._port.freed(gone.freed)

    # --- inside ----------------------------------------------------------------------------------

    @property
    def _port(self) -> AttemptPort:
        if self._attempts is None:
            raise errors.InternalError("The registry was started before it was attached.")
        return self._attempts

    def _supersede(self, node: Node) -> None:
        before = self._nodes.get(node.node_id)
        if before is None:
            return
        if before.owner.epoch > node.owner.epoch:
            raise errors.NodeIdConflict(
                f"A newer connection registered node {node.node_id} at the same moment."
            )
        node.counted = before.counted
        node.marks = before.marks
        if before.cell != node.cell:
            self._hide(node.node_id, before.cell, before.index)
        if before.online:
            before.link.superseded()

    def _yield(self, node: Node) -> None:
        """A newer connection, of another instance, speaks for the node."""
        node.link.superseded()
        if self._nodes.get(node.node_id) is not node:
            return
        del self._nodes[node.node_id]
        self._by_beat.pop(node.node_id, None)
        self._offline.pop(node.node_id, None)
        self._count(node, gone=True)
        self.far.moved_away(node)
        log.info("node_moved_away", node_id=node.node_id)

    def _gone(self, node: Node) -> bool:
        """The node's connection is lost; False when another one speaks for it."""
        if self._nodes.get(node.node_id) is not node or not node.online:
            return False
        node.health.happened(HealthEvent.LOST)
        self._by_beat.pop(node.node_id, None)
        self._offline[node.node_id] = self._clock.monotonic()
        self._show(node)
        log.info("node_offline", node_id=node.node_id)
        self._later(self._rules.reconnect_grace_seconds, node)
        return True

    def _enter(self, node: Node) -> None:
        self._nodes[node.node_id] = node
        self.far.moved_in(node.node_id)
        self._offline.pop(node.node_id, None)
        self._heard_from(node)
        self._show(node)

    def _heard_from(self, node: Node) -> None:
        node.last_beat = node.last_sign = self._clock.monotonic()
        node.last_seen_ms = self._clock.now_ms()
        self._by_beat[node.node_id] = node
        self._by_beat.move_to_end(node.node_id)

    def _count_beat(self, node: Node, *, good: bool) -> bool:
        changed = node.health.beat(good)
        if changed:
            node.link.send(NodeStatus(node.health.state))
        return changed

    async def _amend_slots(self, node: Node, *, before_slots: int) -> None:
        try:
            await self._ledger.amend(node.cell, node.sender, slots=node.slots)
        except errors.DependencyDown:
            # The next heartbeat that names its slots tries again.
            node.slots = before_slots
            raise
        finally:
            self._count(node)
        self._port.wake()

    def _show(self, node: Node) -> None:
        """Put the node's facts into the snapshot."""
        view = self._snapshots.current.cells.get(node.cell) or CellView(node.cell)
        self._snapshots.replace(view.with_node(node.facts()))
        self._count(node)
        if self._sharing is not None:
            self._sharing.changed(node)
        if node.health.state is NodeHealth.READY:
            self._port.wake()

    def _told_others(self, node: Node) -> None:
        """Something new about the node is in its cell."""
        if self._peers is not None:
            self._peers.changed(node.cell, node.node_id)

    def _hide(self, node_id: NodeId, cell: int, index: int) -> None:
        """Take the node out of the snapshot, unless another one has its place by now."""
        view = self._snapshots.current.cells.get(cell)
        if view is not None and view.indexes.get(node_id) == index:
            self._snapshots.replace(view.without_node(index))

    def _count(self, node: Node, gone: bool = False) -> None:
        """Keep the census, on change."""
        after: Headcount | None = None
        if not gone:
            if self._nodes.get(node.node_id) is not node:
                return  # Another connection speaks, and counts, for it.
            after = Headcount(node.health.state, node.slots, node.facts().ready_types())
        self.census.change(node.counted, after)
        node.counted = after

    async def _reconcile(self, node: Node, running: tuple[RunningJob, ...]) -> None:
        """Compare what the node says it runs with what it should; rebuild a seat that is gone."""
        answer = await self._seating.beat(node, running)
        if isinstance(answer, Stale) and not await self._seating.owns_name(node):
            self._yield(node)
        elif not isinstance(answer, Beat):
            before = (node.cell, node.index)
            if await self._seating.seat_again(node, running):
                if before != (node.cell, node.index):
                    self._hide(node.node_id, *before)
                self._show(node)

    async def _lose_after(self, seconds: float, node: Node) -> None:
        """When the grace is over; a node that came back has another connection by then."""
        await asyncio.sleep(seconds)
        answer = await self._ledger.lose(node.cell, node.sender)
        if isinstance(answer, NodeLost):
            self._told_others(node)
            self._port.freed(answer.freed)
            await self._port.lost(node.cell, answer.lost)

    def _later(self, seconds: float, node: Node) -> None:
        self._spawn(self._lose_after(seconds, node))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("fleet_task_failed", error=repr(error))
