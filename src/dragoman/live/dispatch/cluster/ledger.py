"""The ledger of one instance among several, over what all of them share.

The shard decides what a job is, the cell decides who holds a slot (`dragoman.live.shared`). Where
a step needs both, both are asked at the same time, and the answers are put together here. A step
whose answer did not come is asked again until it does: every one of them may be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from random import Random
from typing import Any, TypeVar

import msgspec

from dragoman.clock import Clock
from dragoman.errors import DependencyDown, RateLimited
from dragoman.ids import (
    AttemptId,
    ConnectionId,
    InstanceId,
    JobId,
    NodeId,
    RequestId,
    TenantId,
    new_attempt_id,
    new_job_id_for,
)
from dragoman.live.dispatch.cells import NOTHING, SlotRules
from dragoman.live.dispatch.job import (
    Job,
    Leaving,
    Seat,
    Step,
    Stop,
    closed_attempt,
    record,
    times_of,
)
from dragoman.live.dispatch.job_ledger import (
    FULL,
    FULL_BUT_HEADROOM,
    PLACED,
    AfterCheck,
    AfterFinish,
    AfterOutlook,
    AfterPlace,
    AfterPreempt,
    Finishing,
    PlaceAnswer,
    Placing,
    Preempted,
)
from dragoman.live.dispatch.refusals import as_info
from dragoman.live.dispatch.tenants import TenantJobs
from dragoman.live.ledger import (
    AttemptRecord,
    Ending,
    Freed,
    JobRecord,
    JobSpec,
    Keep,
    Owner,
    PastAttempt,
    Sender,
)
from dragoman.live.protocol import (
    AttemptState,
    ErrorInfo,
    JobClass,
    JobState,
    Outcome,
    Pipeline,
    RunningJob,
)
from dragoman.live.shared import SharedLedger
from dragoman.live.shared import records as r
from dragoman.observability import get_logger

log = get_logger("dragoman.dispatch")

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, PlaceAnswer]]

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
"""Between two tries of a step that must be carried out."""

MOST_TOGETHER = 24
"""Steps that are tried again, or for jobs that look again, and are under way at a time."""

MOST_SEATS = 256
"""No cell has more seats."""

NO_CELL = 0
"""Named in a record where no slot was asked for: no cell holds the attempt that goes with it."""

NO_OWNER = Owner(InstanceId(""), ConnectionId(""), 0)
"""Of a seat that held an attempt once: what it is now is not known."""

DOWN = PlaceAnswer(Placing.DOWN)
_ACKNOWLEDGED = (AttemptState.ACCEPTED, AttemptState.RUNNING, AttemptState.FINISHED)
_AGAIN = frozenset({Placing.DOWN, Placing.GONE})
PREEMPTED = ErrorInfo("PREEMPTED", "The slot was needed for live work.")


class SharedTerms(msgspec.Struct, frozen=True):
    """How slots are granted and how long things are remembered; from the settings."""

    slots: SlotRules
    keep: Keep
    claim_ms: int
    """How long an instance drives a job without renewing its claim."""
    ack_ms: int
    lease_ms: int
    run_ms: int
    total_ms: int
    tombstone_ms: int
    """How long a cell remembers an attempt that is over, so that no late step revives it."""


class ClusterLedger:
    """Slots, bindings and ends of this instance's jobs."""

    def __init__(
        self,
        shared: SharedLedger,
        terms: SharedTerms,
        instance_id: InstanceId,
        clock: Clock,
        random: Random,
    ) -> None:
        self.shared = shared
        self.terms = terms
        self._instance_id = instance_id
        self._clock = clock
        self._random = random
        self.origin_ms = clock.now_ms() - int(clock.monotonic() * 1000)
        """When the monotonic clock was 0, by this machine's clock as it was at the start."""
        self.tenants: TenantJobs | None = None
        """Counts over all instances, where tenants are limited."""
        self.driven: Mapping[JobId, Job] = {}
        """The jobs that this instance drives."""
        self.knows: Callable[[int, int, NodeId], bool] = lambda cell, index, node_id: True
        """Whether a seat is the node's that it was taken for: seats change hands unheard."""
        self.on_freed: Callable[[Freed], None] = lambda freed: None
        """Told of slots that came free after the step that freed them had been answered for."""
        self.is_over: Callable[[AttemptId], bool] = lambda attempt_id: False
        """Whether an attempt was won back before this instance heard that it has a slot."""
        self.gave_way: Callable[[RunningJob, Leaving, InstanceId], Job | None] = _not_ours
        """Told of a batch attempt that gives way; answers its job, if this instance drives it."""
        # The nodes' part is the shared ledger's own.
        self.register, self.forget, self.lookup = shared.register, shared.forget, shared.lookup
        self.members, self.cells = shared.members, shared.cells
        self.seat, self.beat, self.amend = shared.seat, shared.beat, shared.amend
        self.set_drained, self.disconnect = shared.set_drained, shared.disconnect
        self.lose, self.remove = shared.lose, shared.remove
        self.read_cell, self.cell_version = shared.read_cell, shared.cell_version
        self.size = shared.size
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(MOST_TOGETHER)
        self._released: list[JobId] = []
        self._closed = False

    def now_ms(self, now: float) -> int:
        return self.origin_ms + int(now * 1000)

    # --- hot ------------------------------------------------------------------------------------

    def place(self, job: Job, now: float, then: AfterPlace) -> None:
        if job.job_id:
            self._spawn(self._place(job, then, partial(self._search, job)))
            return
        spec, writer = job.spec, job.writer
        job_id = new_job_id_for(self._random, spec.tenant, spec.request_id, job.target_key)
        new = r.NewJob(
            job_id,
            spec,
            job.input,  # type: ignore[arg-type]  # a job that has not ended has its input
            job.body_hash,
            job.target_key,
            job.attempt_id,
            job.cells[0][0] if job.cells else NO_CELL,
            None if job.is_batch else max(0, int((job.total_until - now) * 1000)),
        )
        limited = self.tenants is not None and self.tenants.limited
        if writer is not None and spec.request_id == f"{writer.session_id}/{spec.utterance_index}":
            opened: asyncio.Future[tuple[Any, int]] = asyncio.get_running_loop().create_future()
            writer.claim(job, new, partial(_tell, opened))
            self._spawn(self._place(job, then, partial(self._open_named, job, new, opened)))
            return
        noted = None
        if writer is not None:
            noted = writer.elsewhere(spec.utterance_index or 0, job.target_key)
        self._spawn(self._place(job, then, partial(self._open_own, job, new, noted, limited)))

    async def _place(self, job: Job, then: AfterPlace, work: Work) -> None:
        try:
            answer = await self._answer(job, work)
        except asyncio.CancelledError:
            # The instance stops; a session's utterances go on at the next one.
            if job.owner is None and job.on_submitted is not None:
                then(job, DOWN, self._clock.monotonic())
            raise
        then(job, answer, self._clock.monotonic())

    async def _answer(self, job: Job, work: Work) -> PlaceAnswer:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                if job.job_id:
                    # Those that look again take turns: there may be thousands, woken at once.
                    async with self._turns:
                        answer = await work()
                else:
                    answer = await work()
            except DependencyDown:
                answer = DOWN
            if job.stop is not None or not job.job_id or answer.kind not in _AGAIN:
                break
            # The request is this job's, and so it goes on, whatever the ledger does.
            if answer.kind is Placing.DOWN:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            job.attempt_id = new_attempt_id(self._random)
            work = partial(self._search, job)
        # One that is to stop is stopped where no slot is found.
        return FULL if answer.kind in _AGAIN and job.job_id else answer

    async def _open_named(
        self, job: Job, new: r.NewJob, opened: asyncio.Future[tuple[Any, int]]
    ) -> PlaceAnswer:
        """Open a job of an utterance with the utterance, and ask for its slot at the same time."""
        sent = self._clock.monotonic()
        asked = None
        if job.cells and not await self._is_over_limit(job, new.job_id):
            ask = self._ask(job, job.cells[0], new.attempt_id, new.job_id)
            asked = self._background(self.shared.reserve(ask))
        answer, at_ms = await opened
        granted = await _answer_of(asked)
        found = self._opened(job, new, answer, at_ms, sent)
        if found is not None:
            self._drop_unused(granted, new)
            return found
        if asked is None:
            return FULL
        return await self._got(job, granted, sent, self._search(job, skip=1))

    async def _open_own(
        self,
        job: Job,
        new: r.NewJob,
        noted: Callable[[JobId | None], None] | None,
        limited: bool,
    ) -> PlaceAnswer:
        """Open a request that the client named, then look for its slot."""
        sent = self._clock.monotonic()
        opening = r.Opening((new,), self._instance_id, self.terms.claim_ms, self.terms.keep)
        job_id: JobId | None = None
        try:
            if limited:
                await self._is_over_limit(job, new.job_id)
            ask = partial(self.shared.open, opening)
            # A session's utterance has no caller who could send it again.
            answer = await (self.insist(ask) if job.owner is not None else ask())
            assert isinstance(answer, r.Opened), "a request without a session has no owner"
            first = answer.jobs[0]
            job_id = first.job.job_id if isinstance(first, r.JobFound) else new.job_id
        finally:
            if noted is not None:
                noted(job_id)
        found = self._opened(job, new, first, answer.at_ms, sent)
        if found is not None:
            return found
        return await self._search(job, named=True)

    def _opened(
        self, job: Job, new: r.NewJob, answer: object, at_ms: int, sent: float
    ) -> PlaceAnswer | None:
        """Take in what the shard made of a request; None: it is this job, and goes on."""
        if isinstance(answer, r.JobFound) and answer.job.job_id != new.job_id:
            kind = Placing.EXISTING if answer.same_body else Placing.CONFLICT
            return PlaceAnswer(kind, self.known(answer.job))
        if isinstance(answer, r.JobOpened | r.JobFound):
            job.job_id = new.job_id
            job.created_ms = answer.job.created_ms if isinstance(answer, r.JobFound) else at_ms
            job.named, job.named_cell = new.attempt_id, new.cell
            job.claimed = sent
            return None
        if isinstance(answer, r.NotOwner):
            owner = answer.owner.instance_id if answer.owner is not None else ""
            return PlaceAnswer(Placing.ELSEWHERE, owner=owner)
        return DOWN if answer is None else PlaceAnswer(Placing.ELSEWHERE)

    async def _search(self, job: Job, *, skip: int = 0, named: bool = False) -> PlaceAnswer:
        """Ask the job's cells for a slot, one after the other.

        The record names the cell that is asked before a slot can be held there.
        """
        headroom = cold = False
        for index, (cell, mask) in enumerate(job.cells):
            if index < skip:
                continue
            sent = self._clock.monotonic()
            if job.named_idle and cell == job.named_cell:
                job.attempt_id = job.named
                named = True
            if index or not named:
                attempt_id = new_attempt_id(self._random) if index else job.attempt_id
                moved, got = await asyncio.gather(
                    self.shared.move(self._move(job, attempt_id, cell)),
                    self.shared.reserve(self._ask(job, (cell, mask), attempt_id, job.job_id)),
                    return_exceptions=True,
                )
                known = self._moved(job, moved, attempt_id, cell, sent)
                if known is not None:
                    self._drop(cell, attempt_id)
                    return known
                if isinstance(got, BaseException):
                    self._drop(cell, attempt_id)
                    raise got
            else:
                job.named_idle = False
                try:
                    got = await self.shared.reserve(
                        self._ask(job, (cell, mask), job.attempt_id, job.job_id)
                    )
                except DependencyDown:
                    self._drop(cell, job.attempt_id)
                    raise
            named = False
            if isinstance(got, r.Granted):
                return self._hold(job, got, sent) or await self._search(job)
            if isinstance(got, r.Gone):
                job.attempt_id = new_attempt_id(self._random)
                return await self._search(job)
            job.named_idle = True
            headroom |= got.headroom
            cold |= got.cold
        if cold:
            cells = tuple(cell for cell, _ in job.cells)
            return PlaceAnswer(Placing.COLD, cold=cells, headroom=headroom)
        return FULL_BUT_HEADROOM if headroom else FULL

    async def _got(
        self,
        job: Job,
        got: r.Granted | r.Full | r.Gone | DependencyDown | None,
        sent: float,
        others: Coroutine[Any, Any, PlaceAnswer],
    ) -> PlaceAnswer:
        """Take in the answer of the first cell; the others are asked where it had no slot."""
        if isinstance(got, r.Granted):
            held = self._hold(job, got, sent)
            if held is not None:
                others.close()
                return held
        if isinstance(got, r.Granted | r.Gone | DependencyDown):
            others.close()
            if isinstance(got, DependencyDown):
                self._drop(job.named_cell, job.attempt_id)
            job.attempt_id = new_attempt_id(self._random)
            return await self._search(job)
        job.named_idle = isinstance(got, r.Full)
        answer = await others
        if answer is FULL and isinstance(got, r.Full):
            if got.cold:
                return PlaceAnswer(Placing.COLD, cold=(job.cells[0][0],), headroom=got.headroom)
            return FULL_BUT_HEADROOM if got.headroom else FULL
        return answer

    def _hold(self, job: Job, got: r.Granted, sent: float) -> PlaceAnswer | None:
        """A slot is held; None: it is not sure any more, and is given back.

        It was granted too long ago, or another job took it meanwhile.
        """
        now = self._clock.monotonic()
        since_ms = (now - min(sent, job.claimed)) * 1000
        is_sure = since_ms < min(self.terms.claim_ms, self.terms.ack_ms)
        is_sure = is_sure and not self.is_over(job.attempt_id)
        if is_sure and not self.knows(got.cell, got.index, got.node_id):
            # The seat is another node's by now, which may not be fit.
            self._drop(got.cell, job.attempt_id)
            return FULL
        if not is_sure:
            self._drop(got.cell, job.attempt_id)
            job.attempt_id = new_attempt_id(self._random)
            return None
        self.hold(job, got.node_id, got.cell, got.index, got.owner, now)
        return PLACED

    def hold(
        self, job: Job, node_id: NodeId, cell: int, index: int, owner: Owner, now: float
    ) -> None:
        """The job's attempt has a slot of this node."""
        seat = Seat(node_id, cell, index, owner, 1)
        seat.held[job.attempt_id] = job
        job.seat = seat
        job.epoch = owner.epoch
        job.step = Step.DISPATCHED
        job.acked = False
        job.dispatched_ms = self.now_ms(now)
        job.accepted_ms = job.running_ms = job.finished_ms = 0
        job.used += 1

    def finish(
        self, job: Job, ending: Ending, *, again: bool, now: float, then: AfterFinish
    ) -> None:
        self._spawn(self._finish(job, ending, again, then))

    async def _finish(self, job: Job, ending: Ending, again: bool, then: AfterFinish) -> None:
        seat = job.seat
        assert seat is not None, "a job that is out has a seat"
        cell, attempt_id = seat.cell, job.attempt_id
        job.finished_ms = self.now_ms(self._clock.monotonic())
        far = seat.owner.instance_id != self._instance_id
        freeing: asyncio.Task[Freed] | None = None
        if far:
            # The node's instance has freed the slot, and keeps the result until it is settled.
            if again:
                self.settle(cell, attempt_id)
        else:
            freeing = self._background(self._free(cell, attempt_id, seat, ending))
        if again:
            freed = await freeing if freeing is not None else NOTHING
            self._past(job, ending.outcome, ending.error, counts=True)
            then(job, Finishing.AGAIN, freed, self._clock.monotonic())
            return
        answer = await self._close(job, ending)
        if far:
            self.settle(cell, attempt_id)
        freed = await freeing if freeing is not None else NOTHING
        then(job, answer, freed, self._clock.monotonic())

    async def _free(self, cell: int, attempt_id: AttemptId, seat: Seat, ending: Ending) -> Freed:
        finish = r.Finish(ending.outcome, error=ending.error)
        sender = Sender(seat.node_id, seat.owner.epoch)
        answer = await self.insist(lambda: self.shared.finish(cell, attempt_id, sender, finish))
        if isinstance(answer, r.LateFinish):
            return freed_of(answer.freed)
        return freed_of(answer) if isinstance(answer, r.Freed) else NOTHING

    def check_acknowledged(self, job: Job, now: float, then: AfterCheck) -> None:
        seat = job.seat
        if seat is None or seat.owner.instance_id == self._instance_id:
            then(job, False, now)
        else:
            self._spawn(self._check_acknowledged(job, seat.cell, then))

    async def _check_acknowledged(self, job: Job, cell: int, then: AfterCheck) -> None:
        attempt_id = job.attempt_id
        held = await self.insist(lambda: self.shared.look(cell, attempt_id, tombstone_ms=0))
        known = isinstance(held, r.StoredAttempt) and held.state in _ACKNOWLEDGED
        then(job, known, self._clock.monotonic())

    # --- ends -----------------------------------------------------------------------------------

    def end(self, job: Job, ending: Ending, now: float, then: AfterFinish) -> None:
        self._spawn(self._end(job, ending, then))

    async def _end(self, job: Job, ending: Ending, then: AfterFinish) -> None:
        job.finished_ms = self.now_ms(self._clock.monotonic())
        if job.heir_until != inf:
            self.renounce(job)
        answer = await self._close(job, ending)
        then(job, answer, NOTHING, self._clock.monotonic())

    async def _close(self, job: Job, ending: Ending) -> Finishing:
        """Have the shard give the job its end, and take in the end that it has."""
        spec, writer = job.spec, job.writer
        held = delivery = None
        if writer is not None and spec.request_id == f"{writer.session_id}/{spec.utterance_index}":
            reason = None if ending.outcome is Outcome.SUCCESS else _code(ending.error)
            held = writer.holding
            delivery = r.Delivery(spec.utterance_index or 0, job.target_key, job.job_id, reason)
        node_id = job.seat.node_id if job.seat is not None else None
        closing = r.Closing(
            job.job_id,
            job.named,
            ending,
            times_of(job),
            node_id,
            self.terms.keep,
            held,
            delivery,
        )
        answer = await self.insist(lambda: self.shared.close(closing))
        if isinstance(answer, r.NotCurrent) and answer.job.instance_id == self._instance_id:
            # The record lost a move, or its answer was lost; the job is this instance's still.
            closing = msgspec.structs.replace(closing, attempt_id=answer.job.attempt_id)
            answer = await self.insist(lambda: self.shared.close(closing))
        if isinstance(answer, r.NotCurrent):
            job.driven = False
            job.driver_instance = answer.job.instance_id
            return Finishing.MOVED
        if isinstance(answer, r.HasEnded):
            self.take_end(job, answer.job)
            return Finishing.ENDED
        if isinstance(answer, r.Closed):
            job.delivery_seq = answer.seq or 0
            if writer is not None and held is not None:
                writer.saw(answer.revision)
        # A ledger that lost its memory of the job changes nothing for those who wait for it.
        _let_go(job)
        job.outcome, job.output, job.error = ending.outcome, ending.output, ending.error
        return Finishing.ENDED

    def take_end(self, job: Job, stored: r.StoredJob) -> None:
        """The job has this end, which another instance or an earlier try gave it."""
        _let_go(job)
        job.outcome, job.output, job.error = stored.outcome, stored.output, stored.error
        # All that a client is told of it: whoever tells, it is the same.
        job.spec = stored.spec
        job.created_ms = stored.created_ms
        job.past = list(stored.past) or None
        job.used = sum(1 for past in stored.past if past.bound and past.counts)
        job.preemptions = stored.preemptions
        job.released = stored.released
        if stored.node_id is None:
            job.finished_ms = stored.times.finished_ms or job.finished_ms
            return
        job.used += 1
        times = stored.times
        job.dispatched_ms, job.accepted_ms = times.dispatched_ms, times.accepted_ms
        job.running_ms, job.finished_ms = times.running_ms, times.finished_ms
        if job.seat is None or job.seat.node_id != stored.node_id:
            job.seat = Seat(stored.node_id, stored.cell, 0, NO_OWNER, 1)

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
        self._past(job, outcome, error, counts=True)
        if not holds:
            return None
        self._spawn(self._cancel(seat.cell, attempt_id, error))
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
            self._drop(seat.cell, job.attempt_id)
            job.finished_ms = self.now_ms(now)
            self._past(job, Outcome.FAILED, error, counts=True)
        return NOTHING

    def _drop(self, cell: int, attempt_id: AttemptId) -> None:
        """Give back a slot whose node was never told, whether or not it is held."""
        self._spawn(self._dropped(cell, attempt_id))

    async def _dropped(self, cell: int, attempt_id: AttemptId) -> None:
        tombstone_ms = self.terms.tombstone_ms
        answer = await self.insist(
            lambda: self.shared.drop(cell, attempt_id, tombstone_ms=tombstone_ms)
        )
        if isinstance(answer, r.Freed):
            self.on_freed(freed_of(answer))

    def give_back(self, cell: int, attempt_id: AttemptId) -> None:
        """A slot is held for an attempt whose node could not be told."""
        self._drop(cell, attempt_id)

    def preempted(self, job: Job, now: float) -> Leaving:
        """Another instance's live work took the slot of the job's attempt."""
        seat = job.seat
        assert seat is not None, "a job that is out has a seat"
        left = Leaving(
            job.attempt_id,
            job.job_id,
            seat,
            job.epoch,
            JobClass.BATCH,
            PREEMPTED,
            0,
            True,
            times_of(job),
        )
        seat.held.pop(job.attempt_id, None)
        job.finished_ms = self.now_ms(now)
        self._past(job, Outcome.FAILED, PREEMPTED, counts=False)
        job.preemptions += 1
        return left

    def _drop_unused(self, granted: object, new: r.NewJob) -> None:
        if isinstance(granted, r.Granted | DependencyDown):
            self._drop(new.cell, new.attempt_id)

    def settle(self, cell: int, attempt_id: AttemptId) -> None:
        """The result of an attempt is with its job: the cell may forget it."""
        self._spawn(self._settled(cell, attempt_id))

    async def _settled(self, cell: int, attempt_id: AttemptId) -> None:
        await self.insist(lambda: self.shared.settle(cell, (attempt_id,)))

    # --- making room ----------------------------------------------------------------------------

    def preempt(self, job: Job, now: float, then: AfterPreempt) -> None:
        self._spawn(self._preempt(job, then))

    async def _preempt(self, job: Job, then: AfterPreempt) -> None:
        try:
            gave_way = await self._find_victim(job)
        except DependencyDown:
            gave_way = None
        then(job, gave_way, self._clock.monotonic())

    async def _find_victim(self, job: Job) -> Preempted | PlaceAnswer | None:
        for cell, mask in job.cells:
            if job.named_idle and cell == job.named_cell:
                attempt_id = job.named
            else:
                attempt_id = new_attempt_id(self._random)
                sent = self._clock.monotonic()
                moved = await self.shared.move(self._move(job, attempt_id, cell))
                if self._moved(job, moved, attempt_id, cell, sent) is not None:
                    return None
            job.named_idle = False
            ask = self._ask(job, (cell, mask), attempt_id, job.job_id, waits=False)
            asked = self._clock.monotonic()
            try:
                answer = await self.shared.preempt(ask)
            except DependencyDown:
                self._drop(cell, attempt_id)
                raise
            if isinstance(answer, r.Granted):
                # A slot came free meanwhile.
                job.attempt_id = attempt_id
                return PLACED if self._hold(job, answer, asked) is PLACED else None
            if isinstance(answer, r.Preempting):
                seat = Seat(answer.node_id, cell, 0, answer.owner, 1)
                left = Leaving(
                    answer.victim.attempt_id,
                    answer.victim.job_id,
                    seat,
                    answer.owner.epoch,
                    JobClass.BATCH,
                    PREEMPTED,
                    0,
                    True,
                    times_of(job),
                )
                job.attempt_id = attempt_id
                victim = self.gave_way(answer.victim, left, answer.victim_instance)
                if victim is not None:
                    self.preempted(victim, self._clock.monotonic())
                return Preempted(victim, left)
            job.named_idle = isinstance(answer, r.NoVictim)
        return None

    def renounce(self, job: Job) -> None:
        self._drop(job.named_cell, job.attempt_id)

    def inherit(
        self, job: Job, attempt_id: AttemptId, then: Callable[[Job, AttemptId, float], None]
    ) -> None:
        """A slot passed to the job, which waits for it: find out which."""
        self._spawn(self._inherit(job, attempt_id, then))

    async def _inherit(
        self, job: Job, attempt_id: AttemptId, then: Callable[[Job, AttemptId, float], None]
    ) -> None:
        cell = job.named_cell
        try:
            held = await self.shared.look(cell, attempt_id, tombstone_ms=self.terms.tombstone_ms)
        except DependencyDown:
            return  # It is looked for elsewhere when the time for it is up.
        if job.attempt_id != attempt_id or job.is_out or job.outcome is not None:
            return
        if job.in_flight or self.is_over(attempt_id):
            return  # It ends, and gives the slot back; or the slot was won back.
        if isinstance(held, r.StoredAttempt) and held.state is AttemptState.DISPATCHED:
            now = self._clock.monotonic()
            self.hold(job, held.node_id, cell, 0, held.owner, now)
            then(job, attempt_id, now)

    def outlook_for(self, job: Job, now: float, then: AfterOutlook) -> None:
        self._spawn(self._outlook(job, then))

    async def _outlook(self, job: Job, then: AfterOutlook) -> None:
        try:
            outlook = await self.shared.outlook(job.cells)
        except DependencyDown:
            outlook = None
        then(job, outlook, self._clock.monotonic())

    # --- reading --------------------------------------------------------------------------------

    def known(self, stored: r.StoredJob) -> Job:
        """The job that is driven here, or as it is stored."""
        return self.driven.get(stored.job_id) or self.foreign(stored)

    def foreign(self, stored: r.StoredJob) -> Job:
        """A job that another instance drives, or that has ended, as callers here know it."""
        job = Job(
            stored.spec,
            None,
            stored.body_hash,
            None,  # type: ignore[arg-type]  # it is not placed from here
            None,
            0.0,
            0.0,
            False,
            stored.spec.target_key,
        )
        job.job_id = stored.job_id
        job.created_ms = stored.created_ms
        job.named, job.named_cell = stored.attempt_id, stored.cell
        job.driven = False
        job.driver_instance = stored.instance_id
        job.past = list(stored.past) or None
        job.preemptions = stored.preemptions
        if stored.outcome is not None:
            self.take_end(job, stored)
        return job

    def unread(self, job_id: JobId) -> Job:
        """A job of which only the id is known here."""
        spec = JobSpec(TenantId(""), RequestId(""), "", "", Pipeline())
        job = Job(spec, None, b"", None, None, 0.0, 0.0, False, "")  # type: ignore[arg-type]
        job.job_id = job_id
        job.driven = False
        return job

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
        closing = r.Closing(
            job.job_id,
            None,
            Ending(Outcome.CANCELLED, error=error),
            times_of(job),
            None,
            self.terms.keep,
        )
        answer = await self.shared.close(closing)
        if not isinstance(answer, r.Closed):
            return None
        stored = await self.shared.read(job.job_id)
        if stored is None:
            return None
        grace_ms = self.terms.slots.grace_ms
        won = await self.insist(
            lambda: self.shared.cancel(stored.cell, stored.attempt_id, error, grace_ms=grace_ms)
        )
        return stored, won if isinstance(won, r.CancelWon) else None

    def record(self, job: Job) -> JobRecord:
        now = self._clock.monotonic()
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
            asyncio.get_running_loop().call_soon(self._release_all)
        self._released.append(job.job_id)

    def _release_all(self) -> None:
        by_shard: dict[str, list[JobId]] = {}
        for job_id in self._released:
            by_shard.setdefault(job_id[2:4], []).append(job_id)
        self._released.clear()
        for job_ids in by_shard.values():
            self._spawn(self._release(job_ids))

    async def release(self, job_ids: Sequence[JobId]) -> None:
        for job_id in job_ids:
            await self._release((job_id,))

    async def _release(self, job_ids: Sequence[JobId]) -> None:
        with suppress(DependencyDown):  # The retention ends it, then.
            await self.shared.release(job_ids)

    # --- life -----------------------------------------------------------------------------------

    async def insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer."""
        pause = FIRST_PAUSE_SECONDS
        try:
            return await ask()
        except DependencyDown:
            if self._closed:
                raise
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            try:
                async with self._turns:
                    return await ask()
            except DependencyDown:
                if self._closed:
                    raise

    async def close(self) -> None:
        """Let go of what is under way: another instance takes it up."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.shared.stop()

    # --- inside ---------------------------------------------------------------------------------

    def _ask(
        self,
        job: Job,
        mask: tuple[int, int],
        attempt_id: AttemptId,
        job_id: JobId,
        *,
        waits: bool = True,
    ) -> r.SlotAsk:
        terms, rules = self.terms, self.terms.slots
        may_wait = waits and (job.may_wait or job.is_batch)
        return r.SlotAsk(
            cell=mask[0],
            candidates=mask[1],
            attempt_id=attempt_id,
            job_id=job_id,
            job_class=job.spec.job_class,
            instance_id=self._instance_id,
            strategy=rules.strategy,
            headroom=rules.batch_headroom,
            ack_ms=terms.ack_ms,
            lease_ms=terms.lease_ms,
            run_ms=terms.run_ms,
            preemptions=job.preemptions,
            max_preemptions=rules.batch_max_preemptions,
            grace_ms=rules.grace_ms,
            waits_for=job.requirement.shown if may_wait else "",
        )

    def _move(self, job: Job, attempt_id: AttemptId, cell: int) -> r.Move:
        return r.Move(
            job.job_id,
            job.named,
            attempt_id,
            cell,
            self._instance_id,
            self.terms.claim_ms,
            ended=job.left,
            preempted=job.left is not None and not job.left.counts,
            total_ms=self.terms.total_ms if job.is_batch else None,
        )

    def _moved(
        self, job: Job, answer: object, attempt_id: AttemptId, cell: int, sent: float
    ) -> PlaceAnswer | None:
        """Take in what the shard says to a move; None: its record names the new attempt."""
        if isinstance(answer, r.MovedOn):
            job.named, job.named_cell = attempt_id, cell
            job.attempt_id = attempt_id
            job.named_idle = False
            job.left = None
            job.claimed = sent
            return None
        if isinstance(answer, BaseException):
            if isinstance(answer, DependencyDown):
                job.maybe_named += (attempt_id,)
                return DOWN
            raise answer
        if isinstance(answer, r.HasEnded):
            return PlaceAnswer(Placing.TAKEN, self.foreign(answer.job))
        if isinstance(answer, r.NotCurrent):
            stored = answer.job
            if stored.instance_id == self._instance_id or stored.attempt_id in job.maybe_named:
                # An earlier move whose answer was lost, or a record that lost a move: go on there.
                job.named = answer.job.attempt_id
                job.named_cell = answer.job.cell
                job.left = None
                return PlaceAnswer(Placing.GONE)
            return PlaceAnswer(Placing.TAKEN, self.foreign(answer.job))
        return PlaceAnswer(Placing.FORGOTTEN)

    def _past(self, job: Job, outcome: Outcome, error: ErrorInfo | None, *, counts: bool) -> None:
        """The current attempt is over and the job is not: it has none now."""
        past = job.past
        if past is None:
            past = job.past = []
        job.left = closed_attempt(job, outcome, error, counts)
        past.append(job.left)
        if not counts:
            job.used -= 1
        job.attempt_id = AttemptId("")
        job.seat = None
        job.step = Step.NONE

    async def _is_over_limit(self, job: Job, job_id: JobId) -> bool:
        """Count the job against its tenant's limit; one too many is opened, and turned away."""
        tenants = self.tenants
        if tenants is None or not tenants.limited:
            return False
        refused = await tenants.refusal(job.spec.tenant, job_id)
        if isinstance(refused, DependencyDown):
            raise refused
        if isinstance(refused, RateLimited):
            job.refusal = refused
            job.stop = Stop(Outcome.FAILED, as_info(refused))
            job.cells = ()
            return True
        return False

    def _background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # type: ignore[arg-type]
        task.add_done_callback(self._noticed)
        return task

    def _noticed(self, task: asyncio.Task[Any]) -> None:
        """Its answer, or why there is none, is for the task that asked, which may be gone."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closed:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, DependencyDown):
            log.error("dispatch_task_failed", error=repr(error), exc_info=error)


def freed_of(freed: r.Freed) -> Freed:
    """What came free, as the driver is told."""
    return Freed(freed.slots, freed.inherited, () if freed.wake is None else (freed.wake,))


def record_of(stored: r.StoredJob, attempt: r.StoredAttempt | None = None) -> JobRecord:
    """A stored job as callers are told of it; with the attempt that holds a slot for it, if any."""
    attempts = stored.past
    state, current = JobState.CREATED, None
    if stored.outcome is not None:
        state = JobState.RELEASED if stored.released else JobState.FINISHED
        if stored.node_id is not None:
            attempts += (
                PastAttempt(
                    stored.attempt_id,
                    stored.cell,
                    stored.node_id,
                    outcome=stored.outcome,
                    error=stored.error,
                    times=stored.times,
                ),
            )
    elif attempt is not None and attempt.state is not AttemptState.FINISHED:
        state, current = JobState.DISPATCHED, stored.attempt_id
        attempts += (
            PastAttempt(stored.attempt_id, stored.cell, attempt.node_id, times=attempt.times),
        )
    return JobRecord(
        job_id=stored.job_id,
        spec=stored.spec,
        state=state,
        claimed_by=stored.instance_id,
        created_at_ms=stored.created_ms,
        claim_until_ms=stored.claim_until_ms,
        total_until_ms=stored.total_until_ms,
        attempts=attempts,
        current=current,
        outcome=stored.outcome,
        error=stored.error,
        output=stored.output,
        finished_at_ms=stored.times.finished_ms if stored.outcome is not None else 0,
        preemptions=stored.preemptions,
    )


def _tell(opened: asyncio.Future[tuple[Any, int]], job: Job, answer: Any, at_ms: int) -> None:
    if not opened.done():
        opened.set_result((answer, at_ms))


def _let_go(job: Job) -> None:
    """The job has its end, and holds no slot and no input any more."""
    job.step = Step.NONE
    job.input = None
    if job.seat is not None:
        # Its own seat: as long as each refers to the other, only the collector frees them.
        job.seat.held.clear()


async def _answer_of(asked: asyncio.Task[T] | None) -> T | DependencyDown | None:
    if asked is None:
        return None
    try:
        return await asked
    except DependencyDown as error:
        return error


def _not_ours(running: RunningJob, left: Leaving, driver: InstanceId) -> Job | None:
    return None


def _code(error: ErrorInfo | None) -> str:
    return error.code if error is not None else "INTERNAL_ERROR"
