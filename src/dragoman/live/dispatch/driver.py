"""A job from its first look for a slot to its end.

Everything here is synchronous. The ledger answers through `_placed` and `_finished`; while it
works on a job, the job is `in_flight`, and whatever else happens to it is only noted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Set
from math import inf
from random import Random
from typing import Protocol

import msgspec

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, TenantId
from dragoman.live.budget import ByteBudget
from dragoman.live.dispatch.canary import Canaries, forgiven
from dragoman.live.dispatch.cells import NOTHING
from dragoman.live.dispatch.explain import Explanations
from dragoman.live.dispatch.job import (
    ACCEPTED,
    BATCH,
    DISPATCHED,
    LIVE,
    NOT_CUT,
    NOT_OUT,
    Job,
    Leaving,
    Progress,
    Stop,
    assignment_of,
    forget_waiters,
    leave_canary,
)
from dragoman.live.dispatch.job_ledger import (
    ENDED,
    PLACED,
    Finishing,
    JobLedger,
    PlaceAnswer,
    Placing,
    PreemptedAttempt,
)
from dragoman.live.dispatch.pending import PendingQueue
from dragoman.live.dispatch.ports import Glossary, NodePort
from dragoman.live.dispatch.refusals import as_info, refusal, with_job
from dragoman.live.dispatch.selection import Selector
from dragoman.live.dispatch.telemetry import DispatchTelemetry, progressed
from dragoman.live.dispatch.tenants import TenantJobs
from dragoman.live.dispatch.timeouts import Timeouts
from dragoman.live.ledger import Ending, Freed, Outlook, Owner
from dragoman.live.protocol import (
    ErrorInfo,
    GlossaryTerm,
    JobAssign,
    JobCancel,
    JobResult,
    Mode,
    NamedServices,
    Outcome,
    same_language,
)
from dragoman.observability import get_logger

log = get_logger("dragoman.dispatch")

NO_ACK = ErrorInfo("JOB_TIMEOUT", "The node did not acknowledge the job in time.")
RAN_TOO_LONG = ErrorInfo("JOB_TIMEOUT", "The node worked on the job for too long.")
OUT_OF_TIME = ErrorInfo("JOB_TIMEOUT", "The job's total time is up.")
UNREACHABLE = ErrorInfo("NODE_UNAVAILABLE", "The node's connection was gone before it was told.")
LOST = ErrorInfo("NODE_UNAVAILABLE", "The node that carried the attempt is gone.")
PREEMPTED = ErrorInfo("PREEMPTED", "The slot was needed for live work.")
FORGOTTEN = ErrorInfo(
    "SCHEDULER_DEPENDENCY_DOWN", "The ledger lost its memory of the job; send it again."
)
CANCELLED = ErrorInfo("JOB_CANCELLED", "The job was cancelled.", retryable=False)


VICTIM_SECONDS = 0.5
"""A job that waits looks for a batch attempt that may give way no more often than this."""

_DOWN_RETRY_MS = 1_000
_NOT_REACHED = "The scheduler cannot reach Redis; send the request again."
STOPPED = "The server stopped before a node was found; send the request again."

_GIVES_UP = frozenset((Placing.EXISTING, Placing.CONFLICT, Placing.DOWN, Placing.ELSEWHERE))
"""Answers after which a new job looks for no slot: another stands for it, or none does."""

_FAIR_SHARE = 0.5
"""A node that had less than this part of its time cannot be blamed for being late."""


class Nodes(NodePort, Protocol):
    """Reaches the nodes of this instance."""

    def assign(self, node_id: NodeId, owner: Owner, message: JobAssign) -> bool:
        """Give the node an attempt over this very connection; False when it is gone."""
        ...

    def own_cells(self) -> Set[int]:
        """The cells that have nodes of this instance."""
        ...

    def was_late(self, node_id: NodeId, owner: Owner) -> None:
        """The node let the time for an attempt pass: that counts as a failure of it."""
        ...


class DriverTerms(msgspec.Struct, frozen=True):
    """How long things may take, and how often they are tried; from the settings."""

    ack_seconds: float
    run_seconds: float
    total_seconds: float
    grace_seconds: float
    """How long a node has to answer a cancel."""
    max_attempts: int
    pending_seconds: float
    pending_per_pair: int


class JobDriver:
    """Drives the jobs of this instance."""

    def __init__(
        self,
        *,
        ledger: JobLedger,
        selector: Selector,
        canaries: Canaries,
        nodes: Nodes,
        telemetry: DispatchTelemetry,
        explanations: Explanations,
        tenants: TenantJobs,
        budget: ByteBudget,
        terms: DriverTerms,
        clock: Clock,
        random: Random,
        slow: Callable[[str, float], None],
    ) -> None:
        """slow is told how long a look for a slot took."""
        self._ledger = ledger
        self._selector = selector
        self._canaries = canaries
        self._has_canaries = bool(canaries)
        self._nodes = nodes
        self._telemetry = telemetry
        self._tally = telemetry.tally
        self._latency = telemetry.latency
        self._explanations = explanations
        self._tenants = tenants
        self._budget = budget
        self._terms = terms
        self._clock = clock
        self._random = random
        self._slow = slow
        self.on_success: Callable[[Job], None] | None = None
        """Told of a job that its node has done, while its input is still there."""
        self.count_usage: Callable[[Job, JobResult, float], None] | None = None
        """Told of the same, with what the node sent back and when."""
        self.glossaries: Mapping[TenantId, Glossary] = {}
        """The words of tenants that have some."""
        self.jobs: dict[JobId, Job] = {}
        """The jobs of this instance that have not ended."""
        self.attempts: dict[AttemptId, Job] = {}
        """Those whose node was told."""
        self.idle = asyncio.Event()
        self.idle.set()
        self.pending = PendingQueue(
            self.look,
            pending_seconds=terms.pending_seconds,
            pending_per_pair=terms.pending_per_pair,
            clock=clock,
        )
        self._timeouts = Timeouts(self.attempts, self.jobs, self._due, terms.ack_seconds, clock)
        self.on_freed: Callable[[Freed], None] | None = None
        """Takes slots that came free to the instances that wait for them; None: there is one."""
        self.cold: Callable[[], Collection[int]] = tuple
        """Names the cells that are known to have lost their memory."""
        self.watch: Callable[[Job], Job] | None = None
        """Tells the waiters of a job that another instance drives of its end; None: there is no
        other instance."""
        self._after = {
            Placing.FULL: self._full,
            Placing.EXISTING: self._existing,
            Placing.CONFLICT: self._conflict,
            Placing.COLD: self._cold,
            Placing.DOWN: self._down,
            Placing.ELSEWHERE: self._elsewhere,
            Placing.TAKEN: self._taken,
            Placing.FORGOTTEN: self._lost_by_ledger,
        }

    # --- looking for a slot ---------------------------------------------------------------------

    def submit(self, job: Job, now: float) -> None:
        """See a new job to its end. `job.on_submitted` tells what became of the request."""
        if self._has_canaries:
            self._canaries.draw(job)
        if job.stop is not None or (self.pending.count and self.pending.has_line(job)):
            # To be refused, or to stand behind those that wait for the same: no slot is asked for.
            job.cells = ()
            job.wakes = self.pending.wakes
            self._place(job, now)
        else:
            self.look(job, now)

    def look(self, job: Job, now: float) -> None:
        """Look for a slot for a job that has none."""
        if job.in_flight or job.outcome is not None or job.step or job.heir_until != inf:
            return  # A wake-up that came meanwhile is seen when the answer is `full`.
        job.wakes = self.pending.wakes
        if job.search is not None:
            job.search = None
        if not self._selector.aim(job):
            job.decision = None
            search = job.search = self._selector.search(job, now)
            job.cells = next(search.rounds, ())
        self._place(job, now)

    def _place(self, job: Job, now: float) -> None:
        job.in_flight = True
        # As `new_attempt_id` makes it.
        job.attempt_id = AttemptId("a-" + self._random.getrandbits(96).to_bytes(12).hex())
        self._ledger.place(job, now, self._placed)

    def _placed(self, job: Job, answer: PlaceAnswer, now: float) -> None:
        """The ledger has answered. This runs once for each `place`, and never raises."""
        job.in_flight = False
        try:
            if not job.entered and job.job_id:
                self._enter(job)
            if answer is PLACED or answer.kind is Placing.PLACED:
                self._tell(job, answer, now)
            else:
                self._after[answer.kind](job, answer, now)
                if answer.kind in _GIVES_UP and not job.entered:
                    forget_waiters(job)
            if job.was_due:
                self._look_again(job, now)
        except Exception as error:
            self._failed(job, error, now)

    # --- the answers of `place` -----------------------------------------------------------------

    def _tell(self, job: Job, answer: PlaceAnswer, now: float) -> None:
        """A slot is held: tell its node."""
        seat = job.seat
        assert seat is not None, "a placed job has a seat"
        if job.stop is not None:
            freed = self._ledger.drop(job, job.stop.error, now)
            self._end(job, job.stop, now)
            self.freed(freed)
            return
        if seat.held.get(job.attempt_id) is not job or seat.owner.epoch != job.epoch:
            # Its node was lost, or has another connection, before the answer came.
            self._not_told(job, seat.node_id, now)
            return
        spec, ack_seconds = job.spec, self._terms.ack_seconds
        if spec.job_class is BATCH:
            job.total_until = now + self._terms.total_seconds
        job.dispatched = now
        job.shown = DISPATCHED
        self.attempts[job.attempt_id] = job
        given = job.input
        assert given is not None, "a job that has not ended has its input"
        services: NamedServices | None = None
        if job.canary is not None and job.search is not None and job.search.is_for_canary:
            job.on_canary = True
            services = job.canary.services
        glossary: tuple[GlossaryTerm, ...] = ()
        if self.glossaries and spec.tenant in self.glossaries:
            glossary = self.glossaries[spec.tenant].terms(job.requirement.written, given.text)
        traceparent = None
        if job.trace is not None:
            traceparent = job.trace.traceparent
            job.trace.event("reserved", node_id=seat.node_id, attempt_id=job.attempt_id)
        left_ms = int((job.total_until - now) * 1000)
        message = assignment_of(
            job.job_id,
            spec,
            given,
            job.attempt_id,
            left_ms if left_ms > 0 else 0,
            services,
            glossary,
            job.context,
            traceparent,
        )
        decision = job.decision
        if decision is not None and decision.left_none_out:
            decision.chosen = seat.node_id
            self._explanations.chose(job.job_id, decision)
            job.decision = None
        else:
            self._explain(job, seat.cell, seat.node_id)
        if not self._nodes.assign(seat.node_id, seat.owner, message):
            self._not_told(job, seat.node_id, now)
            return
        if job.waiting:
            self.pending.served(job)
        if job.pending_until != inf:
            job.pending_until = inf
        route = job.route
        if route is not None:
            route.last, route.last_at = seat.node_id, now
            if route.affinity_node is not None or spec.cut is not NOT_CUT:
                self._selector.sentence_goes_on(job, route, seat.node_id, now)
        self._latency(now - job.started)
        if job.watched or job.on_progress is not None or job.trace is not None:
            progressed(job, Progress.DISPATCHED)
        self._timeouts.dispatched(job.attempt_id, now)
        if job.total_until < now + ack_seconds:
            self._timeouts.plan(job, now)
        if job.on_submitted is not None:
            self._submitted(job, None)
        if job.on_placed is not None:
            _call_all(job)

    def _full(self, job: Job, answer: PlaceAnswer, now: float) -> None:
        """No candidate had a slot: look further, then make room, wait, or refuse."""
        if job.stop is not None:
            self._turn_away(job, job.stop, now)
            return
        if not job.cells and job.search is None and self.pending.join(job, None, now):
            self._waits(job, now)
            return
        # Where its line is full, the job is refused unless a slot is free now.
        search = job.search
        if search is None:
            search = job.search = self._selector.search(job, now)
            cells = next(search.rounds, None)
            if cells is not None and cells == job.cells:
                # The aim has asked for these.
                search.full(cells, headroom=answer.headroom)
                cells = next(search.rounds, None)
        else:
            search.full(job.cells, headroom=answer.headroom)
            cells = next(search.rounds, None)
        if cells is not None:
            job.cells = cells
            self._place(job, now)
            return
        search.vain()
        self._explanations.searched(job.job_id, search)
        job.cells = tuple(search.asked.items())
        if (
            job.cells
            and job.spec.job_class is LIVE
            and not (job.waiting and now < job.no_victim_until)
        ):
            job.in_flight = True
            self._ledger.preempt(job, now, self._preempted)
        else:
            self._find_none(job, now)

    def _find_none(self, job: Job, now: float) -> None:
        """No slot is to be had: find out when there may be one, unless the job waits anyway."""
        if job.cells and not job.waiting:
            job.in_flight = True
            self._ledger.outlook_for(job, now, self._found_none)
        else:
            self._found_none(job, None, now)

    def _found_none(self, job: Job, outlook: Outlook | None, now: float) -> None:
        """There is no slot: wait, or refuse."""
        job.in_flight = False
        try:
            if job.stop is not None:
                self._turn_away(job, job.stop, now)
                return
            search, job.search = job.search, None
            assert search is not None, "a search found none"
            error = refusal(search, outlook, self.cold())
            self._telemetry.found_none(search.main, error)
            self._slow("allocation", self._clock.monotonic() - now)
            if self.pending.may_wait(job, error) and self.pending.join(job, error, now):
                self._waits(job, now)
            else:
                self._refuse(job, error, now)
            if job.was_due:
                self._look_again(job, now)
        except Exception as failed:
            self._failed(job, failed, now)

    def _existing(self, job: Job, answer: PlaceAnswer, now: float) -> None:
        """The request was made before: its job answers."""
        known = answer.other
        assert known is not None, "an existing request has its job"
        if self.watch is not None and not known.driven and known.outcome is None:
            known = self.watch(known)
        if job.owner is not None:
            job.owner.job_found(job, known, now)
            return
        self._attach(known, job)
        told, job.on_submitted = job.on_submitted, None
        if told is not None:
            told(known, None)

    def _conflict(self, job: Job, answer: PlaceAnswer, now: float) -> None:
        """The request_id is bound to another body."""
        known = answer.other
        assert known is not None, "a conflicting request has its job"
        error = errors.RequestConflict(
            f"request_id {job.spec.request_id} is bound to another request; "
            "send a new one, or the same body.",
            details={"job_id": known.job_id},
        )
        if job.owner is not None:
            job.owner.job_refused(job, error, now)
        else:
            self._submitted(job, error)

    def _cold(self, job: Job, answer: PlaceAnswer, now: float) -> None:
        """A cell lost its memory: its nodes are to say what they run."""
        self._nodes.report(answer.cold)
        self._full(job, answer, now)

    def _down(self, job: Job, answer: PlaceAnswer, now: float) -> None:
        """The ledger did not answer, and the request may or may not be bound to this job."""
        why = answer.error
        error = errors.DependencyDown(
            _NOT_REACHED if why is None else why.message,
            retry_after_ms=(why.retry_after_ms if why is not None else None) or _DOWN_RETRY_MS,
        )
        if job.owner is not None:
            job.owner.job_refused(job, error, now)
        else:
            self._submitted(job, error)

    def _elsewhere(self, job: Job, answer: PlaceAnswer, now: float) -> None:
        """The session goes on at another instance, and so does the utterance."""
        if job.owner is not None:
            job.owner.job_refused(job, errors.SessionClosed("The session went on elsewhere."), now)

    def _taken(self, job: Job, answer: PlaceAnswer, now: float) -> None:
        """Another instance drives the job, or ended it."""
        other = answer.other
        assert other is not None, "a job that was taken is stored"
        if other.outcome is None:
            self.hand_on(job, other.driver_instance)
            return

        def take() -> None:
            job.outcome, job.output, job.error = other.outcome, other.output, other.error
            job.finished_ms = other.finished_ms

        self.ended_elsewhere(job, take, now)

    def _lost_by_ledger(self, job: Job, answer: PlaceAnswer, now: float) -> None:
        self.forgotten(job, now)

    def _attach(self, known: Job, job: Job) -> None:
        """Who asked again hears of the job's end, too."""
        for on_end in job.on_end or ():
            self.expect(known, on_end)
        if known.outcome is None and (job.on_partial or job.on_progress):
            known.on_partial, known.on_progress = job.on_partial, job.on_progress

    def expect(self, job: Job, on_end: Callable[[Job], None]) -> None:
        """Call back when the job has ended; at once when it has."""
        if job.outcome is not None:
            on_end(job)
        elif job.on_end is None:
            job.on_end = [on_end]
        else:
            job.on_end.append(on_end)

    # --- making room, waiting, refusing ---------------------------------------------------------

    def _preempted(
        self, job: Job, gave_way: PreemptedAttempt | PlaceAnswer | None, now: float
    ) -> None:
        """A batch attempt gives way, or none may; or a slot came free meanwhile."""
        if isinstance(gave_way, PlaceAnswer):
            self._placed(job, gave_way, now)
            return
        job.in_flight = False
        try:
            if gave_way is None:
                job.no_victim_until = now + VICTIM_SECONDS
                if job.stop is not None:
                    self._turn_away(job, job.stop, now)
                else:
                    self._find_none(job, now)
                return
            self._tell_cancel(gave_way.left)
            self.gives_way(gave_way.victim, gave_way.left, now)
            if job.stop is not None:
                self._turn_away(job, job.stop, now)
                return
            job.search = None
            if job.waiting:
                self.pending.leave(job)
            job.heir_until = now + self._terms.grace_seconds
            self._timeouts.plan(job, now)
            self._submitted(job, None)
            if job.was_due:
                self._look_again(job, now)
        except Exception as failed:
            self._failed(job, failed, now)

    def gives_way(self, victim: Job | None, left: Leaving, now: float) -> None:
        """A batch attempt lost its slot to live work: its job goes on.

        No victim: its driver is another instance, or the ledger is at work on what its node said.
        """
        if victim is not None:
            self.attempts.pop(left.attempt_id, None)
            self._go_on(victim, left.seat.node_id, PREEMPTED, now, exclude=False)

    def inherited(self, job: Job, attempt_id: AttemptId, now: float) -> None:
        """The slot of a batch attempt passed to the job."""
        if job.heir_until != inf and job.attempt_id == attempt_id and job.is_out:
            job.heir_until = inf
            if job.in_flight:
                # It ends already: the slot is for others.
                self.freed(self._ledger.drop(job, UNREACHABLE, now))
                return
            self._placed(job, PlaceAnswer(Placing.PLACED), now)

    def _waits(self, job: Job, now: float) -> None:
        self._timeouts.plan(job, now)
        self._submitted(job, None)

    def _refuse(self, job: Job, error: errors.DragomanError, now: float) -> None:
        """End a job that no node takes; it keeps its record and its explanation."""
        with_job(error, job.job_id)
        self._telemetry.refused(job, error, now)
        if job.on_submitted is not None:
            _forget_submitter(job)
            job.refused = error
        self._end(job, Stop(Outcome.FAILED, as_info(error)), now)

    def _turn_away(self, job: Job, stop: Stop, now: float) -> None:
        """End a job that may not be tried; its caller is told by the refusal itself."""
        error = job.refusal
        if error is None:
            self._end(job, stop, now)
            return
        with_job(error, job.job_id)
        if job.on_submitted is not None:
            _forget_submitter(job)
            job.refused = error
        self._end(job, Stop(stop.outcome, as_info(error)), now)

    # --- an attempt is over ---------------------------------------------------------------------

    def finish(self, job: Job, ending: Ending, now: float) -> None:
        """The node says how the attempt ended."""
        if job.on_canary:
            ending = forgiven(ending)
        error = ending.error
        again = False
        if error is not None:
            again = error.retryable
        else:
            if self.on_success is not None:
                self.on_success(job)
            output = ending.output
            if output is not None:
                if output.text_translated is None and output.text_asr is None:
                    ending = _with_own_text(job, output)
                if self.count_usage is not None:
                    self.count_usage(job, output, now)
        job.in_flight = True
        self._ledger.finish(job, ending, again=again, now=now, then=self._finished)

    def _finished(self, job: Job, answer: Finishing, freed: Freed, now: float) -> None:
        """The ledger has answered. This runs once for each `finish`, and never raises."""
        job.in_flight = False
        try:
            if answer is ENDED:
                del self.attempts[job.attempt_id]
                self._ended(job, now)
            elif answer is Finishing.AGAIN:
                past = job.past
                assert past, "an attempt that is over is remembered"
                last = past[-1]
                self.attempts.pop(last.attempt_id, None)
                assert last.error is not None, "an attempt that is tried again failed"
                self._go_on(job, last.node_id, last.error, now)
            elif answer is Finishing.MOVED and not job.driven:
                self.attempts.pop(job.attempt_id, None)
                self.hand_on(job, job.driver_instance)
            if freed is not NOTHING and (self.pending.count or self.on_freed is not None):
                self.freed(freed)
            if job.was_due:
                self._look_again(job, now)
        except Exception as error:
            self._failed(job, error, now)

    def lost(self, job: Job, now: float) -> None:
        """The node no longer has the attempt; its slot is free already."""
        if job.in_flight or not job.is_out:
            return
        self.give_up(job, LOST, now)

    def give_up(self, job: Job, error: ErrorInfo, now: float) -> None:
        """Take the job from its node, and go on without it."""
        seat = job.seat
        assert seat is not None, "a job that is out has a seat"
        del self.attempts[job.attempt_id]
        left = self._ledger.leave(job, error, now)
        if left is not None:
            self._tell_cancel(left)
        self._go_on(job, seat.node_id, error, now)

    def stop(self, job: Job, stop: Stop, now: float) -> None:
        """End the job, whatever its attempt does."""
        if job.outcome is not None:
            return
        if job.in_flight:
            job.stop = stop
            return
        left: Leaving | None = None
        if job.is_out:
            del self.attempts[job.attempt_id]
            left = self._ledger.leave(job, stop.error, now, stop.outcome)
        self._end(job, stop, now)
        if left is not None:
            self._tell_cancel(left)

    def not_told(self, attempt_id: AttemptId) -> None:
        """The instance that the attempt's node is connected to surely was not reached."""
        job = self.attempts.get(attempt_id)
        if job is not None and not job.in_flight and job.seat is not None:
            self._not_told(job, job.seat.node_id, self.now())

    def _not_told(self, job: Job, node_id: NodeId, now: float) -> None:
        """The node was gone before it heard of the attempt."""
        self.attempts.pop(job.attempt_id, None)
        freed = self._ledger.drop(job, UNREACHABLE, now)
        self._go_on(job, node_id, UNREACHABLE, now)
        self.freed(freed)

    def _go_on(
        self, job: Job, node_id: NodeId, error: ErrorInfo, now: float, *, exclude: bool = True
    ) -> None:
        """The attempt is over without success: try another node, unless that was the last try."""
        job.run_until = inf
        if job.on_canary and error is PREEMPTED:
            job.on_canary = False  # The canary did not fail it.
        elif job.on_canary:
            leave_canary(job)
        if job.stop is not None:
            self._end(job, job.stop, now)
            return
        if error is not PREEMPTED:
            self._telemetry.attempt_failed(node_id, now)
        if not error.retryable:
            self._end(job, Stop(Outcome.FAILED, error), now)
            return
        if job.used >= self._terms.max_attempts:
            most = self._terms.max_attempts
            exhausted = ErrorInfo(
                code="ATTEMPTS_EXHAUSTED",
                message=f"All {most} attempts failed; the last one with {error.code}.",
                details={"last": error.code},
            )
            self._end(job, Stop(Outcome.FAILED, exhausted), now)
            return
        self._telemetry.failed_over(job, node_id, error.code)
        if exclude:
            job.excluded |= {node_id}
        if job.spec.job_class is BATCH:
            job.total_until = inf
        job.may_wait = True
        self.look(job, now)

    def _end(self, job: Job, stop: Stop, now: float) -> None:
        """Give a job that is not out its end."""
        if job.outcome is not None:
            return
        job.in_flight = True
        self._ledger.end(job, Ending(stop.outcome, error=stop.error), now, self._closed)

    def _closed(self, job: Job, answer: Finishing, freed: Freed, now: float) -> None:
        """The ledger has given the job its end, or another instance drives it."""
        job.in_flight = False
        try:
            if answer is ENDED:
                self._ended(job, now)
            else:
                self.hand_on(job, job.driver_instance)
        except Exception as error:
            self._failed(job, error, now)

    def _ended(self, job: Job, now: float) -> None:
        """The job has its end: every waiter is told, once."""
        if job.entered:
            job.entered = False
            del self.jobs[job.job_id]
            if self._tenants.limited:
                self._tenants.ended(job.spec.tenant, job.job_id)
            if job.spec.session_id is None:
                # Sessions count what they keep themselves.
                self._budget.change(-job.weight)
            if not self.jobs:
                self.idle.set()
        if job.waiting:
            self.pending.leave(job)
        if job.heir_until != inf:
            job.heir_until = inf
        self._telemetry.ended(job, now)
        if job.on_placed is not None:
            _call_all(job)
        owner = job.owner
        if owner is not None:
            job.owner = None
            owner.job_ended(job, now)
        waiting, refused = job.on_end, job.refused
        if waiting or refused or job.on_partial or job.on_progress or job.search or job.refusal:
            forget_waiters(job)
        for on_end in waiting or ():
            on_end(job)
        if job.on_submitted is not None:
            self._submitted(job, refused)

    # --- time -----------------------------------------------------------------------------------

    def _due(self, job: Job, now: float) -> None:
        """A time of the job may be up."""
        if job.in_flight or job.outcome is not None:
            if job.outcome is None and now >= job.total_until:
                job.stop = Stop(Outcome.FAILED, OUT_OF_TIME)
            job.was_due = True
            return
        if now >= job.total_until:
            if job.is_out:
                self._blame(job, now)
            self.stop(job, Stop(Outcome.FAILED, OUT_OF_TIME), now)
        elif job.is_out:
            self._attempt_due(job, now)
        elif now >= job.heir_until:
            self._heir_overdue(job, now)
        elif job.waiting and now >= job.pending_until:
            self.pending.leave(job)
            job.may_wait = False
            self.look(job, now)
        else:
            self._timeouts.plan(job, now)

    def _look_again(self, job: Job, now: float) -> None:
        """A time was up while the ledger worked on the job: look at it now."""
        job.was_due = False
        if job.outcome is None:
            self._timeouts.plan(job, now)

    def _attempt_due(self, job: Job, now: float) -> None:
        if not job.accepted_ms:
            if now >= job.dispatched + self._terms.ack_seconds:
                job.in_flight = True
                self._ledger.check_acknowledged(job, now, self._acknowledged)
            else:
                self._timeouts.plan(job, now)
            return
        accepted = job.dispatched + (job.accepted_ms - job.dispatched_ms) / 1000
        job.run_until = accepted + self._terms.run_seconds
        if job.on_canary:
            # There must be time left for another node.
            job.run_until = min(job.run_until, (accepted + job.total_until) / 2)
        if now >= job.run_until:
            self._blame(job, now)
            self.give_up(job, RAN_TOO_LONG, now)
        else:
            self._timeouts.plan(job, now)

    def _acknowledged(self, job: Job, acknowledged: bool, now: float) -> None:
        """The time for an acknowledgement is up: the ledger says whether there was one."""
        job.in_flight = False
        try:
            if job.stop is not None:
                self.stop(job, job.stop, now)
            elif acknowledged or job.accepted_ms:
                if not job.accepted_ms:
                    job.accepted_ms = job.dispatched_ms + int((now - job.dispatched) * 1000)
                    job.step = max(job.step, ACCEPTED)
                    job.acked = True
                self._attempt_due(job, now)
            else:
                self._blame(job, now)
                self.give_up(job, NO_ACK, now)
        except Exception as error:
            self._failed(job, error, now)

    def _blame(self, job: Job, now: float) -> None:
        """A time is up while the node has the job: count it against the node, if it had enough."""
        seat, terms = job.seat, self._terms
        assert seat is not None, "a job that is out has a seat"
        had_seconds, fair_seconds = now - job.dispatched, terms.ack_seconds
        if job.accepted_ms:
            had_seconds -= (job.accepted_ms - job.dispatched_ms) / 1000
            fair_seconds = terms.run_seconds
        if had_seconds >= _FAIR_SHARE * fair_seconds:
            self._nodes.was_late(seat.node_id, seat.owner)

    def _heir_overdue(self, job: Job, now: float) -> None:
        """The slot that the job was to get did not come in time."""
        job.heir_until = inf
        self._ledger.renounce(job)
        self.look(job, now)

    # --- slots ----------------------------------------------------------------------------------

    def freed(self, freed: Freed) -> None:
        """Slots came free: the heirs take theirs, the others are for those that wait."""
        if self.on_freed is not None:
            self.on_freed(freed)
            return
        for inherited in freed.inherited:
            job = self.jobs.get(inherited.job_id)
            if job is not None:
                self.inherited(job, inherited.attempt_id, self._clock.monotonic())
        if freed.slots:
            self.pending.wake(freed.slots)

    # --- whole lives ----------------------------------------------------------------------------

    def take_up(self, job: Job) -> None:
        """Drive a job whose instance fell silent."""
        self._enter(job)

    def goes_on(self, job: Job, now: float) -> None:
        """A node has an attempt of a job that was taken up."""
        job.dispatched = now
        job.run_until = inf
        job.shown = job.step
        self.attempts[job.attempt_id] = job
        self._timeouts.dispatched(job.attempt_id, now)
        self._timeouts.plan(job, now)

    def ended_elsewhere(self, job: Job, take: Callable[[], None], now: float) -> None:
        """Another instance gave the job its end, which take puts into it."""
        if job.outcome is not None or job.in_flight:
            return
        self.attempts.pop(job.attempt_id, None)
        take()
        job.step = NOT_OUT
        job.input = None
        self._ended(job, now)

    def forgotten(self, job: Job, now: float) -> None:
        """The ledger lost its memory of a job that no node has."""
        if job.outcome is not None or job.in_flight:
            return
        owner, job_input = job.owner, job.input
        is_wanted = owner is not None and job.stop is None
        if is_wanted:
            job.owner = None

        def take() -> None:
            job.outcome, job.error = Outcome.FAILED, FORGOTTEN

        self.ended_elsewhere(job, take, now)
        if is_wanted and owner is not None and job_input is not None:
            owner.job_forgotten(job, job_input, now)

    def hand_on(self, job: Job, driver: InstanceId) -> None:
        """Another instance drives the job; those who wait for it here hear of its end."""
        self.abandon(job)
        job.driven = False
        job.driver_instance = driver
        owner, job.owner, job.writer = job.owner, None, None
        if owner is not None:

            def ended(other: Job) -> None:
                # This instance may take the job up again, as another object.
                other.lane, other.weight = job.lane, job.weight
                owner.job_ended(other, self.now())

            job.on_end = [*(job.on_end or ()), ended]
            job.on_partial = lambda message: owner.job_partial(job, message)
        if job.on_submitted is not None:
            self._submitted(job, None)
        if self.watch is not None and job.on_end:
            self.watch(job)

    def now(self) -> float:
        return self._clock.monotonic()

    def abandon(self, job: Job) -> None:
        """Drive the job no more."""
        if job.entered:
            job.entered = False
            del self.jobs[job.job_id]
            if self._tenants.limited:
                self._tenants.abandoned(job.spec.tenant, job.job_id)
            if job.spec.session_id is None:
                self._budget.change(-job.weight)
        self.attempts.pop(job.attempt_id, None)
        if job.waiting:
            self.pending.leave(job)
        job.search = None
        if job.trace is not None:
            job.trace.end("ABANDONED")
        if not self.jobs:
            self.idle.set()

    def close(self) -> None:
        """Look at nothing any more; callers who were not told what became of their requests are."""
        self._timeouts.stop()
        self.pending.stop()
        for job in list(self.jobs.values()):
            self._submitted(
                job,
                errors.DependencyDown(STOPPED, retry_after_ms=_DOWN_RETRY_MS),
            )

    # --- inside ---------------------------------------------------------------------------------

    def _enter(self, job: Job) -> None:
        job.entered = True
        if not self.jobs:
            self.idle.clear()
        self.jobs[job.job_id] = job
        self._tally.created += 1
        if self._tenants.limited:
            self._tenants.entered(job.spec.tenant, job.job_id)
        if self._telemetry.tracing is not None:
            self._telemetry.entered(job)
        if job.spec.session_id is None:
            job.weight = job.kept_bytes
            self._budget.change(job.weight)

    def _submitted(self, job: Job, error: errors.DragomanError | None) -> None:
        told, job.on_submitted = job.on_submitted, None
        if told is not None:
            told(job, error)

    def _explain(self, job: Job, cell: int, node_id: NodeId) -> None:
        search, decision = job.search, job.decision
        if search is not None:
            search.placed(job.cells, cell, node_id)
            self._explanations.searched(job.job_id, search)
            for one in search.decisions:
                self._telemetry.chose(one)
            job.search = None
        elif decision is not None:
            decision.chosen = node_id
            self._explanations.chose(job.job_id, decision)
            self._telemetry.chose(decision)
            job.decision = None

    def _tell_cancel(self, left: Leaving) -> None:
        """Have the node stop an attempt, over the connection it has now."""
        seat = left.seat
        message = JobCancel(left.job_id, left.attempt_id, left.error.code)
        self._nodes.send(seat.node_id, seat.owner, message)

    def _failed(self, job: Job, error: Exception, now: float) -> None:
        """A step failed that must not: the job ends, and nothing else is disturbed."""
        log.exception("dispatch_step_failed", job_id=job.job_id, error=repr(error))
        internal = errors.InternalError(f"The scheduler failed on job {job.job_id}; see its log.")
        if job.on_submitted is not None:
            _forget_submitter(job)
            job.refused = internal
        if job.outcome is None:
            self.attempts.pop(job.attempt_id, None)
            left = self._ledger.leave(job, as_info(internal), now)
            if left is not None:
                self._tell_cancel(left)
            self._end(job, Stop(Outcome.FAILED, as_info(internal)), now)
        else:
            self._submitted(job, internal)


def _forget_submitter(job: Job) -> None:
    """Who submitted the job is told by the refusal itself; who found it meanwhile, by its end."""
    if job.on_end and job.submitter_waits:
        del job.on_end[0]


def _call_all(job: Job) -> None:
    """A node was told of the job, or none will be."""
    waiting, job.on_placed = job.on_placed, None
    for callback in waiting or ():
        callback()


def _with_own_text(job: Job, output: JobResult) -> Ending:
    """The end of a job whose node answered no text: a text in its own language is its translation.

    The node had nothing to do with the text, or only spoke it.
    """
    spec, given = job.spec, job.input
    if (
        given is None
        or given.text is None
        or spec.mode is not Mode.ONE_WAY
        or not same_language(spec.src_lang, spec.tgt_lang)
    ):
        return Ending(Outcome.SUCCESS, output)
    return Ending(Outcome.SUCCESS, msgspec.structs.replace(output, text_translated=given.text))
