"""What instances share: shards with sessions and their jobs, and cells with nodes and attempts.

Every operation is one atomic step on one shard or on one cell, and is idempotent: asked again
because its answer was lost, it changes nothing more, and answers the same or what it finds done:
`open` then finds the jobs (`JobFound`), `close` the end (`HasEnded`), `finish` and `drop` nothing
to free (`Stale`). When the server does not answer, an operation raises `DependencyDown`, and its
outcome is unknown.

Two facts hold everything together:

- **The shard decides what a job is.** A job's record names its attempt and the attempt's cell
  before a slot is held, so there is no step that binds the two. A job whose attempt no cell
  holds shows as CREATED.
- **The cell decides who holds a slot.** An attempt that is over leaves a tombstone until no late
  `reserve` of it can arrive, so that a slot is never held for a job that has moved on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragoman.ids import AttemptId, ConnectionId, InstanceId, JobId, NodeId, SessionId, TenantId
from dragoman.live.ledger import (
    Adoption,
    Beat,
    CellFull,
    CellRecord,
    Cold,
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
    Registration,
    Sender,
    Stale,
)
from dragoman.live.protocol import AttemptState, ErrorInfo
from dragoman.live.shared import records as r

WAITING_MS = 30_000
"""How long an instance counts as waiting for a slot after it asked last."""

PROMISED_MS = 1_000
"""At least so long after an instance was woken for a slot of a seat, and at most twice as long,
the seat is left to it by those that it is near, while they have another."""


class Shards(Protocol):
    """Sessions and jobs. A shard is named by two hexadecimal digits of the ids in it: a session_id
    and a job_id contain theirs, and the request_ids that the scheduler makes for an utterance
    (`<session_id>/<index>`) lie in their session's."""

    # --- a job's life ---------------------------------------------------------------------------

    async def open(self, opening: r.UtteranceOpening) -> r.Opened | r.Behind | r.NotOwner:
        """Claim the requests of one utterance, all its targets at once, or of one `POST /jobs`.

        All jobs lie in one shard, and with a session in the session's. With a session only its
        owner may, and only the next index, which moves the session's counters in the same step,
        or a repeat: an index before that whose requests are all still known. Any other is
        `Behind`, so an utterance that was delivered never opens again. Jobs that are refused
        already are opened and ended in it.

        Without a session, a request whose job failed, or whose binding's lease has ended, is free
        for a new job; the older job is read by its id until it is forgotten.
        """
        ...

    async def move(self, move: r.Move) -> r.MovedOn | r.NotCurrent | r.HasEnded | r.NoJob:
        """Name another attempt in the job's record, if it names the one that was seen.

        The attempt that was seen is remembered in `past` where it was bound, with how it ended.
        The asker drives the job from now on.
        """
        ...

    async def close(self, closing: r.Closing) -> r.Closed | r.NotCurrent | r.HasEnded | r.NoJob:
        """Give the job its one end, if its record names this attempt (or none is asked for).

        When the job is a session's and its turn has come, the same step delivers it: the answer
        has the delivery number. A session that has another owner, or lies in another shard, is
        not written to, and the answer says so; the job has its end all the same, and `deliver`
        gives the number later.
        """
        ...

    async def renew(
        self, job_ids: Sequence[JobId], instance_id: InstanceId, *, claim_ms: int
    ) -> tuple[JobId, ...]:
        """Go on driving jobs of one shard; those that are no longer the asker's come back."""
        ...

    async def take_over(
        self, job_id: JobId, seen: AttemptId, instance_id: InstanceId, *, claim_ms: int
    ) -> r.TakenOver | r.StillDriven | r.NotCurrent | r.HasEnded | r.NoJob:
        """Drive a job whose claim ran out, if it still names the attempt that was seen.

        The driver itself is answered `TakenOver` at any time.
        """
        ...

    async def release(self, job_ids: Sequence[JobId]) -> None:
        """Deliveries of one shard were acknowledged: payloads go when the binding's lease ends."""
        ...

    async def read(self, job_id: JobId) -> r.StoredJob | None: ...

    async def read_open(self, job_id: JobId) -> r.OpenWork | None:
        """The job with its input; None when it has ended or is gone."""
        ...

    async def due(self, shards: Sequence[int], limit: int) -> tuple[r.StoredJob, ...]:
        """Open jobs that must be looked at: their claim or their time has run out. At most so many
        of each shard."""
        ...

    async def recent(
        self, tenant: TenantId, limit: int, before: tuple[int, JobId] | None = None
    ) -> tuple[r.StoredJob, ...]:
        """A tenant's jobs, newest first."""
        ...

    async def list_again(self, job: r.StoredJob, instance_id: InstanceId) -> None:
        """This instance ends a job of another, which may have died before it listed the job."""
        ...

    # --- a session's life -----------------------------------------------------------------------

    async def begin_session(self, session: r.StoredSession) -> None:
        """A session was opened."""
        ...

    async def restore_session(self, session: r.StoredSession) -> int:
        """Write a whole record again, unless a newer one is there; its revision, or 0.

        Newer: of a later owner, or of the same one under a higher revision.
        """
        ...

    async def take_session(
        self,
        session_id: SessionId,
        instance_id: InstanceId,
        connection_id: ConnectionId,
        *,
        epoch: int | None = None,
    ) -> r.TakenSession | r.ChangedHands | None:
        """Become the owner: the epoch rises. With an epoch, only from the owner of that epoch.

        The owner itself stays it, and hears again whom it took the session from.
        """
        ...

    async def deliver(
        self, held: r.Holding, entries: Sequence[r.Delivery]
    ) -> r.Delivered | r.NotOwner:
        """Give numbers to ends whose turn has come, in this order; a repeat gets the same ones.

        The turn of an utterance has come when it was opened, and no earlier one is open for its
        target. What was sent `keep_delivered` numbers ago or longer and is not acknowledged keeps
        its number only, with the reason RATE_LIMITED.
        """
        ...

    async def acknowledge(
        self, held: r.Holding, upto: int, next_chunk_seq: int = 0, half_sample: bytes = b""
    ) -> int:
        """Everything up to this delivery number has arrived; the new revision, or 0.

        Chunks below next_chunk_seq need not be sent again: they were silence.
        """
        ...

    async def renew_sessions(self, held: Sequence[r.Holding]) -> tuple[SessionId, ...]:
        """Go on owning sessions; those that are not the asker's, or whose records are older."""
        ...

    async def end_session(self, session_id: SessionId, owner: r.SessionOwner) -> bool:
        """The session is over; False when another connection owns it."""
        ...

    async def keep_past(self, session_id: SessionId, written: bytes) -> None:
        """Keep what was said last in a session, for its next owner. The last writer counts: it
        helps nodes, and nothing is decided by it. It goes with the session."""
        ...

    async def read_past(self, session_id: SessionId) -> bytes:
        """What was kept; empty where nothing is."""
        ...

    async def read_session(self, session_id: SessionId) -> r.StoredSession | None: ...


class Cells(Protocol):
    """Nodes, their seats, and the attempts that hold their slots."""

    # --- hot ------------------------------------------------------------------------------------

    async def reserve(self, ask: r.SlotAsk) -> r.Granted | r.Full | r.Gone:
        """Choose a candidate of one cell with a free slot and hold it, in one step.

        `Gone` for an attempt that has a tombstone. `Full` may note that the asking instance waits
        for the pair, with the candidates it asked for: what frees or adds a slot of a candidate
        wakes, for live work before batch work, the instance that waits longest. Woken, it waits
        no more unless it asks again. A note lasts WAITING_MS; asking again keeps its place.

        Candidates that are near come first while one of them has a free slot; but those that an
        instance was just woken for (PROMISED_MS) come last.

        The slot is the attempt's for `ack_ms` without its node's word. The asker tells the node
        only while, by its own clock, less than that has passed since it first asked, and while
        its claim on the job holds; later it drops the slot and moves on.
        """
        ...

    async def finish(
        self, cell: int, attempt_id: AttemptId, sender: Sender, finish: r.Finish
    ) -> r.FreedSlot | r.LateFinish | Stale | Cold:
        """The node ended the attempt: free the slot. The result is kept in the cell only where
        the job's driver is another instance, until it has `settled` it.

        Asked again: `Stale`, DUPLICATE while the cell remembers, UNKNOWN later.
        """
        ...

    async def step(self, cell: int, steps: Sequence[r.AttemptStep]) -> tuple[AttemptId, ...]:
        """Attempts were accepted or are run, gathered for a while; those that hold no slot, or not
        under the sender's connection, and did not end by their node's word come back."""
        ...

    # --- rare -----------------------------------------------------------------------------------

    async def preempt(self, ask: r.SlotAsk) -> r.Preempting | r.Granted | r.NoVictim | r.Gone:
        """Cancel a batch attempt on a candidate and name the asker its heir."""
        ...

    async def cancel(
        self, cell: int, attempt_id: AttemptId, error: ErrorInfo, *, grace_ms: int
    ) -> r.CancelWon | r.AlreadyEnded | Stale | Cold:
        """Win the attempt back from its node. The slot stays held until the node lets go."""
        ...

    async def drop(
        self, cell: int, attempt_id: AttemptId, *, tombstone_ms: int
    ) -> r.FreedSlot | Stale | Cold:
        """Give back the slot of an attempt whose node was never told, and let no late `reserve`
        hold it again; also ends waiting for an inheritance.

        `Stale`: UNKNOWN when it held no slot (it has its tombstone now), OLD_ATTEMPT when its node
        knows of it.
        """
        ...

    async def settle(self, cell: int, attempt_ids: Sequence[AttemptId]) -> None:
        """Forget finished attempts whose results their drivers have; until its due time each
        leaves a tombstone."""
        ...

    async def look(
        self, cell: int, attempt_id: AttemptId, *, tombstone_ms: int
    ) -> r.StoredAttempt | r.Tombstone:
        """The sweep's step: the attempt as it is; one that is unknown gets a tombstone, and so
        does one whose end is known without its result. With tombstone_ms 0 nothing changes."""
        ...

    async def mark_asked(
        self, cell: int, attempt_id: AttemptId, *, grace_ms: int
    ) -> Done | Stale | Cold:
        """The node was asked to report: its next heartbeat decides about a cancelling attempt that
        it never acknowledged. One that it did is decided by any heartbeat after that."""
        ...

    async def adopt(self, cell: int, adoption: Adoption) -> Done | Stale | NotSeated | Cold:
        """Let an attempt that the cell did not know hold a slot, over the limit if need be."""
        ...

    async def due_attempts(self, cell: int, limit: int) -> tuple[r.StoredAttempt, ...]:
        """Attempts that the sweep must look at now."""
        ...

    async def outlook(self, cells: Sequence[tuple[int, int]]) -> Outlook:
        """When a slot of these candidates can be expected."""
        ...

    # --- nodes ----------------------------------------------------------------------------------

    async def register(
        self, registration: Registration
    ) -> NodeRegistered | HolderConflict | DirectoryFull: ...
    async def forget(self, node_id: NodeId, epoch: int) -> Done | Stale: ...
    async def lookup(self, node_id: NodeId) -> DirectoryEntry | None: ...
    async def members(self, cell: int) -> tuple[NodeId, ...]: ...
    async def cells(self) -> tuple[int, ...]: ...
    async def seat(self, cell: int, placement: Placement) -> Placed | CellFull | Stale: ...
    async def beat(self, cell: int, heartbeat: Heartbeat) -> Beat | Stale | NotSeated | Cold: ...
    async def amend(
        self, cell: int, sender: Sender, *, slots: int | None = None, facts: bytes | None = None
    ) -> Done | Stale | NotSeated | Cold: ...
    async def set_drained(
        self, cell: int, node_id: NodeId, drained: bool
    ) -> Done | NotSeated | Cold: ...
    async def disconnect(self, cell: int, sender: Sender) -> Done | Stale | NotSeated | Cold: ...
    async def lose(
        self, cell: int, sender: Sender, *, only_if_silent: bool = False
    ) -> NodeLost | Stale | NotSeated | Cold: ...
    async def remove(self, cell: int, sender: Sender) -> NodeLost | Stale | NotSeated | Cold: ...
    async def read_cell(self, cell: int) -> CellRecord | None: ...
    async def cell_version(self, cell: int) -> int | None: ...
    async def read_changes(self, cell: int, since: int) -> r.CellChanges | None:
        """The seats that changed since a version of the cell, which is what the asker has seen.

        What a seat holds is no change: it moves with every job. None for a cold cell.
        """
        ...


class SharedLedger(Shards, Cells, Protocol):
    """Both, on one server or in one process's memory."""

    async def size(self) -> dict[str, int]:
        """How many things of each kind are kept, for tests and for operators."""
        ...

    async def start(self) -> None:
        """To be called before the instance joins its cluster: raises CannotStart while instances of
        another data model are there, and takes over what such a one kept of nodes."""
        ...

    async def stop(self) -> None:
        """Let go of the connection, if there is one."""
        ...


__all__ = ["PROMISED_MS", "WAITING_MS", "AttemptState", "Cells", "Shards", "SharedLedger"]
