"""Attempts on nodes of this instance, of jobs that other instances drive."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from dragoman.ids import AttemptId, InstanceId, NodeId
from dragoman.live.dispatch.assignment import assignment_of
from dragoman.live.dispatch.course import UNREACHABLE, Course
from dragoman.live.dispatch.orders import Progress
from dragoman.live.dispatch.ports import NodePort, PeerPort
from dragoman.live.ledger import JobRecord, Ledger, OpenWork, Owner, Times
from dragoman.live.protocol import (
    AttemptState,
    JobAssign,
    JobCancel,
    JobPartial,
    RunningJob,
    SchedulerToNode,
)

_REMEMBERED = 20_000
"""Attempts of others; of those told longest ago the ledger alone knows."""


class Guest:
    """An attempt that a node of ours was told of for another instance."""

    __slots__ = (
        "accepted_ms",
        "dispatched_ms",
        "listener",
        "node_id",
        "running",
        "running_ms",
        "watched",
    )

    def __init__(
        self, running: RunningJob, node_id: NodeId, driver: InstanceId, watched: bool
    ) -> None:
        self.running = running
        self.node_id = node_id
        self.listener = driver
        """The instance that is told how it goes on: its job's driver, or its session's holder."""
        self.watched = watched
        self.dispatched_ms = 0
        self.accepted_ms = 0
        self.running_ms = 0

    def times(self, finished_ms: int) -> Times:
        return Times(self.dispatched_ms, self.accepted_ms, self.running_ms, finished_ms)


class CancelledFirst:
    """Reaches nodes, and gives no node an attempt that it was told to cancel before.

    Notes overtake each other: the node would work on something whose slot is another attempt's.
    """

    def __init__(self, nodes: NodePort) -> None:
        self._nodes = nodes
        self._cancelled: OrderedDict[AttemptId, None] = OrderedDict()

    def send(self, node_id: NodeId, owner: Owner, message: SchedulerToNode) -> bool:
        if isinstance(message, JobAssign) and message.attempt_id in self._cancelled:
            return False
        if isinstance(message, JobCancel):
            self._cancelled[message.attempt_id] = None
            if len(self._cancelled) > _REMEMBERED:
                self._cancelled.popitem(last=False)
        return self._nodes.send(node_id, owner, message)

    def report(self, cells: Iterable[int]) -> None:
        self._nodes.report(cells)


class Hosting:
    """Tells nodes of other instances' attempts, and those instances how the attempts go on."""

    def __init__(
        self,
        ledger: Ledger,
        course: Course,
        nodes: NodePort,
        peers: PeerPort,
        instance_id: InstanceId,
        *,
        fresh_ms: int,
    ) -> None:
        """fresh_ms: how long after its bind an attempt surely holds its slot, untold as it is."""
        self._fresh_ms = fresh_ms
        self._instance_id = instance_id
        self._ledger = ledger
        self._course = course
        self._nodes = nodes
        self._peers = peers
        self._guests: OrderedDict[AttemptId, Guest] = OrderedDict()

    def guest(self, attempt_id: AttemptId) -> Guest | None:
        return self._guests.get(attempt_id)

    async def assign(
        self,
        running: RunningJob,
        cell: int,
        node_id: NodeId,
        owner: Owner,
        *,
        watched: bool,
        traceparent: str | None,
    ) -> None:
        """Another instance reserved a slot on a node of ours: tell the node, if it still holds.

        Asked again, a node is not told again.
        """
        attempt_id = running.attempt_id
        if attempt_id in self._guests:
            return
        work = await self._ledger.read_open(running.job_id)
        if work is None or work.job.current != attempt_id:
            return  # Its job has gone on without it.
        record = work.job
        if not self._is_fresh(work) and not await self._holds_slot(cell, attempt_id):
            return  # It was given up before it was told.
        if attempt_id in self._guests:
            return  # It was told meanwhile.
        message = assignment_of(
            record.job_id, record.spec, work.input, attempt_id, _left_ms(work), traceparent
        )
        if self._nodes.send(node_id, owner, message):
            self._remember(record, running, node_id, watched)
            return
        # Its node may have been told and gone: the slot comes back when the node's end is sure.
        attempt = await self._ledger.read_attempt(cell, attempt_id)
        if attempt is not None and attempt.state is AttemptState.DISPATCHED:
            await self._course.give_up(attempt, UNREACHABLE)

    def cancel(self, running: RunningJob, node_id: NodeId, owner: Owner, reason: str) -> None:
        """Another instance won an attempt back: tell the node."""
        self._nodes.send(node_id, owner, JobCancel(running.job_id, running.attempt_id, reason))

    def moved(self, attempt_id: AttemptId, to: AttemptState, at_ms: int) -> None:
        """The node accepted the attempt, or began to work on it."""
        guest = self._guests.get(attempt_id)
        if guest is None:
            return
        if not guest.accepted_ms:
            guest.accepted_ms = at_ms
            self._tell(guest, Progress.ACCEPTED)
        if to is AttemptState.RUNNING and not guest.running_ms:
            guest.running_ms = at_ms
            self._tell(guest, Progress.RUNNING)

    def partial(self, node_id: NodeId, partial: JobPartial) -> None:
        """What the node has recognised so far; only of its own attempt."""
        guest = self._guests.get(partial.attempt_id)
        if guest is None or guest.node_id != node_id:
            return
        if guest.listener == self._instance_id:
            self._course.lookout.partial(partial)
        else:
            self._peers.partial(partial, guest.listener)

    def watched(self, attempt_id: AttemptId, watcher: InstanceId, steps: bool) -> None:
        """Another instance than the attempt's driver wants to hear how it goes on."""
        guest = self._guests.get(attempt_id)
        if guest is not None:
            guest.listener, guest.watched = watcher, steps

    def ended(self, guest: Guest, record: JobRecord) -> None:
        """The attempt ended its job: the listener beside its driver is told."""
        if guest.listener not in (record.claimed_by, self._instance_id):
            self._peers.ended(record.job_id, guest.listener)

    def _tell(self, guest: Guest, progress: Progress) -> None:
        if not guest.watched:
            return
        if guest.listener == self._instance_id:
            self._course.lookout.progressed(guest.running.job_id, progress)
        else:
            self._peers.progressed(guest.running, guest.listener, progress)

    def _is_fresh(self, work: OpenWork) -> bool:
        """Whether the attempt is too young for its driver or a sweep to have given it up."""
        current = work.job.current_attempt
        if current is None:
            return False
        return 0 <= work.at_ms - current.times.dispatched_ms < self._fresh_ms

    async def _holds_slot(self, cell: int, attempt_id: AttemptId) -> bool:
        attempt = await self._ledger.read_attempt(cell, attempt_id)
        return attempt is not None and attempt.state is AttemptState.DISPATCHED

    def _remember(
        self, record: JobRecord, running: RunningJob, node_id: NodeId, watched: bool
    ) -> None:
        guest = Guest(running, node_id, record.claimed_by, watched)
        if record.current_attempt is not None:
            guest.dispatched_ms = record.current_attempt.times.dispatched_ms
        self._guests[running.attempt_id] = guest
        if len(self._guests) > _REMEMBERED:
            self._guests.popitem(last=False)


def _left_ms(work: OpenWork) -> int:
    until_ms = work.job.total_until_ms
    return max(0, until_ms - work.at_ms) if until_ms is not None else 0
