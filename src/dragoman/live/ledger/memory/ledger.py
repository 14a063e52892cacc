"""The ledger in one process's memory: the default, and the reference for the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from random import Random

from dragoman.clock import Clock
from dragoman.ids import (
    JOB_SHARDS,
    AttemptId,
    InstanceId,
    JobId,
    NodeId,
    TenantId,
    request_shard,
)
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import (
    Adoption,
    Claim,
    Ending,
    Heartbeat,
    Keep,
    Placement,
    Registration,
    Sender,
    SlotAsk,
)
from dragoman.live.ledger.memory.cell import Cell
from dragoman.live.ledger.memory.directory import Directory
from dragoman.live.ledger.memory.jobs import Job, JobShard
from dragoman.live.ledger.memory.kept import KeptResults
from dragoman.live.ledger.memory.recent import RecentJobs
from dragoman.live.ledger.memory.seats import Whereabouts
from dragoman.live.ledger.records import (
    AttemptRecord,
    CellRecord,
    DirectoryEntry,
    JobInput,
    JobRecord,
    Times,
)
from dragoman.live.protocol import AttemptState, ErrorInfo


class MemoryLedger:
    """Every operation runs to its end without awaiting, so one event loop makes it atomic."""

    def __init__(
        self, clock: Clock, random: Random, *, cell_size: int = 100, max_cells: int = 1000
    ) -> None:
        self._clock = clock
        self._random = random
        self._cell_size = cell_size
        self._directory = Directory(cell_size, max_cells)
        self._cells: dict[int, Cell] = {}
        self._whereabouts = Whereabouts()
        self._retired_version = 0
        """No cell that was given up had a higher version; one made anew goes on from here."""
        self._recent: dict[TenantId, RecentJobs] = {}
        self.kept = KeptResults()
        """What is kept of jobs that have ended and that no session counts."""
        self._shards = [JobShard(number, self._recent, self.kept) for number in range(JOB_SHARDS)]
        self._by_prefix = {f"j-{shard.number:02x}": shard for shard in self._shards}
        self._origin_ms = clock.now_ms() - int(clock.monotonic() * 1000)

    def _now(self) -> int:
        """Wall-clock time as it was at the start, moved on by a clock that never goes back."""
        return self._origin_ms + int(self._clock.monotonic() * 1000)

    def let_go(self, size_bytes: int) -> None:
        """Drop results until so much is free: delivered ones, then those whose lease has ended.

        The oldest go first. Without this, results that no caller fetches would keep out new work
        until their retention ends.
        """
        until_bytes = self.kept.size_bytes - size_bytes
        for job_id in self.kept.early_first():
            if self.kept.size_bytes <= until_bytes:
                return
            shard = self._shard(job_id)
            assert shard is not None, "only jobs that are in a shard are kept"
            if not shard.release_early(
                job_id, self._now(), within_lease=self.kept.is_delivered(job_id)
            ):
                return  # The leases of those after it end later.

    # --- the directory ---------------------------------------------------------------------------

    async def register(
        self, registration: Registration
    ) -> a.Registered | a.HolderConflict | a.DirectoryFull:
        return self._directory.register(registration)

    async def forget(self, node_id: NodeId, epoch: int) -> a.Done | a.Stale:
        return self._directory.forget(node_id, epoch)

    async def lookup(self, node_id: NodeId) -> DirectoryEntry | None:
        return self._directory.entries.get(node_id)

    async def members(self, cell: int) -> tuple[NodeId, ...]:
        return self._directory.members(cell)

    async def cells(self) -> tuple[int, ...]:
        return self._directory.cells()

    # --- seats -----------------------------------------------------------------------------------

    async def seat(self, cell: int, placement: Placement) -> a.Placed | a.CellFull | a.Stale:
        known = self._cells.get(cell)
        if known is None:
            known = self._cells[cell] = Cell(
                cell, self._cell_size, self._whereabouts, version=self._retired_version
            )
        return known.seating.place(placement, self._now())

    async def amend(
        self,
        cell: int,
        sender: Sender,
        *,
        slots: int | None = None,
        facts: bytes | None = None,
    ) -> a.Done | a.Stale | a.NotSeated | a.Cold:
        known = self._cells.get(cell)
        return known.seating.amend(sender, slots, facts, self._now()) if known else a.Cold(cell)

    async def set_drained(
        self, cell: int, node_id: NodeId, drained: bool
    ) -> a.Done | a.NotSeated | a.Cold:
        known = self._cells.get(cell)
        return known.seating.set_drained(node_id, drained, self._now()) if known else a.Cold(cell)

    async def disconnect(
        self, cell: int, sender: Sender
    ) -> a.Done | a.Stale | a.NotSeated | a.Cold:
        known = self._cells.get(cell)
        return known.seating.disconnect(sender, self._now()) if known else a.Cold(cell)

    async def lose(
        self, cell: int, sender: Sender, *, only_if_silent: bool = False
    ) -> a.NodeLost | a.Stale | a.NotSeated | a.Cold:
        known = self._cells.get(cell)
        return known.seating.lose(sender, only_if_silent, self._now()) if known else a.Cold(cell)

    async def remove(
        self, cell: int, sender: Sender
    ) -> a.NodeLost | a.Stale | a.NotSeated | a.Cold:
        known = self._cells.get(cell)
        if known is None:
            return a.Cold(cell)
        answer = known.seating.remove(sender, self._now())
        self._discard_if_empty(known)
        return answer

    async def beat(
        self, cell: int, heartbeat: Heartbeat
    ) -> a.Beat | a.Stale | a.NotSeated | a.Cold:
        known = self._cells.get(cell)
        return known.seating.beat(heartbeat, self._now()) if known else a.Cold(cell)

    async def read_cell(self, cell: int) -> CellRecord | None:
        known = self._cells.get(cell)
        return known.seating.record() if known else None

    async def cell_version(self, cell: int) -> int | None:
        known = self._cells.get(cell)
        return known.seating.version if known else None

    async def outlook(self, cells: Sequence[tuple[int, int]]) -> a.Outlook:
        slots = held = 0
        rate = 0.0
        for number, mask in cells:
            cell = self._cells.get(number)
            if cell is not None:
                more_slots, more_held, more_rate = cell.expected(mask)
                slots, held, rate = slots + more_slots, held + more_held, rate + more_rate
        return a.Outlook(slots, held, int(1 / rate) if rate else None)

    # --- attempts --------------------------------------------------------------------------------

    async def reserve(self, ask: SlotAsk) -> a.Granted | a.Full | a.Gone:
        return self._find(ask) or self._reserve(ask)

    async def preempt(self, ask: SlotAsk) -> a.Preempting | a.Granted | a.NoVictim | a.Gone:
        now_ms = self._now()
        found = self._find(ask)
        if found is not None:
            return found
        granted = self._reserve(ask)
        if isinstance(granted, a.Granted):
            return granted
        victim = self._whereabouts.victims.get(ask.attempt_id)
        if victim is not None:
            return victim.preempted_for(now_ms)
        for number, mask in ask.cells:
            cell = self._cells.get(number)
            answer = cell.preempt(ask, mask, now_ms) if cell else None
            if answer is not None:
                return answer
        return a.NoVictim()

    async def transition(
        self,
        cell: int,
        attempt_id: AttemptId,
        sender: Sender,
        to: AttemptState,
        *,
        number: int = 0,
    ) -> a.Moved | a.Repeat | a.Stale | a.Cold:
        known = self._cells.get(cell)
        if known is None:
            return a.Cold(cell)
        return known.transition(attempt_id, sender, to, number, self._now())

    async def finish(
        self, cell: int, attempt_id: AttemptId, sender: Sender, ending: Ending, *, due_ms: int
    ) -> a.Finished | a.LateFinish | a.Stale | a.Cold:
        known = self._cells.get(cell)
        if known is None:
            return a.Cold(cell)
        return known.finish(attempt_id, sender, ending, due_ms, self._now())

    async def cancel(
        self, cell: int, attempt_id: AttemptId, error: ErrorInfo, *, grace_ms: int
    ) -> a.CancelWon | a.AlreadyEnded | a.Stale | a.Cold:
        known = self._cells.get(cell)
        return known.cancel(attempt_id, error, grace_ms, self._now()) if known else a.Cold(cell)

    async def drop(self, cell: int, attempt_id: AttemptId) -> a.Dropped | a.Stale | a.Cold:
        known = self._cells.get(cell)
        return known.drop(attempt_id, self._now()) if known else a.Cold(cell)

    async def mark_asked(
        self, cell: int, attempt_id: AttemptId, *, grace_ms: int
    ) -> a.Done | a.Stale | a.Cold:
        known = self._cells.get(cell)
        return known.mark_asked(attempt_id, grace_ms, self._now()) if known else a.Cold(cell)

    async def adopt(
        self, cell: int, adoption: Adoption
    ) -> a.Adopted | a.Stale | a.NotSeated | a.Cold:
        known = self._cells.get(cell)
        return known.adopt(adoption, self._now()) if known else a.Cold(cell)

    async def settle(self, cell: int, attempt_ids: Sequence[AttemptId]) -> None:
        known = self._cells.get(cell)
        if known is not None:
            known.settle(attempt_ids)
            self._discard_if_empty(known)

    async def read_attempt(self, cell: int, attempt_id: AttemptId) -> AttemptRecord | None:
        known = self._cells.get(cell)
        return known.read_attempt(attempt_id) if known else None

    async def due_attempts(self, cells: Sequence[int], limit: int) -> tuple[AttemptRecord, ...]:
        now_ms = self._now()
        found: list[AttemptRecord] = []
        for number in cells:
            cell = self._cells.get(number)
            if cell is not None and len(found) < limit:
                found += cell.due(now_ms, limit - len(found))
        return tuple(found)

    # --- jobs ------------------------------------------------------------------------------------

    async def claim(self, claim: Claim) -> a.Claimed | a.Existing | a.BodyConflict:
        spec = claim.spec
        shard = self._shards[request_shard(spec.tenant, spec.request_id, spec.target_key)]
        return shard.claim(claim, self._now(), self._random)

    async def bind(
        self,
        job_id: JobId,
        attempt_id: AttemptId,
        cell: int,
        node_id: NodeId,
        *,
        total_ms: int | None,
    ) -> a.Bound | a.NotBound | a.JobGone:
        shard = self._shard(job_id)
        if shard is None:
            return a.JobGone()
        return shard.bind(job_id, attempt_id, cell, node_id, total_ms, self._now())

    async def retry(
        self,
        job_id: JobId,
        attempt_id: AttemptId,
        error: ErrorInfo,
        *,
        times: Times,
        instance_id: InstanceId | None,
        claim_ms: int,
        preempted: bool = False,
    ) -> a.Retrying | a.NotCurrent | a.Ended | a.JobGone:
        shard = self._shard(job_id)
        if shard is None:
            return a.JobGone()
        return shard.retry(
            job_id, attempt_id, error, times, instance_id, claim_ms, preempted, self._now()
        )

    async def end(
        self,
        job_id: JobId,
        attempt_id: AttemptId | None,
        ending: Ending,
        *,
        times: Times | None = None,
        keep: Keep,
    ) -> a.Ended | a.NotCurrent | a.JobGone:
        shard = self._shard(job_id)
        if shard is None:
            return a.JobGone()
        return shard.end(job_id, attempt_id, ending, times, keep, self._now())

    async def renew_claims(
        self, job_ids: Sequence[JobId], instance_id: InstanceId, *, claim_ms: int
    ) -> tuple[JobId, ...]:
        refused: list[JobId] = []
        for job_id in job_ids:
            shard = self._shard(job_id)
            if shard is None:
                refused.append(job_id)
            else:
                refused += shard.renew((job_id,), instance_id, claim_ms, self._now())
        return tuple(refused)

    async def take_over(
        self, job_id: JobId, instance_id: InstanceId, *, claim_ms: int
    ) -> a.Taken | a.StillHeld | a.JobGone:
        shard = self._shard(job_id)
        if shard is None:
            return a.JobGone()
        return shard.take_over(job_id, instance_id, claim_ms, self._now())

    async def release(self, job_ids: Sequence[JobId]) -> None:
        for job_id in job_ids:
            shard = self._shard(job_id)
            if shard is not None:
                shard.release((job_id,), self._now())

    async def read(self, job_id: JobId) -> JobRecord | None:
        job = self._job(job_id)
        return job.record() if job else None

    async def read_input(self, job_id: JobId) -> JobInput | None:
        job = self._job(job_id)
        return job.input if job else None

    async def read_open(self, job_id: JobId) -> a.OpenWork | None:
        job = self._job(job_id)
        if job is None or job.input is None:
            return None
        return a.OpenWork(job.record(), job.input, self._now())

    async def recent(
        self, tenant: TenantId, limit: int, before: tuple[int, JobId] | None = None
    ) -> tuple[JobRecord, ...]:
        recent = self._recent.get(tenant)
        newest = islice(recent.newest(before), limit) if recent is not None else ()
        return tuple(job.record() for job_id in newest if (job := self._job(job_id)))

    async def due_jobs(self, shards: Sequence[int], limit: int) -> tuple[JobRecord, ...]:
        now_ms = self._now()
        found: list[JobRecord] = []
        for number in shards:
            shard = self._shards[number]
            if shard.jobs and len(found) < limit:
                found += shard.due(now_ms, limit - len(found))
        return tuple(found)

    async def slots_held(self) -> int:
        return self._whereabouts.held

    async def size(self) -> dict[str, int]:
        cells = self._cells.values()
        return {
            "nodes": len(self._directory.entries),
            "seats": sum(len(cell.seats) for cell in cells),
            "held": sum(len(cell.held) for cell in cells),
            "ended": sum(len(cell.ended) for cell in cells),
            "jobs": sum(len(shard.jobs) for shard in self._shards),
            "bindings": sum(len(shard.bindings) for shard in self._shards),
            "inputs": sum(
                job.input is not None for shard in self._shards for job in shard.jobs.values()
            ),
        }

    async def close(self) -> None:
        """Nothing to let go of."""

    # --- inside ----------------------------------------------------------------------------------

    def _find(self, ask: SlotAsk) -> a.Granted | a.Gone | None:
        """What the same ask got before, if it was made before."""
        number = self._whereabouts.cells.get(ask.attempt_id)
        return None if number is None else self._cells[number].find(ask.attempt_id)

    def _reserve(self, ask: SlotAsk) -> a.Granted | a.Full:
        now_ms = self._now()
        cold = []
        headroom = False
        for number, mask in ask.cells:
            cell = self._cells.get(number)
            if cell is None:
                cold.append(number)
                continue
            answer = cell.reserve(ask, mask, now_ms, self._random)
            if isinstance(answer, a.Granted):
                return answer
            headroom = headroom or answer is not None
        return a.Full(tuple(cold), headroom)

    def _shard(self, job_id: JobId) -> JobShard | None:
        """Where the job is, if it is anywhere: a text that is no job_id is found in no shard."""
        return self._by_prefix.get(job_id[:4])

    def _job(self, job_id: JobId) -> Job | None:
        shard = self._shard(job_id)
        return shard.jobs.get(job_id) if shard else None

    def _discard_if_empty(self, cell: Cell) -> None:
        if not cell.seats and not cell.ended:
            self._retired_version = max(self._retired_version, cell.seating.version)
            del self._cells[cell.number]
