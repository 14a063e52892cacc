"""The ledger of one instance among several, over what all of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from random import Random

import msgspec

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.ids import AttemptId, InstanceId, JobId, TenantId
from dragoman.live.dispatch.cells import NOTHING
from dragoman.live.dispatch.cluster.asks import SharedAsks, SharedTerms, freed_of
from dragoman.live.dispatch.cluster.placing import JobPlacer
from dragoman.live.dispatch.cluster.stored_jobs import let_go, record_of, take_end
from dragoman.live.dispatch.job import Job, Leaving, Seat, leave_attempt, record, times_of
from dragoman.live.dispatch.job_ledger import AfterCheck, AfterFinish, AfterOutlook, Finishing
from dragoman.live.ledger import (
    AttemptRecord,
    Cold,
    Ending,
    Freed,
    JobRecord,
    PastAttempt,
    Sender,
    Stale,
)
from dragoman.live.protocol import AttemptState, ErrorInfo, Outcome
from dragoman.live.shared import SharedLedger
from dragoman.live.shared import records as r

MOST_SEATS = 256
"""No cell has more seats."""

_RELEASE_SECONDS = 0.5
"""Results that were delivered are let go of together: their leases run for longer than that."""

_RELEASED_TOGETHER = 50
"""While Redis lets go of more than a few, jobs wait that are placed just then."""

_ACKNOWLEDGED = (AttemptState.ACCEPTED, AttemptState.RUNNING, AttemptState.FINISHED)
_AT_A_NODE = (AttemptState.DISPATCHED, AttemptState.ACCEPTED, AttemptState.RUNNING)

SlotEnd = r.FreedSlot | r.LateFinish | Stale | Cold
JobEnd = r.Closed | r.NotCurrent | r.HasEnded | r.NoJob


class _Over:
    """An attempt that is over, until its slot is free and its job has its end."""

    __slots__ = (
        "again",
        "answer",
        "attempt_id",
        "closing",
        "ending",
        "free",
        "freed",
        "is_far",
        "job",
        "missing",
        "seat",
        "then",
    )

    def __init__(
        self, job: Job, ending: Ending, again: bool, seat: Seat, then: AfterFinish
    ) -> None:
        self.job = job
        self.ending = ending
        self.again = again
        self.seat = seat
        self.attempt_id = job.attempt_id
        self.then = then
        self.missing = 2
        """How many answers have not come: the cell's, and the shard's."""
        self.is_far = False
        """Its slot is another instance's."""
        self.free: Callable[[], Awaitable[SlotEnd]] | None = None
        self.freed = NOTHING
        self.closing: r.Closing | None = None
        self.answer = Finishing.AGAIN


class ClusterLedger(SharedAsks):
    """Slots, bindings and ends of this instance's jobs."""

    def __init__(
        self,
        shared: SharedLedger,
        terms: SharedTerms,
        instance_id: InstanceId,
        clock: Clock,
        random: Random,
    ) -> None:
        super().__init__(shared, terms, clock)
        self._instance_id = instance_id
        self.placer = placer = JobPlacer(self, instance_id, random)
        self.place, self.preempt, self.preempted = placer.place, placer.preempt, placer.preempted
        self.hold, self.inherit, self.renounce = placer.hold, placer.inherit, placer.renounce
        # The nodes' part is the shared ledger's own.
        self.register, self.forget, self.lookup = shared.register, shared.forget, shared.lookup
        self.members, self.cells = shared.members, shared.cells
        self.seat, self.beat, self.amend = shared.seat, shared.beat, shared.amend
        self.set_drained, self.disconnect = shared.set_drained, shared.disconnect
        self.lose, self.remove = shared.lose, shared.remove
        self.read_cell, self.cell_version = shared.read_cell, shared.cell_version
        self.read_changes = shared.read_changes
        self.size = shared.size
        self._released: list[JobId] = []
        self._releasing: asyncio.TimerHandle | None = None

    # --- an attempt is over ---------------------------------------------------------------------

    def finish(
        self, job: Job, ending: Ending, *, again: bool, now: float, then: AfterFinish
    ) -> None:
        seat = job.seat
        assert seat is not None, "a job that is out has a seat"
        job.finished_ms = self.now_ms(now)
        over = _Over(job, ending, again, seat, then)
        if seat.owner.instance_id != self._instance_id:
            # The node's instance has freed the slot, and keeps the result until it is settled.
            over.missing -= 1
            over.is_far = True
        else:
            finish = r.Finish(ending.outcome, error=ending.error)
            sender = Sender(seat.node_id, seat.owner.epoch)
            over.free = partial(self.shared.finish, seat.cell, job.attempt_id, sender, finish)
            self.hot.finish(
                seat.cell, job.attempt_id, sender, finish, partial(self._slot_freed, over)
            )
        if again:
            over.missing -= 1
            self._finished(over)
            return
        over.closing = self._closing(job, ending)
        self.hot.close(over.closing, partial(self._job_closed, over))

    def _slot_freed(self, over: _Over, answer: SlotEnd | None, error: Exception | None) -> None:
        if error is not None:
            self.spawn(self._free_again(over, error))
            return
        over.freed = _what_came_free(answer)
        over.missing -= 1
        self._finished(over)

    async def _free_again(self, over: _Over, error: Exception) -> None:
        """The cell did not answer: ask until it does."""
        assert over.free is not None, "a slot that was to be freed"
        self._slot_freed(over, await self.insist(over.free, error), None)

    def _job_closed(self, over: _Over, answer: JobEnd | None, error: Exception | None) -> None:
        if isinstance(answer, r.Closed):
            over.answer = self._take_closed(over.job, over.ending, over.closing, answer)
            over.missing -= 1
            self._finished(over)
        elif not self.closed:
            self.spawn(self._close_again(over, answer, error))

    async def _close_again(
        self, over: _Over, answer: JobEnd | None, error: Exception | None
    ) -> None:
        """The shard did not answer, or the job went on: find out."""
        assert over.closing is not None, "a job that was to be closed"
        if answer is None:
            answer = await self.insist(partial(self.shared.close, over.closing), error)
        over.answer = await self._take_in(over.job, over.ending, over.closing, answer)
        over.missing -= 1
        self._finished(over)

    def _finished(self, over: _Over) -> None:
        """The slot is free, and the job has its end: with the second of them, its driver hears."""
        if over.missing or self.closed:
            return
        if over.is_far:
            self.settle(over.seat.cell, over.attempt_id)
        if over.again:
            leave_attempt(over.job, over.ending.outcome, over.ending.error, counts=True)
        over.then(over.job, over.answer, over.freed, self.clock.monotonic())

    def check_acknowledged(self, job: Job, now: float, then: AfterCheck) -> None:
        seat = job.seat
        if seat is None or seat.owner.instance_id == self._instance_id:
            then(job, False, now)
        else:
            self.spawn(self._check_acknowledged(job, seat.cell, then))

    async def _check_acknowledged(self, job: Job, cell: int, then: AfterCheck) -> None:
        attempt_id = job.attempt_id
        held = await self.insist(lambda: self.shared.look(cell, attempt_id, tombstone_ms=0))
        known = isinstance(held, r.StoredAttempt) and held.state in _ACKNOWLEDGED
        then(job, known, self.clock.monotonic())

    def end(self, job: Job, ending: Ending, now: float, then: AfterFinish) -> None:
        self.spawn(self._end(job, ending, then))

    async def _end(self, job: Job, ending: Ending, then: AfterFinish) -> None:
        job.finished_ms = self.now_ms(self.clock.monotonic())
        if job.heir_until != inf:
            self.renounce(job)
        answer = await self._close(job, ending)
        then(job, answer, NOTHING, self.clock.monotonic())

    async def _close(self, job: Job, ending: Ending) -> Finishing:
        """Have the shard give the job its end, and take in the end that it has."""
        closing = self._closing(job, ending)
        answer = await self.insist(partial(self.shared.close, closing))
        return await self._take_in(job, ending, closing, answer)

    def _closing(self, job: Job, ending: Ending) -> r.Closing:
        spec, writer = job.spec, job.writer
        held = delivery = None
        if writer is not None and spec.request_id == f"{writer.session_id}/{spec.utterance_index}":
            reason = None if ending.outcome is Outcome.SUCCESS else _code(ending.error)
            held = writer.holding
            delivery = r.Delivery(spec.utterance_index or 0, job.target_key, job.job_id, reason)
        return r.Closing(
            job.job_id,
            job.named,
            ending,
            times_of(job),
            job.seat.node_id if job.seat is not None else None,
            self.terms.keep,
            held,
            delivery,
            None if job.left is None else _outlived(job),
        )

    async def _take_in(
        self, job: Job, ending: Ending, closing: r.Closing, answer: JobEnd
    ) -> Finishing:
        """Take in what the shard says to a closing."""
        if isinstance(answer, r.NotCurrent) and answer.job.instance_id == self._instance_id:
            # The record lost a move, or its answer was lost; the job is this instance's still.
            known = {past.attempt_id for past in answer.job.past}
            last = closing.last
            if last is not None and last.attempt_id in known:
                last = None
            closing = msgspec.structs.replace(closing, attempt_id=answer.job.attempt_id, last=last)
            answer = await self.insist(partial(self.shared.close, closing))
        if isinstance(answer, r.NotCurrent):
            job.driven = False
            job.driver_instance = answer.job.instance_id
            return Finishing.MOVED
        if isinstance(answer, r.HasEnded):
            take_end(job, answer.job)
            return Finishing.ENDED
        return self._take_closed(job, ending, closing, answer)

    def _take_closed(
        self, job: Job, ending: Ending, closing: r.Closing | None, answer: r.Closed | r.NoJob
    ) -> Finishing:
        writer = job.writer
        if isinstance(answer, r.Closed):
            job.delivery_seq = answer.seq or 0
            if writer is not None and closing is not None and closing.held is not None:
                writer.saw(answer.revision)
        # A ledger that lost its memory of the job changes nothing for those who wait for it.
        let_go(job)
        job.outcome, job.output, job.error = ending.outcome, ending.output, ending.error
        return Finishing.ENDED

    # --- without a node's word ------------------------------------------------------------------

    def leave(
        self, job: Job, error: ErrorInfo, now: float, outcome: Outcome = Outcome.FAILED
    ) -> Leaving | None:
        seat, attempt_id = job.seat, job.attempt_id
        if seat is None or not job.is_out:
            return None
        holds = seat.held.pop(attempt_id, None) is job
        left = Leaving(
            attempt_id,
            job.job_id,
            seat,
            job.epoch,
            job.spec.job_class,
            error,
            self.now_ms(now) + self.terms.slots.grace_ms,
            job.acked,
            times_of(job),
        )
        job.finished_ms = self.now_ms(now)
        leave_attempt(job, outcome, error, counts=True)
        if not holds:
            return None
        self.spawn(self._cancel(seat.cell, attempt_id, error))
        return left

    async def _cancel(self, cell: int, attempt_id: AttemptId, error: ErrorInfo) -> None:
        grace_ms = self.terms.slots.grace_ms
        answer = await self.insist(
            lambda: self.shared.cancel(cell, attempt_id, error, grace_ms=grace_ms)
        )
        if isinstance(answer, r.AlreadyEnded):
            self.settle(cell, attempt_id)

    def drop(self, job: Job, error: ErrorInfo, now: float) -> Freed:
        seat = job.seat
        if seat is not None and job.is_out:
            seat.held.pop(job.attempt_id, None)
            self.give_back(seat.cell, job.attempt_id)
            job.finished_ms = self.now_ms(now)
            leave_attempt(job, Outcome.FAILED, error, counts=True)
        return NOTHING

    # --- reading --------------------------------------------------------------------------------

    def outlook_for(self, job: Job, now: float, then: AfterOutlook) -> None:
        self.spawn(self._outlook(job, then))

    async def _outlook(self, job: Job, then: AfterOutlook) -> None:
        try:
            outlook = await self.shared.outlook(job.cells)
        except DependencyDown:
            outlook = None
        then(job, outlook, self.clock.monotonic())

    def is_far(self, job: Job) -> bool:
        """Whether the job is at a node of another instance."""
        return (
            job.is_out and job.seat is not None and job.seat.owner.instance_id != self._instance_id
        )

    async def read_whole(self, job_id: JobId) -> tuple[JobRecord, AttemptState | None] | None:
        """A job with the state of the attempt that holds a slot for it, if any."""
        stored = await self.shared.read(job_id)
        if stored is None:
            return None
        if stored.outcome is not None:
            return record_of(stored), None
        held = await self.shared.look(stored.cell, stored.attempt_id, tombstone_ms=0)
        if isinstance(held, r.Tombstone):
            return record_of(stored), None
        return record_of(stored, held), held.state

    async def cancel_elsewhere(
        self, job: Job, error: ErrorInfo
    ) -> tuple[r.StoredJob, r.CancelWon | None] | None:
        """End a job that another instance drives, and win its attempt back; None: it has ended."""
        stored = await self.shared.read(job.job_id)
        while True:
            if stored is None or stored.outcome is not None:
                return None
            held = await self.shared.look(stored.cell, stored.attempt_id, tombstone_ms=0)
            node_id, times = None, times_of(job)
            if isinstance(held, r.StoredAttempt) and held.state in _AT_A_NODE:
                node_id, times = held.node_id, held.times
            closing = r.Closing(
                job.job_id,
                stored.attempt_id,
                Ending(Outcome.CANCELLED, error=error),
                msgspec.structs.replace(times, finished_ms=self.now_ms(self.clock.monotonic())),
                node_id,
                self.terms.keep,
            )
            answer = await self.shared.close(closing)
            if isinstance(answer, r.Closed):
                break
            # Its driver moved it on meanwhile, or it has ended.
            stored = answer.job if isinstance(answer, r.NotCurrent) else None
        stored = await self.shared.read(job.job_id)
        if stored is None:
            return None
        grace_ms = self.terms.slots.grace_ms
        won = await self.insist(
            lambda: self.shared.cancel(stored.cell, stored.attempt_id, error, grace_ms=grace_ms)
        )
        return stored, won if isinstance(won, r.CancelWon) else None

    def record(self, job: Job) -> JobRecord:
        now = self.clock.monotonic()
        return record(job, job.driver_instance or self._instance_id, now, self.now_ms(now))

    async def read(self, job_id: JobId) -> JobRecord | None:
        found = await self.read_whole(job_id)
        return found[0] if found is not None else None

    async def recent(
        self, tenant: TenantId, limit: int, before: tuple[int, JobId] | None = None
    ) -> tuple[JobRecord, ...]:
        return tuple(map(record_of, await self.shared.recent(tenant, limit, before)))

    async def read_attempt(self, cell: int, attempt_id: AttemptId) -> AttemptRecord | None:
        """The attempt, while it holds a slot."""
        held = await self.shared.look(cell, attempt_id, tombstone_ms=0)
        if isinstance(held, r.Tombstone):
            return None
        return AttemptRecord(
            attempt_id=held.attempt_id,
            job_id=held.job_id,
            cell=held.cell,
            node_id=held.node_id,
            owner=held.owner,
            job_class=held.job_class,
            state=held.state,
            acked=held.state is not AttemptState.DISPATCHED,
            due_at_ms=held.due_at_ms,
            times=held.times,
        )

    async def slots_held(self) -> int:
        """How many slots are held, over all cells."""
        every = (1 << MOST_SEATS) - 1
        cells = await self.shared.cells()
        return (await self.shared.outlook([(cell, every) for cell in cells])).held

    def release_now(self, job: Job) -> None:
        """The delivery was acknowledged: the stored result goes when its lease ends."""
        if not self._released:
            loop = asyncio.get_running_loop()
            self._releasing = loop.call_later(_RELEASE_SECONDS, self._release_all)
        self._released.append(job.job_id)

    def _release_all(self) -> None:
        released, self._released = self._released, []
        self.spawn(self._release_in_turn(released))

    async def _release_in_turn(self, released: Sequence[JobId]) -> None:
        """A few at a time: jobs that are placed meanwhile do not wait for all of them."""
        by_shard: dict[str, list[JobId]] = {}
        for job_id in released:
            by_shard.setdefault(job_id[2:4], []).append(job_id)
        with suppress(DependencyDown):  # The retention ends the others, then.
            for job_ids in by_shard.values():
                for start in range(0, len(job_ids), _RELEASED_TOGETHER):
                    await self.shared.release(job_ids[start : start + _RELEASED_TOGETHER])

    async def release(self, job_ids: Sequence[JobId]) -> None:
        await self._release_in_turn(job_ids)

    async def close(self) -> None:
        """Let go of what is under way, and of the servers."""
        if self._releasing is not None:
            self._releasing.cancel()  # Their retention ends those that still wait.
        await self.stop()
        await self.shared.stop()


def _what_came_free(answer: SlotEnd | None) -> Freed:
    if isinstance(answer, r.LateFinish):
        return freed_of(answer.freed)
    return freed_of(answer) if isinstance(answer, r.FreedSlot) else NOTHING


def _outlived(job: Job) -> PastAttempt | None:
    """The attempt that the job's record names, where the job has left it and has no other."""
    left = job.left
    return left if left is not None and job.seat is None and left.attempt_id == job.named else None


def _code(error: ErrorInfo | None) -> str:
    return error.code if error is not None else "INTERNAL_ERROR"
