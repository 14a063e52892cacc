"""The ledger of one process: jobs, bindings and slots in memory, each step done when it returns."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from random import Random

import msgspec

from dragoman.clock import Clock
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, TenantId
from dragoman.live.dispatch.cells import (
    MEAN_WEIGHT,
    NOTHING,
    ONE_SLOT,
    FleetCells,
    Freeing,
    SlotRules,
)
from dragoman.live.dispatch.job import (
    BATCH,
    NOT_OUT,
    SUCCESS,
    Job,
    Leaving,
    attempt_record,
    closed_attempt,
    record,
    weight_of,
)
from dragoman.live.dispatch.job_ledger import (
    ENDED,
    FULL,
    FULL_BUT_HEADROOM,
    PLACED,
    AfterCheck,
    AfterFinish,
    AfterOutlook,
    AfterPlace,
    AfterPreempt,
    Finishing,
    Late,
    PlaceAnswer,
    Placing,
    PreemptedAttempt,
)
from dragoman.live.ledger import (
    Adoption,
    AttemptRecord,
    Beat,
    CellFull,
    CellRecord,
    Cold,
    Directory,
    DirectoryEntry,
    DirectoryFull,
    Done,
    Ending,
    Freed,
    Heartbeat,
    HolderConflict,
    JobRecord,
    Keep,
    NodeLost,
    NodeRegistered,
    NotSeated,
    Placed,
    Placement,
    RecentJobs,
    Registration,
    Sender,
    Stale,
    StaleReason,
    Times,
)
from dragoman.live.protocol import ErrorInfo, Outcome

RequestKey = tuple[str, str, str]
"""Tenant, request_id, target."""

PREEMPTED = ErrorInfo(code="PREEMPTED", message="The slot was needed for live work.")
UNKNOWN = ErrorInfo(code="JOB_CANCELLED", message="No job of this scheduler has the attempt.")


class LedgerTerms(msgspec.Struct, frozen=True):
    """How slots are granted, and how long ended jobs are remembered; from the settings."""

    slots: SlotRules
    keep: Keep


class KeptResults:
    """What the process keeps of jobs after their end, counted in bytes.

    Results that were delivered, and cannot be asked for, may go early; the others after their
    lease. Both are in the order in which they were kept.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self._delivered: deque[Job] = deque()
        self._others: deque[Job] = deque()

    def keep(self, job: Job, *, delivered: bool) -> None:
        """Count the job's result; once, however often it is told."""
        output = job.output
        if output is None:
            return
        if not job.output_bytes:
            job.output_bytes = weight_of(output)
            self.size_bytes += job.output_bytes
        (self._delivered if delivered else self._others).append(job)

    def drop(self, job: Job) -> None:
        """The result is let go of."""
        self.size_bytes -= job.output_bytes
        job.output_bytes = 0
        self.first_delivered()
        self.first_other()

    def first_delivered(self) -> Job | None:
        """The oldest that was delivered."""
        return _first_kept(self._delivered)

    def first_other(self) -> Job | None:
        """The oldest of the others."""
        return _first_kept(self._others)


def _first_kept(jobs: deque[Job]) -> Job | None:
    """The first whose result is still kept; those before it are passed over for good."""
    while jobs:
        if jobs[0].output_bytes:
            return jobs[0]
        jobs.popleft()
    return None


class MemoryLedger:
    """One process's slots, bindings and jobs."""

    def __init__(
        self,
        terms: LedgerTerms,
        instance_id: InstanceId,
        clock: Clock,
        random: Random,
        *,
        cell_size: int = 100,
        max_cells: int = 10_000,
    ) -> None:
        self._keep = terms.keep
        self._instance_id = instance_id
        self._clock = clock
        self._random = random
        self._directory = Directory(cell_size, max_cells)
        self._cells = FleetCells(terms.slots, cell_size, random)
        self._by_number = self._cells.by_number
        self._jobs: dict[JobId, Job] = {}
        self._bindings: dict[RequestKey, Job] = {}
        self._recent: dict[TenantId, RecentJobs] = {}
        self.kept = KeptResults()
        """What is kept of jobs that have ended and that no session counts."""
        # Ended jobs, in three queues of one length each: a job is moved on when its time is up.
        self._leased: deque[Job] = deque()
        self._retained: deque[Job] = deque()
        self._remembered: deque[Job] = deque()
        self._retention_ms = max(terms.keep.retention_ms, terms.keep.lease_ms)
        self.origin_ms = clock.now_ms() - int(clock.monotonic() * 1000)
        """When the monotonic clock was 0, by the wall clock as it was at the start."""

    def now_ms(self, now: float) -> int:
        """Wall-clock time as it was at the start, moved on by a clock that never goes back."""
        return self.origin_ms + int(now * 1000)

    def _now(self) -> int:
        return self.now_ms(self._clock.monotonic())

    # --- hot ------------------------------------------------------------------------------------

    def place(self, job: Job, now: float, then: AfterPlace) -> None:
        now_ms = self.origin_ms + int(now * 1000)
        if not job.job_id:
            known = self._claim(job, now_ms)
            if known is not None:
                same = known.body_hash == job.body_hash
                then(job, PlaceAnswer(Placing.EXISTING if same else Placing.CONFLICT, known), now)
                return
        batch = job.spec.job_class is BATCH
        answer = FULL
        for number, mask in job.cells:
            cell = self._by_number.get(number)
            if cell is None or not mask & cell.not_full:
                continue
            if batch and not cell.has_headroom(mask, now_ms):
                answer = FULL_BUT_HEADROOM
                continue
            if cell.reserve(job, mask, now_ms) is not None:
                answer = PLACED
                break
        then(job, answer, now)

    def finish(
        self, job: Job, ending: Ending, *, again: bool, now: float, then: AfterFinish
    ) -> None:
        seat = job.seat
        if seat is None or seat.held.get(job.attempt_id) is not job:
            then(job, Finishing.MOVED, NOTHING, now)
            return
        now_ms = self.origin_ms + int(now * 1000)
        cell = self._by_number[seat.cell]
        freed = ONE_SLOT if cell.free(seat, job.attempt_id, now_ms) else NOTHING
        job.finished_ms = now_ms
        if ending.outcome is SUCCESS:
            service_ms = now_ms - (job.accepted_ms or job.dispatched_ms)
            if service_ms < 1:
                service_ms = 1
            known_ms = seat.mean_ms or service_ms
            seat.mean_ms = known_ms + MEAN_WEIGHT * (service_ms - known_ms)
        if again:
            self._close(job, ending.outcome, ending.error, counts=True)
            then(job, Finishing.AGAIN, freed, now)
        else:
            self._end(job, ending, now_ms)
            then(job, ENDED, freed, now)

    def check_acknowledged(self, job: Job, now: float, then: AfterCheck) -> None:
        then(job, False, now)  # There is no other instance.

    # --- ends without a node's word -------------------------------------------------------------

    def end(self, job: Job, ending: Ending, now: float, then: AfterFinish) -> None:
        self.renounce(job)
        now_ms = self.now_ms(now)
        job.finished_ms = now_ms
        self._end(job, ending, now_ms)
        then(job, ENDED, NOTHING, now)

    def leave(
        self, job: Job, error: ErrorInfo, now: float, outcome: Outcome = Outcome.FAILED
    ) -> Leaving | None:
        now_ms = self.now_ms(now)
        left = self._cells.cancel(job, error, now_ms)
        if job.is_out:
            job.finished_ms = now_ms
            self._close(job, outcome, error, counts=True)
        return left

    def drop(self, job: Job, error: ErrorInfo, now: float) -> Freed:
        seat, now_ms = job.seat, self.now_ms(now)
        freed = NOTHING
        if seat is not None and seat.held.get(job.attempt_id) is job:
            cell = self._cells.get(seat.cell)
            if cell is not None and cell.free(seat, job.attempt_id, now_ms):
                freed = ONE_SLOT
        if job.is_out:
            job.finished_ms = now_ms
            self._close(job, Outcome.FAILED, error, counts=True)
        return freed

    def preempt(self, job: Job, now: float, then: AfterPreempt) -> None:
        then(job, self._preempt(job, now), now)

    def _preempt(self, job: Job, now: float) -> PreemptedAttempt | None:
        now_ms = self.now_ms(now)
        for number, mask in job.cells:
            cell = self._cells.get(number)
            victim = cell.victim(mask, now_ms) if cell is not None else None
            if victim is None:
                continue
            left = self._cells.cancel(victim, PREEMPTED, now_ms)
            if left is None:
                continue
            victim.finished_ms = now_ms
            self._close(victim, Outcome.FAILED, PREEMPTED, counts=False)
            victim.preemptions += 1
            left.heir = job
            self._cells.heirs[job.attempt_id] = left
            return PreemptedAttempt(victim, left)
        return None

    def renounce(self, job: Job) -> None:
        left = self._cells.heirs.pop(job.attempt_id, None)
        if left is not None:
            left.heir = None

    # --- attempts that are no job's current one -------------------------------------------------

    def late(self, cell: int, sender: Sender, attempt_id: AttemptId, *, ends: bool) -> Late:
        known = self._cells.get(cell)
        seat = known.seats.get(sender.node_id) if known is not None else None
        left = seat.held.get(attempt_id) if seat is not None else None
        if known is None or not isinstance(left, Leaving):
            return Late(StaleReason.UNKNOWN)
        if left.epoch != sender.epoch:
            return Late(StaleReason.OLD_ATTEMPT)
        if not ends:
            left.acked = True
            return Late(StaleReason.LATE)
        freed = Freeing()
        known.free_leaving(left, freed, self._now())
        return Late(StaleReason.LATE, freed.answer())

    def unanswered(self, limit: int) -> list[Leaving]:
        """Cancelled attempts whose node has not let go of them in time; each comes up again."""
        now_ms = self._now()
        queue = self._cells.leaving
        found: list[Leaving] = []
        while queue and len(found) < limit and queue[0].due_ms <= now_ms:
            left = queue.popleft()
            if left.seat.held.get(left.attempt_id) is left:
                left.due_ms = now_ms + self._cells.rules.grace_ms
                queue.append(left)
                found.append(left)
        return found

    async def adopt(self, cell: int, adoption: Adoption) -> bool:
        """Let an attempt that the cell did not know hold a slot; False when its sender may not.

        What a process that lost its memory finds on a node belongs to no job: it holds its slot
        until the node has let go of it.
        """
        known = self._cells.get(cell)
        seat = known.seat_of(adoption.sender) if known is not None else None
        if known is None or isinstance(seat, Stale | NotSeated | None):
            return False
        running = adoption.running
        held = seat.held.get(running.attempt_id)
        if held is not None:
            return True
        now_ms = self._now()
        left = Leaving(
            running.attempt_id,
            running.job_id,
            seat,
            seat.owner.epoch,
            adoption.job_class,
            UNKNOWN,
            now_ms + self._cells.rules.grace_ms,
            True,
            Times(now_ms, now_ms, now_ms),
        )
        seat.held[running.attempt_id] = left
        self._cells.held += 1
        self._cells.leaving.append(left)
        known.refresh(seat, now_ms)
        return True

    # --- jobs -----------------------------------------------------------------------------------

    def find(self, job_id: JobId) -> Job | None:
        return self._jobs.get(job_id)

    def outlook_for(self, job: Job, now: float, then: AfterOutlook) -> None:
        then(job, self._cells.outlook(job.cells), now)

    def record(self, job: Job) -> JobRecord:
        now = self._clock.monotonic()
        return record(job, self._instance_id, now, self.now_ms(now))

    def release_now(self, job: Job) -> None:
        """The delivery was acknowledged: the result goes, at once or when its lease ends."""
        if job.outcome is None or job.released:
            return
        job.release_at_ms = min(job.release_at_ms, job.lease_until_ms)
        self.kept.keep(job, delivered=job.is_numbered)
        if job.release_at_ms <= self.origin_ms + int(self._clock.monotonic() * 1000):
            self._release(job)

    def sweep(self) -> None:
        """Let go of results whose lease or retention has ended, and forget jobs after that."""
        now_ms = self._now()
        leased, retained, remembered = self._leased, self._retained, self._remembered
        while leased and leased[0].finished_ms + self._keep.lease_ms <= now_ms:
            job = leased.popleft()
            if job.release_at_ms <= now_ms:
                self._release(job)
            retained.append(job)
        while retained and retained[0].finished_ms + self._retention_ms <= now_ms:
            job = retained.popleft()
            self._release(job)
            remembered.append(job)
        while remembered and remembered[0].forget_at_ms <= now_ms:
            self._forget(remembered.popleft())

    def let_go(self, size_bytes: int) -> None:
        """Drop results until so much is free: delivered ones, then those whose lease has ended."""
        kept, until_bytes, now_ms = self.kept, self.kept.size_bytes - size_bytes, self._now()
        while kept.size_bytes > until_bytes and (job := kept.first_delivered()) is not None:
            self._release(job)
        while kept.size_bytes > until_bytes and (job := kept.first_other()) is not None:
            if job.lease_until_ms > now_ms:
                return  # The leases of those after it end later.
            self._release(job)

    async def read(self, job_id: JobId) -> JobRecord | None:
        job = self._jobs.get(job_id)
        return self.record(job) if job is not None else None

    async def recent(
        self, tenant: TenantId, limit: int, before: tuple[int, JobId] | None = None
    ) -> tuple[JobRecord, ...]:
        recent = self._recent.get(tenant)
        newest = islice(recent.newest(before), limit) if recent is not None else ()
        return tuple(self.record(self._jobs[job_id]) for job_id in newest)

    async def release(self, job_ids: Sequence[JobId]) -> None:
        for job_id in job_ids:
            job = self._jobs.get(job_id)
            if job is not None:
                self.release_now(job)

    # --- the directory and the seats, for the fleet ---------------------------------------------

    async def register(
        self, registration: Registration
    ) -> NodeRegistered | HolderConflict | DirectoryFull:
        return self._directory.register(registration)

    async def forget(self, node_id: NodeId, epoch: int) -> Done | Stale:
        return self._directory.forget(node_id, epoch)

    async def lookup(self, node_id: NodeId) -> DirectoryEntry | None:
        return self._directory.entries.get(node_id)

    async def members(self, cell: int) -> tuple[NodeId, ...]:
        return self._directory.members(cell)

    async def cells(self) -> tuple[int, ...]:
        return self._directory.cells()

    async def seat(self, cell: int, placement: Placement) -> Placed | CellFull | Stale:
        return self._cells.make(cell).take_seat(placement, self._now())

    async def beat(self, cell: int, heartbeat: Heartbeat) -> Beat | Stale | NotSeated | Cold:
        known = self._cells.get(cell)
        return known.beat(heartbeat, self._now()) if known else Cold(cell)

    async def amend(
        self, cell: int, sender: Sender, *, slots: int | None = None, facts: bytes | None = None
    ) -> Done | Stale | NotSeated | Cold:
        known = self._cells.get(cell)
        return known.amend(sender, slots, facts, self._now()) if known else Cold(cell)

    async def set_drained(
        self, cell: int, node_id: NodeId, drained: bool
    ) -> Done | NotSeated | Cold:
        known = self._cells.get(cell)
        return known.set_drained(node_id, drained, self._now()) if known else Cold(cell)

    async def disconnect(self, cell: int, sender: Sender) -> Done | Stale | NotSeated | Cold:
        known = self._cells.get(cell)
        return known.disconnect(sender, self._now()) if known else Cold(cell)

    async def lose(
        self, cell: int, sender: Sender, *, only_if_silent: bool = False
    ) -> NodeLost | Stale | NotSeated | Cold:
        known = self._cells.get(cell)
        return known.lose(sender, only_if_silent, self._now()) if known else Cold(cell)

    async def remove(self, cell: int, sender: Sender) -> NodeLost | Stale | NotSeated | Cold:
        known = self._cells.get(cell)
        if known is None:
            return Cold(cell)
        answer = known.remove(sender, self._now())
        self._cells.discard_if_empty(known)
        return answer

    async def read_cell(self, cell: int) -> CellRecord | None:
        known = self._cells.get(cell)
        return known.record() if known else None

    async def cell_version(self, cell: int) -> int | None:
        known = self._cells.get(cell)
        return known.version if known else None

    async def read_attempt(self, cell: int, attempt_id: AttemptId) -> AttemptRecord | None:
        known = self._cells.get(cell)
        for seat in known.seats.values() if known is not None else ():
            if attempt_id in seat.held:
                return attempt_record(seat.held[attempt_id])
        return None

    async def slots_held(self) -> int:
        return self._cells.held

    async def size(self) -> dict[str, int]:
        """How many things of each kind are kept, for tests and for operators."""
        cells = list(self._cells.all())
        return {
            "nodes": len(self._directory.entries),
            "seats": sum(len(cell.seats) for cell in cells),
            "held": self._cells.held,
            "jobs": len(self._jobs),
            "requests": len(self._bindings),
            "inputs": sum(job.input is not None for job in self._jobs.values()),
        }

    async def close(self) -> None:
        """Nothing to let go of."""

    # --- inside ---------------------------------------------------------------------------------

    def _claim(self, job: Job, now_ms: int) -> Job | None:
        """Bind the request to the job; the job it is bound to already, if it is."""
        spec = job.spec
        if not job.is_numbered:
            key = (spec.tenant, spec.request_id, job.target_key)
            known = self._bindings.get(key)
            if known is not None and (known.outcome is None or known.lease_until_ms > now_ms):
                return known
            self._bindings[key] = job
        job.job_id = JobId("j-" + self._random.getrandbits(104).to_bytes(13).hex())
        job.created_ms = now_ms
        self._jobs[job.job_id] = job
        recent = self._recent.get(spec.tenant)
        if recent is None:
            recent = self._recent[spec.tenant] = RecentJobs()
        recent.add((now_ms, job.job_id))
        return None

    def _close(self, job: Job, outcome: Outcome, error: ErrorInfo | None, *, counts: bool) -> None:
        """The current attempt is over and the job is not: it has none now."""
        past = job.past
        if past is None:
            past = job.past = []
        past.append(closed_attempt(job, outcome, error, counts))
        if not counts:
            job.used -= 1
        job.attempt_id = AttemptId("")
        job.seat = None
        job.step = NOT_OUT

    def _end(self, job: Job, ending: Ending, now_ms: int) -> None:
        """Give the job its one end."""
        keep = self._keep
        job.step = NOT_OUT
        job.input = None
        if job.context:
            job.context = ()
        job.outcome = ending.outcome
        if ending.outcome is SUCCESS:
            job.output = ending.output
            job.lease_until_ms = now_ms + keep.lease_ms
        else:
            job.output, job.error = ending.output, ending.error
            job.lease_until_ms = now_ms
            self._unbind(job)
        job.release_at_ms = release_at_ms = now_ms + self._retention_ms
        job.forget_at_ms = release_at_ms + keep.lease_ms
        if job.spec.session_id is None:
            # A session counts the results itself that it has yet to deliver.
            self.kept.keep(job, delivered=False)
        self._leased.append(job)

    def _release(self, job: Job) -> None:
        if not job.released:
            job.released = True
            self.kept.drop(job)
            job.output = None
            job.on_end = job.on_partial = job.on_progress = None
            self._unbind(job)

    def _unbind(self, job: Job) -> None:
        if job.is_numbered:
            return
        key = (job.spec.tenant, job.spec.request_id, job.target_key)
        if self._bindings.get(key) is job:
            del self._bindings[key]

    def _forget(self, job: Job) -> None:
        del self._jobs[job.job_id]
        recent = self._recent[job.spec.tenant]
        recent.remove((job.created_ms, job.job_id))
        if not recent:
            del self._recent[job.spec.tenant]
