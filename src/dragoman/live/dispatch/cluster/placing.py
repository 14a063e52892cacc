"""A job of this instance gets its place among several: its request, and a slot.

The shard decides what a job is, the cell decides who holds a slot (`dragoman.live.shared`). Where
a step needs both, both are asked at the same time, and the answers are put together here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from random import Random
from typing import Any

from dragoman.errors import DependencyDown, RateLimited
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, new_attempt_id, new_job_id_for
from dragoman.live.dispatch.cluster.asks import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    SharedAsks,
)
from dragoman.live.dispatch.cluster.stored_jobs import foreign
from dragoman.live.dispatch.driver import STOPPED
from dragoman.live.dispatch.job import Job, Leaving, Seat, Step, Stop, leave_attempt, times_of
from dragoman.live.dispatch.job_ledger import (
    FULL,
    FULL_BUT_HEADROOM,
    PLACED,
    AfterPlace,
    AfterPreempt,
    PlaceAnswer,
    Placing,
    PreemptedAttempt,
)
from dragoman.live.dispatch.refusals import as_info
from dragoman.live.dispatch.tenants import TenantJobs
from dragoman.live.ledger import Owner
from dragoman.live.protocol import AttemptState, ErrorInfo, JobClass, Outcome, RunningJob
from dragoman.live.shared import records as r
from dragoman.observability import get_logger

log = get_logger("dragoman.dispatch")

Work = Callable[[], Coroutine[Any, Any, PlaceAnswer]]

NO_CELL = 0
"""Named in a record where no slot was asked for: no cell holds the attempt that goes with it."""

DOWN = PlaceAnswer(Placing.DOWN)
_PATH = "allocation"
_AGAIN = frozenset({Placing.DOWN, Placing.GONE})
PREEMPTED = ErrorInfo("PREEMPTED", "The slot was needed for live work.")


SlotAnswer = r.Granted | r.Full | r.Gone


class _Named:
    """A job that is opened with its utterance, while a slot is asked for at the same time."""

    __slots__ = ("asked", "at_ms", "got", "job", "missing", "new", "opened", "sent", "then", "told")

    def __init__(self, job: Job, new: r.NewJob, then: AfterPlace, sent: float) -> None:
        self.job = job
        self.new = new
        self.then = then
        self.sent = sent
        self.missing = 2
        """How many answers have not come."""
        self.opened: Any = None
        self.at_ms = 0
        self.asked = False
        """Whether a slot was asked for."""
        self.got: SlotAnswer | Exception | None = None
        self.told = False


def _down(error: DependencyDown) -> PlaceAnswer:
    """The ledger did not do it, and said why."""
    log.warning_limited("job_not_stored", key="ledger", every_seconds=10, error=error.message)
    return PlaceAnswer(Placing.DOWN, error=error)


def _not_ours(running: RunningJob, left: Leaving, driver: InstanceId) -> Job | None:
    return None


class JobPlacer:
    """Opens requests and holds slots for the jobs of this instance."""

    def __init__(self, asks: SharedAsks, instance_id: InstanceId, random: Random) -> None:
        self._asks = asks
        self._shared = asks.shared
        self._terms = asks.terms
        self._instance_id = instance_id
        self._random = random
        self.tenants: TenantJobs | None = None
        """Counts over all instances, where tenants are limited."""
        self.driven: Mapping[JobId, Job] = {}
        """The jobs that this instance drives."""
        self.opening: set[JobId] = set()
        """Jobs whose first look for a slot is under way: they may be stored, and are not driven
        yet."""
        self.knows: Callable[[int, int, NodeId], bool] = lambda cell, index, node_id: True
        """Whether a seat is the node's that it was taken for: seats change hands unheard."""
        self.near: Callable[[int], int] | None = None
        """Names the seats of a cell that are this instance's own, which come first."""
        self.is_over: Callable[[AttemptId], bool] = lambda attempt_id: False
        """Whether an attempt was won back before this instance heard that it has a slot."""
        self.took: Callable[[str, float], None] = lambda path, seconds: None
        """Told how long a path took."""
        self.gave_way: Callable[[RunningJob, Leaving, InstanceId], Job | None] = _not_ours
        """Told of a batch attempt that gives way; answers its job, if this instance drives it."""

    def place(self, job: Job, now: float, then: AfterPlace) -> None:
        if job.job_id:
            work = partial(self._search, job)
            self._asks.spawn(self._place(job, then, work, now, again=True))
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
        self.opening.add(job_id)
        limited = self.tenants is not None and self.tenants.limited
        if writer is not None and spec.request_id == f"{writer.session_id}/{spec.utterance_index}":
            named = _Named(job, new, then, now)
            writer.claim(job, new, partial(self._named_opened, named))
            if limited:
                self._asks.spawn(self._ask_within_limit(named))
            else:
                self._ask_for_named(named)
            return
        noted = None
        if writer is not None:
            noted = writer.elsewhere(spec.utterance_index or 0, job.target_key)
        own = partial(self._open_own, job, new, noted, limited)
        self._asks.spawn(self._place_new(job_id, job, then, own, now))

    # --- a job that is opened with its utterance ------------------------------------------------

    async def _ask_within_limit(self, named: _Named) -> None:
        try:
            over_limit = await self._is_over_limit(named.job, named.new.job_id)
        except DependencyDown as error:
            self._tell(named, _down(error))
            return
        if over_limit:
            self._named_granted(named, None, None)
        else:
            self._ask_for_named(named)

    def _ask_for_named(self, named: _Named) -> None:
        """Ask for the job's slot, at the same time as its utterance is opened."""
        job, new = named.job, named.new
        if not job.cells:
            self._named_granted(named, None, None)
            return
        named.asked = True
        ask = self._ask(job, job.cells[0], new.attempt_id, new.job_id)
        self._asks.hot.reserve(ask, partial(self._named_granted, named))

    def _named_opened(self, named: _Named, job: Job, answer: Any, at_ms: int) -> None:
        named.opened, named.at_ms = answer, at_ms
        self._named_heard(named)

    def _named_granted(
        self, named: _Named, got: SlotAnswer | None, error: Exception | None
    ) -> None:
        named.got = got if error is None else error
        self._named_heard(named)

    def _named_heard(self, named: _Named) -> None:
        """One of the two answers is here; with the second the job is placed, in most cases."""
        named.missing -= 1
        if named.missing or self._asks.closed:
            return  # The instance stops; a session's utterances go on at the next one.
        job, got = named.job, named.got
        found = self._opened(job, named.new, named.opened, named.at_ms, named.sent)
        if found is not None:
            self._drop_unused(got, named.new)
        elif not named.asked:
            found = FULL
        elif isinstance(got, r.Granted):
            found = self._hold(job, got, named.sent)
        if found is None:
            self._asks.spawn(self._go_on_with(named))
        else:
            self._tell(named, found)

    async def _go_on_with(self, named: _Named) -> None:
        """The first cell had no slot for the job, or none that is sure: look further."""
        job, got = named.job, named.got
        if isinstance(got, Exception) and not isinstance(got, DependencyDown):
            raise got
        work = partial(self._search_after, job, got)
        await self._place_new(named.new.job_id, job, named.then, work, named.sent)

    def _tell(self, named: _Named, answer: PlaceAnswer) -> None:
        if named.told:
            return
        named.told = True
        self.opening.discard(named.new.job_id)
        now = self._asks.clock.monotonic()
        self.took(_PATH, now - named.sent)
        named.then(named.job, answer, now)

    # --- looking for a slot ---------------------------------------------------------------------

    async def _place_new(
        self, job_id: JobId, job: Job, then: AfterPlace, work: Work, asked: float
    ) -> None:
        """Place a job that may be stored long before it is driven, if the ledger answers late."""
        try:
            await self._place(job, then, work, asked, again=False)
        finally:
            self.opening.discard(job_id)

    async def _place(
        self, job: Job, then: AfterPlace, work: Work, asked: float, *, again: bool
    ) -> None:
        try:
            answer = await self._answer(job, work, again)
        except asyncio.CancelledError:
            # The instance stops; a session's utterances go on at the next one.
            if job.owner is None and job.on_submitted is not None:
                stopped = PlaceAnswer(Placing.DOWN, error=DependencyDown(STOPPED))
                then(job, stopped, self._asks.clock.monotonic())
            raise
        now = self._asks.clock.monotonic()
        self.took(_PATH, now - asked)
        then(job, answer, now)

    async def _answer(self, job: Job, work: Work, again: bool) -> PlaceAnswer:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                if again:
                    # Those that look again take turns: there may be thousands, woken at once.
                    async with self._asks.turns:
                        answer = await work()
                else:
                    answer = await work()
            except DependencyDown as error:
                answer = _down(error)
            if job.stop is not None or not job.job_id or answer.kind not in _AGAIN:
                break
            # The request is this job's, and so it goes on, whatever the ledger does.
            if answer.kind is Placing.DOWN:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            job.attempt_id = new_attempt_id(self._random)
            work, again = partial(self._search, job), True
        # One that is to stop is stopped where no slot is found.
        return FULL if answer.kind in _AGAIN and job.job_id else answer

    async def _open_own(
        self,
        job: Job,
        new: r.NewJob,
        noted: Callable[[JobId | None], None] | None,
        limited: bool,
    ) -> PlaceAnswer:
        """Open a request that the client named, then look for its slot."""
        sent = self._asks.clock.monotonic()
        opening = r.UtteranceOpening(
            (new,), self._instance_id, self._terms.claim_ms, self._terms.keep
        )
        job_id: JobId | None = None
        try:
            if limited:
                await self._is_over_limit(job, new.job_id)
            ask = partial(self._shared.open, opening)
            # A session's utterance has no caller who could send it again.
            answer = await (self._asks.insist(ask) if job.owner is not None else ask())
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
            sent = self._asks.clock.monotonic()
            if job.named_idle and cell == job.named_cell:
                job.attempt_id = job.named
                named = True
            if index or not named:
                attempt_id = new_attempt_id(self._random) if index else job.attempt_id
                moved, got = await asyncio.gather(
                    self._shared.move(self._move(job, attempt_id, cell)),
                    self._shared.reserve(self._ask(job, (cell, mask), attempt_id, job.job_id)),
                    return_exceptions=True,
                )
                known = self._moved(job, moved, attempt_id, cell, sent)
                if known is not None:
                    self._asks.give_back(cell, attempt_id)
                    return known
                if isinstance(got, BaseException):
                    self._asks.give_back(cell, attempt_id)
                    raise got
            else:
                job.named_idle = False
                try:
                    got = await self._shared.reserve(
                        self._ask(job, (cell, mask), job.attempt_id, job.job_id)
                    )
                except DependencyDown:
                    self._asks.give_back(cell, job.attempt_id)
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

    async def _search_after(self, job: Job, got: SlotAnswer | Exception | None) -> PlaceAnswer:
        """Go on after the answer of the first cell; the others are asked where it had no slot."""
        if not isinstance(got, r.Full):
            # The slot of an answer that was not sure was given back.
            if isinstance(got, DependencyDown):
                self._asks.give_back(job.named_cell, job.attempt_id)
            if not isinstance(got, r.Granted):
                job.attempt_id = new_attempt_id(self._random)
            return await self._search(job)
        job.named_idle = True
        answer = await self._search(job, skip=1)
        if answer is FULL:
            if got.cold:
                return PlaceAnswer(Placing.COLD, cold=(job.cells[0][0],), headroom=got.headroom)
            return FULL_BUT_HEADROOM if got.headroom else FULL
        return answer

    def _hold(self, job: Job, got: r.Granted, sent: float) -> PlaceAnswer | None:
        """A slot is held; None: it is not sure any more, and is given back.

        It was granted too long ago, or another job took it meanwhile.
        """
        now = self._asks.clock.monotonic()
        since_ms = (now - min(sent, job.claimed)) * 1000
        is_sure = since_ms < min(self._terms.claim_ms, self._terms.ack_ms)
        is_sure = is_sure and not self.is_over(job.attempt_id)
        if is_sure and not self.knows(got.cell, got.index, got.node_id):
            # The seat is another node's by now, which may not be fit.
            self._asks.give_back(got.cell, job.attempt_id)
            return FULL
        if not is_sure:
            self._asks.give_back(got.cell, job.attempt_id)
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
        job.dispatched_ms = self._asks.now_ms(now)
        job.accepted_ms = job.running_ms = job.finished_ms = 0
        job.used += 1

    # --- making room ----------------------------------------------------------------------------

    def preempt(self, job: Job, now: float, then: AfterPreempt) -> None:
        self._asks.spawn(self._preempt(job, then))

    async def _preempt(self, job: Job, then: AfterPreempt) -> None:
        try:
            gave_way = await self._find_victim(job)
        except DependencyDown:
            gave_way = None
        then(job, gave_way, self._asks.clock.monotonic())

    async def _find_victim(self, job: Job) -> PreemptedAttempt | PlaceAnswer | None:
        for cell, mask in job.cells:
            if job.named_idle and cell == job.named_cell:
                attempt_id = job.named
            else:
                attempt_id = new_attempt_id(self._random)
                sent = self._asks.clock.monotonic()
                moved = await self._shared.move(self._move(job, attempt_id, cell))
                if self._moved(job, moved, attempt_id, cell, sent) is not None:
                    return None
            job.named_idle = False
            ask = self._ask(job, (cell, mask), attempt_id, job.job_id, waits=False)
            asked = self._asks.clock.monotonic()
            try:
                answer = await self._shared.preempt(ask)
            except DependencyDown:
                self._asks.give_back(cell, attempt_id)
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
                    self.preempted(victim, self._asks.clock.monotonic())
                return PreemptedAttempt(victim, left)
            job.named_idle = isinstance(answer, r.NoVictim)
        return None

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
        job.finished_ms = self._asks.now_ms(now)
        leave_attempt(job, Outcome.FAILED, PREEMPTED, counts=False)
        job.preemptions += 1
        return left

    def renounce(self, job: Job) -> None:
        self._asks.give_back(job.named_cell, job.attempt_id)

    def inherit(
        self, job: Job, attempt_id: AttemptId, then: Callable[[Job, AttemptId, float], None]
    ) -> None:
        """A slot passed to the job, which waits for it: find out which."""
        self._asks.spawn(self._inherit(job, attempt_id, then))

    async def _inherit(
        self, job: Job, attempt_id: AttemptId, then: Callable[[Job, AttemptId, float], None]
    ) -> None:
        cell = job.named_cell
        try:
            held = await self._shared.look(cell, attempt_id, tombstone_ms=self._terms.tombstone_ms)
        except DependencyDown:
            return  # It is looked for elsewhere when the time for it is up.
        if job.attempt_id != attempt_id or job.is_out or job.outcome is not None:
            return
        if job.in_flight or self.is_over(attempt_id):
            return  # It ends, and gives the slot back; or the slot was won back.
        if isinstance(held, r.StoredAttempt) and held.state is AttemptState.DISPATCHED:
            now = self._asks.clock.monotonic()
            self.hold(job, held.node_id, cell, 0, held.owner, now)
            then(job, attempt_id, now)

    # --- inside ---------------------------------------------------------------------------------

    def _drop_unused(self, granted: object, new: r.NewJob) -> None:
        if isinstance(granted, r.Granted | DependencyDown):
            self._asks.give_back(new.cell, new.attempt_id)

    def _ask(
        self,
        job: Job,
        mask: tuple[int, int],
        attempt_id: AttemptId,
        job_id: JobId,
        *,
        waits: bool = True,
    ) -> r.SlotAsk:
        terms, rules = self._terms, self._terms.slots
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
            near=self.near(mask[0]) if self.near is not None else 0,
            waits_for=job.requirement.shown if may_wait else "",
        )

    def _move(self, job: Job, attempt_id: AttemptId, cell: int) -> r.Move:
        return r.Move(
            job.job_id,
            job.named,
            attempt_id,
            cell,
            self._instance_id,
            self._terms.claim_ms,
            ended=job.left,
            preempted=job.left is not None and not job.left.counts,
            total_ms=self._terms.total_ms if job.is_batch else None,
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
                return _down(answer)
            raise answer
        if isinstance(answer, r.HasEnded):
            return PlaceAnswer(Placing.TAKEN, foreign(answer.job))
        if isinstance(answer, r.NotCurrent):
            stored = answer.job
            if stored.instance_id == self._instance_id or stored.attempt_id in job.maybe_named:
                # An earlier move whose answer was lost, or a record that lost a move: go on there.
                job.named = answer.job.attempt_id
                job.named_cell = answer.job.cell
                job.left = None
                return PlaceAnswer(Placing.GONE)
            return PlaceAnswer(Placing.TAKEN, foreign(answer.job))
        return PlaceAnswer(Placing.FORGOTTEN)

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

    def known(self, stored: r.StoredJob) -> Job:
        """The job that is driven here, or as it is stored."""
        return self.driven.get(stored.job_id) or foreign(stored)
