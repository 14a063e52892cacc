"""The shared ledger in one process's memory: for instances of a simulation, and the reference."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from random import Random

from dragoman.clock import Clock
from dragoman.ids import (
    JOB_SHARDS,
    AttemptId,
    ConnectionId,
    InstanceId,
    JobId,
    NodeId,
    SessionId,
    TenantId,
    shard_for_request,
    shard_in,
)
from dragoman.live.ledger import (
    Adoption,
    Beat,
    CellFull,
    CellRecord,
    Cold,
    Directory,
    DirectoryEntry,
    DirectoryFull,
    Done,
    Heartbeat,
    HolderConflict,
    NodeLost,
    NodeRegistered,
    NotSeated,
    Outlook,
    Placed,
    Placement,
    RecentJobs,
    Registration,
    Sender,
    Stale,
)
from dragoman.live.protocol import ErrorInfo
from dragoman.live.shared import records as r
from dragoman.live.shared.memory.cell import MemoryCell
from dragoman.live.shared.memory.shard import Shard


class MemorySharedLedger:
    """Every operation runs to its end without awaiting, so one event loop makes it atomic."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        *,
        keep_delivered: int,
        session_ms: int,
        cell_size: int = 100,
        max_cells: int = 1000,
    ) -> None:
        """keep_delivered is how far back unacknowledged deliveries are kept, session_ms how long a
        session's record lives that is neither written nor renewed."""
        self._clock = clock
        self._random = random
        self._cell_size = cell_size
        self._directory = Directory(cell_size, max_cells)
        self._cells: dict[int, MemoryCell] = {}
        self._retired_version = 0
        """No cell that was given up had a higher version; one made anew goes on from here."""
        self._recent: dict[TenantId, RecentJobs] = {}
        self._shards = [Shard(self._recent, keep_delivered, session_ms) for _ in range(JOB_SHARDS)]
        self._origin_ms = clock.now_ms() - int(clock.monotonic() * 1000)

    # --- a job's life ---------------------------------------------------------------------------

    async def open(self, opening: r.UtteranceOpening) -> r.Opened | r.Behind | r.NotOwner:
        if opening.held is not None:
            shard, now_ms = self._shard(opening.held.session_id)
        else:
            spec = opening.jobs[0].spec
            shard, now_ms = self._shard_at(shard_for_request(spec.tenant, spec.request_id))
        for job in opening.jobs:
            if self._shards[shard_in(job.job_id) or 0] is not shard:
                raise ValueError(f"job {job.job_id} does not lie in the shard that it is opened in")
        return shard.open(opening, now_ms)

    async def move(self, move: r.Move) -> r.MovedOn | r.NotCurrent | r.HasEnded | r.NoJob:
        shard, now_ms = self._shard(move.job_id)
        return shard.move(move, now_ms)

    async def close(self, closing: r.Closing) -> r.Closed | r.NotCurrent | r.HasEnded | r.NoJob:
        shard, now_ms = self._shard(closing.job_id)
        return shard.close(closing, now_ms)

    async def renew(
        self, job_ids: Sequence[JobId], instance_id: InstanceId, *, claim_ms: int
    ) -> tuple[JobId, ...]:
        lost: list[JobId] = []
        for job_id in job_ids:
            shard, now_ms = self._shard(job_id)
            lost += shard.renew((job_id,), instance_id, claim_ms, now_ms)
        return tuple(lost)

    async def take_over(
        self, job_id: JobId, seen: AttemptId, instance_id: InstanceId, *, claim_ms: int
    ) -> r.TakenOver | r.StillDriven | r.NotCurrent | r.HasEnded | r.NoJob:
        shard, now_ms = self._shard(job_id)
        return shard.take_over(job_id, seen, instance_id, claim_ms, now_ms)

    async def release(self, job_ids: Sequence[JobId]) -> None:
        for job_id in job_ids:
            shard, now_ms = self._shard(job_id)
            shard.release((job_id,), now_ms)

    async def read(self, job_id: JobId) -> r.StoredJob | None:
        shard, now_ms = self._shard(job_id)
        job = shard.jobs.get(job_id)
        return job.record(now_ms) if job is not None else None

    async def read_open(self, job_id: JobId) -> r.OpenWork | None:
        shard, now_ms = self._shard(job_id)
        return shard.read_open(job_id, now_ms)

    async def due(self, shards: Sequence[int], limit: int) -> tuple[r.StoredJob, ...]:
        found: list[r.StoredJob] = []
        for shard in shards:
            if self._shards[shard].jobs:
                known, now_ms = self._shard_at(shard)
                found += known.due(limit, now_ms)
        return tuple(found)

    async def recent(
        self, tenant: TenantId, limit: int, before: tuple[int, JobId] | None = None
    ) -> tuple[r.StoredJob, ...]:
        now_ms = self._expire_all()
        recent = self._recent.get(tenant)
        newest = islice(recent.newest(before), limit) if recent is not None else ()
        return tuple(self._shard(job_id)[0].jobs[job_id].record(now_ms) for job_id in newest)

    async def list_again(self, job: r.StoredJob, instance_id: InstanceId) -> None:
        """A job is listed here as soon as it is opened."""

    # --- a session's life -----------------------------------------------------------------------

    async def begin_session(self, session: r.StoredSession) -> None:
        await self.restore_session(session)

    async def restore_session(self, session: r.StoredSession) -> int:
        shard, now_ms = self._shard(session.session_id)
        return shard.restore_session(session, now_ms)

    async def take_session(
        self,
        session_id: SessionId,
        instance_id: InstanceId,
        connection_id: ConnectionId,
        *,
        epoch: int | None = None,
    ) -> r.TakenSession | r.ChangedHands | None:
        shard, now_ms = self._shard(session_id)
        return shard.take_session(session_id, instance_id, connection_id, epoch, now_ms)

    async def deliver(
        self, held: r.Holding, entries: Sequence[r.Delivery]
    ) -> r.Delivered | r.NotOwner:
        shard, now_ms = self._shard(held.session_id)
        return shard.deliver(held, entries, now_ms)

    async def acknowledge(
        self, held: r.Holding, upto: int, next_chunk_seq: int = 0, half_sample: bytes = b""
    ) -> int:
        shard, now_ms = self._shard(held.session_id)
        return shard.acknowledge(held, upto, next_chunk_seq, half_sample, now_ms)

    async def renew_sessions(self, held: Sequence[r.Holding]) -> tuple[SessionId, ...]:
        lost = []
        for each in held:
            shard, now_ms = self._shard(each.session_id)
            if not shard.renew_session(each, now_ms):
                lost.append(each.session_id)
        return tuple(lost)

    async def end_session(self, session_id: SessionId, owner: r.SessionOwner) -> bool:
        shard, _ = self._shard(session_id)
        return shard.end_session(session_id, owner)

    async def keep_past(self, session_id: SessionId, written: bytes) -> None:
        session = self._shard(session_id)[0].sessions.get(session_id)
        if session is not None:
            session.past = written

    async def read_past(self, session_id: SessionId) -> bytes:
        session = self._shard(session_id)[0].sessions.get(session_id)
        return session.past if session is not None else b""

    async def read_session(self, session_id: SessionId) -> r.StoredSession | None:
        session = self._shard(session_id)[0].sessions.get(session_id)
        return session.record() if session is not None else None

    # --- slots ----------------------------------------------------------------------------------

    async def reserve(self, ask: r.SlotAsk) -> r.Granted | r.Full | r.Gone:
        cell, now_ms = self._cell(ask.cell)
        return cell.reserve(ask, now_ms) if cell is not None else r.Full(cold=True)

    async def preempt(self, ask: r.SlotAsk) -> r.Preempting | r.Granted | r.NoVictim | r.Gone:
        cell, now_ms = self._cell(ask.cell)
        return cell.preempt(ask, now_ms) if cell is not None else r.NoVictim()

    async def step(self, cell: int, steps: Sequence[r.AttemptStep]) -> tuple[AttemptId, ...]:
        known, now_ms = self._cell(cell)
        return tuple(
            step.attempt_id for step in steps if known is None or not known.step(step, now_ms)
        )

    async def finish(
        self, cell: int, attempt_id: AttemptId, sender: Sender, finish: r.Finish
    ) -> r.FreedSlot | r.LateFinish | Stale | Cold:
        known, now_ms = self._cell_of(cell, attempt_id)
        return known.finish(attempt_id, sender, finish, now_ms) if known else Cold(cell)

    async def cancel(
        self, cell: int, attempt_id: AttemptId, error: ErrorInfo, *, grace_ms: int
    ) -> r.CancelWon | r.AlreadyEnded | Stale | Cold:
        known, now_ms = self._cell_of(cell, attempt_id)
        return known.cancel(attempt_id, error, grace_ms, now_ms) if known else Cold(cell)

    async def drop(
        self, cell: int, attempt_id: AttemptId, *, tombstone_ms: int
    ) -> r.FreedSlot | Stale | Cold:
        known, now_ms = self._make_cell(cell)
        return known.drop(attempt_id, tombstone_ms, now_ms)

    async def look(
        self, cell: int, attempt_id: AttemptId, *, tombstone_ms: int
    ) -> r.StoredAttempt | r.Tombstone:
        known, now_ms = self._make_cell(cell)
        return known.look(attempt_id, tombstone_ms, now_ms)

    async def settle(self, cell: int, attempt_ids: Sequence[AttemptId]) -> None:
        known, now_ms = self._cell(cell)
        if known is not None:
            known.settle(attempt_ids, now_ms)

    async def mark_asked(
        self, cell: int, attempt_id: AttemptId, *, grace_ms: int
    ) -> Done | Stale | Cold:
        known, now_ms = self._cell_of(cell, attempt_id)
        return known.mark_asked(attempt_id, grace_ms, now_ms) if known else Cold(cell)

    async def adopt(self, cell: int, adoption: Adoption) -> Done | Stale | NotSeated | Cold:
        known, now_ms = self._warm_cell(cell)
        return known.adopt(adoption, now_ms) if known else Cold(cell)

    async def due_attempts(self, cell: int, limit: int) -> tuple[r.StoredAttempt, ...]:
        known, now_ms = self._cell(cell)
        return known.due_attempts(limit, now_ms) if known is not None else ()

    async def outlook(self, cells: Sequence[tuple[int, int]]) -> Outlook:
        slots = held = 0
        rate = 0.0
        for number, mask in cells:
            cell, _ = self._cell(number)
            if cell is not None:
                more_slots, more_held, more_rate = cell.expected(mask)
                slots, held, rate = slots + more_slots, held + more_held, rate + more_rate
        return Outlook(slots, held, int(1 / rate) if rate else None)

    # --- nodes ----------------------------------------------------------------------------------

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
        known, now_ms = self._make_cell(cell)
        return known.take_seat(placement, now_ms)

    async def beat(self, cell: int, heartbeat: Heartbeat) -> Beat | Stale | NotSeated | Cold:
        known, now_ms = self._warm_cell(cell)
        return known.beat(heartbeat, now_ms) if known else Cold(cell)

    async def amend(
        self, cell: int, sender: Sender, *, slots: int | None = None, facts: bytes | None = None
    ) -> Done | Stale | NotSeated | Cold:
        known, now_ms = self._warm_cell(cell)
        return known.amend(sender, slots, facts, now_ms) if known else Cold(cell)

    async def set_drained(
        self, cell: int, node_id: NodeId, drained: bool
    ) -> Done | NotSeated | Cold:
        known, now_ms = self._warm_cell(cell)
        return known.set_drained(node_id, drained, now_ms) if known else Cold(cell)

    async def disconnect(self, cell: int, sender: Sender) -> Done | Stale | NotSeated | Cold:
        known, now_ms = self._warm_cell(cell)
        return known.disconnect(sender, now_ms) if known else Cold(cell)

    async def lose(
        self, cell: int, sender: Sender, *, only_if_silent: bool = False
    ) -> NodeLost | Stale | NotSeated | Cold:
        known, now_ms = self._warm_cell(cell)
        return known.lose(sender, only_if_silent, now_ms) if known else Cold(cell)

    async def remove(self, cell: int, sender: Sender) -> NodeLost | Stale | NotSeated | Cold:
        known, now_ms = self._warm_cell(cell)
        return known.remove(sender, now_ms) if known else Cold(cell)

    async def read_cell(self, cell: int) -> CellRecord | None:
        known, _ = self._warm_cell(cell)
        return known.record() if known else None

    async def cell_version(self, cell: int) -> int | None:
        known, _ = self._warm_cell(cell)
        return known.version if known else None

    async def read_changes(self, cell: int, since: int) -> r.CellChanges | None:
        known, _ = self._warm_cell(cell)
        return known.changes(since) if known else None

    # --- both -----------------------------------------------------------------------------------

    async def size(self) -> dict[str, int]:
        self._expire_all()
        for number in list(self._cells):
            self._cell(number)
        shards, cells = self._shards, self._cells.values()
        return {
            "nodes": len(self._directory.entries),
            "seats": sum(len(cell.seats) for cell in cells),
            "held": sum(len(cell.held) for cell in cells),
            "finished": sum(len(cell.finished) for cell in cells),
            "tombstones": sum(len(cell.graves) for cell in cells),
            "waiting": sum(len(cell.waiting) for cell in cells),
            "jobs": sum(len(shard.jobs) for shard in shards),
            "open": sum(not job.ended for shard in shards for job in shard.jobs.values()),
            "requests": sum(len(shard.requests) for shard in shards),
            "sessions": sum(len(shard.sessions) for shard in shards),
        }

    async def start(self) -> None:
        """There is no other."""

    async def stop(self) -> None:
        """Nothing to let go of."""

    # --- inside ---------------------------------------------------------------------------------

    def _now(self) -> int:
        """Wall-clock time as it was at the start, moved on by a clock that never goes back."""
        return self._origin_ms + int(self._clock.monotonic() * 1000)

    def _shard(self, name: str) -> tuple[Shard, int]:
        """The shard that a session or a job lies in; what no id names is in none, and not found."""
        return self._shard_at(shard_in(name) or 0)

    def _shard_at(self, number: int) -> tuple[Shard, int]:
        """The shard without what has run out, and the time."""
        now_ms = self._now()
        shard = self._shards[number]
        shard.expire(now_ms)
        return shard, now_ms

    def _expire_all(self) -> int:
        now_ms = self._now()
        for shard in self._shards:
            shard.expire(now_ms)
        return now_ms

    def _cell(self, number: int) -> tuple[MemoryCell | None, int]:
        """The cell without what has run out, if anything is left of it, and the time."""
        now_ms = self._now()
        cell = self._cells.get(number)
        if cell is not None:
            cell.expire(now_ms)
            if cell.is_empty:
                self._retired_version = max(self._retired_version, cell.version)
                del self._cells[number]
                cell = None
        return cell, now_ms

    def _warm_cell(self, number: int) -> tuple[MemoryCell | None, int]:
        """The cell, if it has seats."""
        cell, now_ms = self._cell(number)
        return (cell if cell is not None and cell.seats else None), now_ms

    def _cell_of(self, number: int, attempt_id: AttemptId) -> tuple[MemoryCell | None, int]:
        """The cell, if it has seats or at least knows the attempt."""
        cell, now_ms = self._cell(number)
        if cell is not None and not cell.seats and not cell.knows(attempt_id):
            cell = None
        return cell, now_ms

    def _make_cell(self, number: int) -> tuple[MemoryCell, int]:
        cell, now_ms = self._cell(number)
        if cell is None:
            cell = MemoryCell(number, self._cell_size, self._retired_version, self._random)
            self._cells[number] = cell
        return cell, now_ms
