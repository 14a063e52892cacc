"""Attempts on nodes of this instance, of jobs that other instances drive; and the way to nodes
that are connected to other instances."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Set
from functools import partial
from typing import Any

import msgspec

from dragoman import errors
from dragoman.errors import DependencyDown
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId
from dragoman.live.cluster import AssignNote, ResultNote
from dragoman.live.dispatch.canary import forgiven
from dragoman.live.dispatch.cluster.asks import freed_of
from dragoman.live.dispatch.cluster.ledger import ClusterLedger, SlotEnd
from dragoman.live.dispatch.cluster.ports import PeerPort
from dragoman.live.dispatch.driver import LOST, JobDriver, Nodes
from dragoman.live.dispatch.job import Job, Leaving, Progress, Step
from dragoman.live.dispatch.node_messages import AttemptNode, why_dropped
from dragoman.live.dispatch.telemetry import DispatchTelemetry
from dragoman.live.ledger import Adoption, Done, Ending, Freed, Owner, Sender, StaleReason, Times
from dragoman.live.protocol import (
    AttemptState,
    Command,
    JobAssign,
    JobCancel,
    JobClass,
    JobPartial,
    NodeControl,
    RunningJob,
    SchedulerToNode,
)
from dragoman.live.shared import records as r
from dragoman.observability import get_logger

TOGETHER_SECONDS = 0.02
"""A step this much later is of no use, and most nodes report the next one before."""

_STATES = {Step.ACCEPTED: AttemptState.ACCEPTED, Step.RUNNING: AttemptState.RUNNING}


class TransitionBuffer:
    """Keeps steps for a moment: the next one says as much, and a result says it all."""

    def __init__(
        self, ledger: ClusterLedger, on_lost: Callable[[int, AttemptId], Coroutine[Any, Any, None]]
    ) -> None:
        """on_lost is told of attempts that hold no slot any more."""
        self._ledger = ledger
        self._on_lost = on_lost
        self._kept: dict[int, dict[AttemptId, r.AttemptStep]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def say(
        self, cell: int, sender: Sender, attempt_id: AttemptId, step: Step, number: int
    ) -> None:
        """Tell the cell soon."""
        kept = self._kept.get(cell)
        if kept is None:
            kept = self._kept[cell] = {}
            asyncio.get_running_loop().call_later(TOGETHER_SECONDS, self._flush, cell)
        kept[attempt_id] = r.AttemptStep(
            attempt_id, sender.node_id, sender.epoch, _STATES[step], number
        )

    def over(self, cell: int, attempt_id: AttemptId) -> None:
        """The attempt has its result: the cell need not hear of its steps."""
        kept = self._kept.get(cell)
        if kept is not None:
            kept.pop(attempt_id, None)

    def _flush(self, cell: int) -> None:
        kept = self._kept.pop(cell)
        if kept:
            task = asyncio.get_running_loop().create_task(self._tell(cell, tuple(kept.values())))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _tell(self, cell: int, steps: tuple[r.AttemptStep, ...]) -> None:
        try:
            lost = await self._ledger.insist(lambda: self._ledger.shared.step(cell, steps))
        except DependencyDown:
            return
        if lost and await self._is_cold(cell):
            return  # It lost its memory; its nodes say what they run.
        for attempt_id in lost:
            await self._on_lost(cell, attempt_id)

    async def _is_cold(self, cell: int) -> bool:
        try:
            return await self._ledger.shared.cell_version(cell) is None
        except DependencyDown:
            return True

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


log = get_logger("dragoman.dispatch")

REMEMBERED = 20_000
"""Attempts of others; of those told longest ago the ledger alone knows."""

RESULT_LEFT_MS = 500
"""How long a result lies in its cell before the sweep takes it to its job."""

INLINE_BYTES = 4_096
"""Input and results up to this size travel in the note; larger ones are read where they lie."""


class ClusterNodes:
    """Reaches nodes: those of this instance themselves, others through the instance they are at."""

    def __init__(self, nodes: Nodes, peers: PeerPort, instance_id: InstanceId) -> None:
        self.here = nodes
        self._nodes = nodes
        self._peers = peers
        self._instance_id = instance_id
        self.attempts: Mapping[AttemptId, Job] = {}
        """The jobs that are driven here, by the attempts that their nodes are told of."""

    def assign(self, node_id: NodeId, owner: Owner, message: JobAssign) -> bool:
        """Give the node an attempt; False when it surely was not told."""
        if owner.instance_id == self._instance_id:
            return self._nodes.assign(node_id, owner, message)
        job = self.attempts[message.attempt_id]
        seat = job.seat
        assert seat is not None, "a job that is out has a seat"
        size_bytes = len(message.audio or b"") + len(message.text or "")
        if size_bytes > INLINE_BYTES:
            message = msgspec.structs.replace(message, audio=None, text=None)
        watched = job.watched or job.on_progress is not None
        note = AssignNote(
            message.job_id,
            message.attempt_id,
            seat.cell,
            node_id,
            owner.connection_id,
            owner.epoch,
            self._instance_id,
            message,
            size_bytes > INLINE_BYTES,
            watched,
            job.on_canary,
        )
        self._peers.assign(note, owner.instance_id)
        return True

    def send(self, node_id: NodeId, owner: Owner, message: SchedulerToNode) -> bool:
        """Say something to the node over this very connection; False when it is gone."""
        if owner.instance_id == self._instance_id:
            return self._nodes.send(node_id, owner, message)
        if isinstance(message, JobCancel):
            running = RunningJob(message.job_id, message.attempt_id)
            self._peers.cancel(running, node_id, owner, message.reason)
        elif isinstance(message, NodeControl) and message.command is Command.REPORT:
            self._peers.ask_report(node_id, owner)
        return True

    def report(self, cells: Iterable[int]) -> None:
        """These cells lost their memory: have their nodes, wherever they are, say what they run."""
        cells = tuple(cells)
        self._nodes.report(cells)
        self._peers.ask_cells(cells)

    def own_cells(self) -> Set[int]:
        return self._nodes.own_cells()

    def was_late(self, node_id: NodeId, owner: Owner) -> None:
        if owner.instance_id == self._instance_id:
            self._nodes.was_late(node_id, owner)


class Guest(msgspec.Struct, eq=False):
    """An attempt that a node of ours was told of for another instance."""

    running: RunningJob
    cell: int
    node_id: NodeId
    owner: Owner
    driver: InstanceId
    listener: InstanceId
    """The instance that is told how it goes on: its job's driver, or its session's owner."""
    watched: bool
    is_canary: bool = False
    shown: Step = Step.DISPATCHED


class _Over(msgspec.Struct, frozen=True, eq=False):
    """An attempt of another instance's job that its node has ended."""

    cell: int
    sender: Sender
    attempt_id: AttemptId
    job_id: JobId | None
    """As the node says."""
    ending: Ending
    finish: r.Finish
    guest: Guest | None


class RemoteAttempts:
    """Takes what nodes say of attempts that no job driven here has to where it belongs."""

    def __init__(
        self,
        ledger: ClusterLedger,
        driver: JobDriver,
        nodes: Nodes,
        peers: PeerPort,
        telemetry: DispatchTelemetry,
        instance_id: InstanceId,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._ledger = ledger
        self._shared = ledger.shared
        self._driver = driver
        self._nodes = nodes
        self._peers = peers
        self._telemetry = telemetry
        self._instance_id = instance_id
        self._spawn = spawn
        self._guests: OrderedDict[AttemptId, Guest] = OrderedDict()
        self._over: OrderedDict[AttemptId, None] = OrderedDict()
        """Attempts that ended, or were cancelled: no node is told of them, whatever is said."""
        self.on_step: Callable[[RunningJob, Progress], None] = lambda running, progress: None
        self.on_partial: Callable[[JobPartial], None] = lambda partial: None
        self.on_ended: Callable[[JobId], Coroutine[Any, Any, None]] = _ignore
        """Told of attempts that a session here listens to, and another instance drives."""
        self.steps = TransitionBuffer(ledger, self._holds_no_slot)

    # --- what other instances ask for -----------------------------------------------------------

    async def assign(self, note: AssignNote, age_seconds: float) -> None:
        """Another instance reserved a slot on a node of ours: tell the node, if it still holds.

        Asked again, a node is not told again. While the note is young, the slot surely holds:
        its driver waits longer than that for an acknowledgement.
        """
        if self.assign_at_once(note, age_seconds):
            return
        attempt_id, message = note.attempt_id, note.message
        grace_seconds = self._ledger.terms.slots.grace_ms / 1000
        while True:
            asked = self._driver.now()
            held = await self._shared.look(
                note.cell, attempt_id, tombstone_ms=self._ledger.terms.tombstone_ms
            )
            if not isinstance(held, r.StoredAttempt) or held.state is not AttemptState.DISPATCHED:
                return  # Its job has gone on without it.
            if note.input_is_stored:
                work = await self._shared.read_open(note.job_id)
                if work is None:
                    return
                audio, text = work.input.audio, work.input.text
                message = msgspec.structs.replace(message, audio=audio, text=text)
            if self._driver.now() < asked + grace_seconds:
                break
            # An attempt that was cancelled since may have no slot any more.
        if attempt_id in self._guests or attempt_id in self._over:
            return  # It was told, or cancelled, meanwhile.
        self._tell_node(note, message)

    def assign_at_once(self, note: AssignNote, age_seconds: float) -> bool:
        """Tell the node, if nothing must be read before that; False when something must."""
        attempt_id = note.attempt_id
        if attempt_id in self._guests or attempt_id in self._over:
            return True
        if note.input_is_stored or age_seconds * 1000 >= self._ledger.terms.young_ms:
            return False
        self._tell_node(note, note.message)
        return True

    def _tell_node(self, note: AssignNote, message: JobAssign) -> None:
        attempt_id = note.attempt_id
        owner = Owner(self._instance_id, note.connection_id, note.epoch)
        guest = Guest(
            RunningJob(note.job_id, attempt_id),
            note.cell,
            note.node_id,
            owner,
            note.driver,
            note.driver,
            note.watched,
            note.is_canary,
        )
        _remember(self._guests, attempt_id, guest)
        if not self._nodes.send(note.node_id, owner, message):
            del self._guests[attempt_id]
            self._ledger.give_back(note.cell, attempt_id)
            self._peers.try_again(note.job_id, attempt_id, note.driver)

    def cancel(self, running: RunningJob, node_id: NodeId, owner: Owner, reason: str) -> None:
        """Another instance won an attempt back: tell the node, or never tell it of the attempt."""
        _remember(self._over, running.attempt_id, None)
        self._nodes.send(node_id, owner, JobCancel(running.job_id, running.attempt_id, reason))

    def watched(self, attempt_id: AttemptId, watcher: InstanceId, steps: bool) -> None:
        """Another instance than the attempt's driver wants to hear how it goes on."""
        guest = self._guests.get(attempt_id)
        if guest is not None:
            guest.listener, guest.watched = watcher, steps

    def watch_here(self, attempt_id: AttemptId, steps: bool) -> None:
        """A session here wants to hear how an attempt on a node of ours goes on."""
        self.watched(attempt_id, self._instance_id, steps)

    def cancelled_elsewhere(self, stored: r.StoredJob, cancelled: r.CancelWon | None) -> None:
        """A job of another instance was ended here: its driver and its node are told."""
        self._peers.ended(stored.job_id, stored.instance_id)
        if cancelled is None:
            return
        running = RunningJob(stored.job_id, stored.attempt_id)
        if cancelled.owner.instance_id == self._instance_id:
            self.cancel(running, cancelled.node_id, cancelled.owner, errors.JobCancelled.code)
        else:
            self._peers.cancel(
                running, cancelled.node_id, cancelled.owner, errors.JobCancelled.code
            )

    # --- what nodes say -------------------------------------------------------------------------

    def driven_step(self, job: Job, node: AttemptNode, step: Step) -> None:
        """A node here took a step with a job that is driven here: its cell is to know, too."""
        self.steps.say(node.cell, node.sender, job.attempt_id, step, node.words)

    def took_step(self, node: AttemptNode, attempt_id: AttemptId, step: Step) -> None:
        """A node accepted an attempt of another instance's job, or works on it."""
        self.steps.say(node.cell, node.sender, attempt_id, step, node.words)
        node.breaker.acknowledged(attempt_id, self._driver.now())
        guest = self._guests.get(attempt_id)
        if guest is None or guest.node_id != node.node_id or guest.shown >= step:
            return
        if guest.watched:
            if guest.shown < Step.ACCEPTED:
                self._tell_step(guest, Progress.ACCEPTED)
            if step is Step.RUNNING:
                self._tell_step(guest, Progress.RUNNING)
        guest.shown = step

    def _tell_step(self, guest: Guest, progress: Progress) -> None:
        if guest.listener == self._instance_id:
            self.on_step(guest.running, progress)
        else:
            self._peers.progressed(guest.running, guest.listener, progress)

    def finished(
        self, node: AttemptNode, attempt_id: AttemptId, job_id: JobId | None, ending: Ending
    ) -> bool:
        """An attempt of another instance's job is over; False when none is known here."""
        told = self._guests.get(attempt_id)
        if told is not None and job_id is not None and told.running.job_id != job_id:
            self._telemetry.dropped(StaleReason.UNKNOWN)
            return False
        self.steps.over(node.cell, attempt_id)
        node.breaker.answered(attempt_id)
        guest = self._guests.pop(attempt_id, None)
        if guest is not None:
            _remember(self._over, attempt_id, None)
            if guest.is_canary:
                ending = forgiven(ending)
        known = guest is not None and guest.node_id == node.node_id
        finish = r.Finish(ending.outcome, ending.output, ending.error, RESULT_LEFT_MS)
        over = _Over(node.cell, node.sender, attempt_id, job_id, ending, finish, guest)
        self._ledger.hot.finish(
            over.cell, attempt_id, over.sender, finish, partial(self._slot_freed, over)
        )
        return known

    def _slot_freed(self, over: _Over, answer: SlotEnd | None, error: Exception | None) -> None:
        """Bring the result to the instance that drives the job, in most cases at once."""
        guest = over.guest
        if isinstance(answer, r.FreedSlot) and guest is not None and guest.listener == guest.driver:
            self.freed(freed_of(answer))
            self._tell_result(
                answer.job_id, over.attempt_id, over.cell, over.ending, answer.times, guest.driver
            )
        else:
            self._spawn(self._finish(over, answer, error))

    async def _finish(self, over: _Over, answer: SlotEnd | None, error: Exception | None) -> None:
        """See to it that the slot is free, and that the job's driver hears of the result."""
        cell, sender, attempt_id = over.cell, over.sender, over.attempt_id
        job_id, ending, guest = over.job_id, over.ending, over.guest
        if answer is None:
            finish = partial(self._shared.finish, cell, attempt_id, sender, over.finish)
            answer = await self._ledger.insist(finish, error)
        if isinstance(answer, r.LateFinish):
            self._telemetry.dropped(StaleReason.LATE)
            self.freed(freed_of(answer.freed))
            return
        if not isinstance(answer, r.FreedSlot):
            reason = getattr(answer, "reason", StaleReason.UNKNOWN)
            await self._count_dropped(reason, attempt_id, sender, job_id)
            return
        self.freed(freed_of(answer))
        if guest is not None and guest.listener != guest.driver and _is_final(ending):
            # Its session moved, perhaps because the driver is gone.
            await self._end_for(cell, guest)
            return
        driver = guest.driver if guest is not None else None
        if driver is None:
            stored = await self._shared.read(answer.job_id)
            driver = stored.instance_id if stored is not None else None
        if driver is not None:
            self._tell_result(answer.job_id, attempt_id, cell, ending, answer.times, driver)

    async def _end_for(self, cell: int, guest: Guest) -> None:
        """Give a job of another instance its end, and tell those who wait for it."""
        job_id, attempt_id = guest.running.job_id, guest.running.attempt_id
        kept = await self._ledger.insist(
            lambda: self._shared.look(cell, attempt_id, tombstone_ms=0)
        )
        if isinstance(kept, r.StoredAttempt) and kept.state is AttemptState.FINISHED:
            await self._ledger.insist(lambda: self.close(kept))
            stored = await self._shared.read(job_id)
            if stored is not None:
                await self._shared.list_again(stored, self._instance_id)
        self._peers.ended(job_id, guest.driver)
        if guest.listener == self._instance_id:
            await self.on_ended(job_id)
        else:
            self._peers.ended(job_id, guest.listener)

    async def close(self, kept: r.StoredAttempt) -> None:
        """Give a job the end that its attempt had, and that the cell keeps."""
        assert kept.outcome is not None, "a finished attempt has its outcome"
        closing = r.Closing(
            kept.job_id,
            kept.attempt_id,
            Ending(kept.outcome, kept.output, kept.error),
            kept.times,
            kept.node_id,
            self._ledger.terms.keep,
        )
        await self._shared.close(closing)
        await self._shared.settle(kept.cell, (kept.attempt_id,))

    def _tell_result(
        self,
        job_id: JobId,
        attempt_id: AttemptId,
        cell: int,
        ending: Ending,
        times: Times,
        driver: InstanceId,
    ) -> None:
        output = ending.output
        if output is not None and len(output.tts_audio or b"") > INLINE_BYTES:
            output = None
        note = ResultNote(
            job_id,
            attempt_id,
            cell,
            ending.outcome,
            output,
            ending.error,
            times.accepted_ms - times.dispatched_ms if times.accepted_ms else -1,
            times.running_ms - times.dispatched_ms if times.running_ms else -1,
        )
        self._peers.result(note, driver)

    def tell_result(self, attempt: r.StoredAttempt, driver: InstanceId) -> None:
        """The driver has not taken the result of an attempt: it may have missed the note."""
        assert attempt.outcome is not None, "a finished attempt has its outcome"
        ending = Ending(attempt.outcome, attempt.output, attempt.error)
        self._tell_result(
            attempt.job_id, attempt.attempt_id, attempt.cell, ending, attempt.times, driver
        )

    async def _count_dropped(
        self, reason: StaleReason, attempt_id: AttemptId, sender: Sender, job_id: JobId | None
    ) -> None:
        """A result that no job waits for."""
        if reason is StaleReason.UNKNOWN and job_id is not None:
            try:
                record = await self._ledger.read(job_id)
            except DependencyDown:
                record = None
            reason = why_dropped(record, attempt_id, sender.node_id)
        self._telemetry.dropped(reason)

    def partial(self, node: AttemptNode, partial: JobPartial) -> None:
        """What a node has recognised so far of another instance's job."""
        guest = self._guests.get(partial.attempt_id)
        if guest is None or guest.node_id != node.node_id:
            return
        if guest.running.job_id != partial.job_id:
            return  # It names another job than its attempt is of.
        if guest.listener == self._instance_id:
            self.on_partial(partial)
        else:
            self._peers.partial(partial, guest.listener)

    async def lost(self, cell: int, entry: RunningJob) -> None:
        """A node no longer has an attempt of another instance's job: its driver goes on."""
        if self._guests.pop(entry.attempt_id, None) is not None:
            _remember(self._over, entry.attempt_id, None)
        stored = await self._shared.read(entry.job_id)
        if stored is None or stored.outcome is not None or stored.attempt_id != entry.attempt_id:
            return
        if stored.instance_id != self._instance_id:
            self._peers.try_again(entry.job_id, entry.attempt_id, stored.instance_id)

    async def is_wanted(self, cell: int, sender: Sender, entry: RunningJob, number: int) -> bool:
        """Let an attempt that its cell does not know hold a slot; whether it is to go on."""
        driven = self._driver.attempts.get(entry.attempt_id)
        stored = await self._shared.read(entry.job_id)
        job_class, driver, wanted = JobClass.LIVE, self._instance_id, False
        if driven is not None:
            # The ledger lost its memory of it; this instance did not.
            seat = driven.seat
            wanted = seat is not None and seat.node_id == sender.node_id
            job_class = driven.spec.job_class
        elif stored is not None:
            job_class, driver = stored.spec.job_class, stored.instance_id
            wanted = stored.outcome is None and stored.attempt_id == entry.attempt_id
        answer = await self._shared.adopt(
            cell,
            Adoption(
                running=entry,
                sender=sender,
                job_class=job_class,
                wanted=wanted,
                lease_ms=self._ledger.terms.lease_ms,
                run_ms=self._ledger.terms.run_ms,
                number=number,
                instance_id=driver,
            ),
        )
        return wanted and isinstance(answer, Done)

    def freed(self, freed: Freed) -> None:
        """Slots came free: the heirs take theirs, and the instances that wait are told."""
        for inherited in freed.inherited:
            job = self._driver.jobs.get(inherited.job_id)
            if job is not None:
                self._ledger.inherit(job, inherited.attempt_id, self._driver.inherited)
            else:
                self._spawn(self._pass_on(inherited.job_id, inherited.attempt_id))
        if self._driver.pending.count and (freed.slots or self._instance_id in freed.wake):
            self._driver.pending.wake(max(1, freed.slots))
        for instance_id in freed.wake:
            if instance_id != self._instance_id:
                self._peers.freed(1, instance_id)

    async def _pass_on(self, job_id: JobId, attempt_id: AttemptId) -> None:
        """Tell the heir's driver; if it is not heard, the slot is given back unacknowledged."""
        stored = await self._shared.read(job_id)
        if stored is not None and stored.instance_id != self._instance_id:
            self._peers.inherited(job_id, attempt_id, stored.instance_id)

    def gave_way(self, running: RunningJob, left: Leaving, driver: InstanceId) -> Job | None:
        """A batch attempt gives way: its job, if this instance drives it."""
        if driver != self._instance_id:
            self._peers.try_again(running.job_id, running.attempt_id, driver, preempted=True)
            return None
        job = self._driver.attempts.get(running.attempt_id)
        if job is None:
            # Its driver has not heard yet that it has a slot: its node is never told of it.
            _remember(self._over, running.attempt_id, None)
            return None
        return None if job.in_flight else job

    def is_over(self, attempt_id: AttemptId) -> bool:
        """Whether an attempt ended, or was cancelled, before its node was told."""
        return attempt_id in self._over

    async def _holds_no_slot(self, cell: int, attempt_id: AttemptId) -> None:
        """A node works on an attempt that lost its slot: it is to stop."""
        job = self._driver.attempts.get(attempt_id)
        if job is not None:
            self._driver.lost(job, self._driver.now())
            return
        guest = self._guests.get(attempt_id)
        if guest is not None:
            await self.lost(cell, guest.running)
            running = guest.running
            cancel = JobCancel(running.job_id, attempt_id, LOST.code)
            self._nodes.send(guest.node_id, guest.owner, cancel)


async def _ignore(job_id: JobId) -> None:
    """No session here waits for it."""


def _is_final(ending: Ending) -> bool:
    """Whether the job ends with its attempt; otherwise its driver makes another one."""
    return ending.error is None or not ending.error.retryable


def _remember(known: OrderedDict[AttemptId, Any], attempt_id: AttemptId, value: object) -> None:
    known[attempt_id] = value
    if len(known) > REMEMBERED:
        known.popitem(last=False)
