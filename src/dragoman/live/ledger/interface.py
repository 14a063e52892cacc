"""The ledger's door: small, complete, and the same for every backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, TenantId
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
from dragoman.live.ledger.records import (
    AttemptRecord,
    CellRecord,
    DirectoryEntry,
    JobInput,
    JobRecord,
    Times,
)
from dragoman.live.protocol import AttemptState, ErrorInfo


class Seats(Protocol):
    """Nodes with their cells and seats, and what can be read: the part that every room may use."""

    # --- the directory: which cell a node lives in ------------------------------------------------

    async def register(
        self, registration: Registration
    ) -> a.Registered | a.HolderConflict | a.DirectoryFull:
        """Give the node a cell (the lowest with room) and make the connection its owner."""
        ...

    async def forget(self, node_id: NodeId, epoch: int) -> a.Done | a.Stale:
        """Take the node out of the directory, unless a newer connection owns it."""
        ...

    async def lookup(self, node_id: NodeId) -> DirectoryEntry | None: ...

    async def members(self, cell: int) -> tuple[NodeId, ...]:
        """The nodes the directory says live in a cell."""
        ...

    async def cells(self) -> tuple[int, ...]:
        """The cells that have members, lowest first."""
        ...

    # --- seats: nodes in their cells -------------------------------------------------------------

    async def seat(self, cell: int, placement: Placement) -> a.Placed | a.CellFull | a.Stale:
        """Seat the node, and settle every attempt of its older connections."""
        ...

    async def amend(
        self,
        cell: int,
        sender: Sender,
        *,
        slots: int | None = None,
        facts: bytes | None = None,
    ) -> a.Done | a.Stale | a.NotSeated | a.Cold:
        """Change a seat's slots or facts. Fewer slots cancel nothing."""
        ...

    async def set_drained(
        self, cell: int, node_id: NodeId, drained: bool
    ) -> a.Done | a.NotSeated | a.Cold:
        """An operator's drain or resume: a drained seat is granted no slot."""
        ...

    async def disconnect(
        self, cell: int, sender: Sender
    ) -> a.Done | a.Stale | a.NotSeated | a.Cold:
        """The node's socket is lost: no slot is granted on it, what it holds is kept."""
        ...

    async def lose(
        self, cell: int, sender: Sender, *, only_if_silent: bool = False
    ) -> a.NodeLost | a.Stale | a.NotSeated | a.Cold:
        """The node did not come back in time: everything it held is ended.

        only_if_silent leaves alone a node whose heartbeats still come.
        """
        ...

    async def remove(
        self, cell: int, sender: Sender
    ) -> a.NodeLost | a.Stale | a.NotSeated | a.Cold:
        """Lose the node and give up its seat."""
        ...

    async def beat(
        self, cell: int, heartbeat: Heartbeat
    ) -> a.Beat | a.Stale | a.NotSeated | a.Cold:
        """Renew the leases of what the node lists, and say where the two lists differ."""
        ...

    async def read_cell(self, cell: int) -> CellRecord | None: ...

    async def cell_version(self, cell: int) -> int | None:
        """None when the cell is cold."""
        ...

    # --- reading ------------------------------------------------------------------------------

    async def read_attempt(self, cell: int, attempt_id: AttemptId) -> AttemptRecord | None: ...

    async def read(self, job_id: JobId) -> JobRecord | None: ...

    async def recent(
        self, tenant: TenantId, limit: int, before: tuple[int, JobId] | None = None
    ) -> tuple[JobRecord, ...]:
        """A tenant's jobs, newest first; `before` is (created_at_ms, job_id) of the last seen."""
        ...

    async def slots_held(self) -> int:
        """How many slots are held now, over every cell."""
        ...

    async def size(self) -> dict[str, int]:
        """How many things of each kind are kept, for tests and for operators."""
        ...

    async def close(self) -> None: ...


class Ledger(Seats, Protocol):
    """Owns slots, leases, bindings and attempts. Everything else trusts it.

    Every operation is one atomic step on one cell, one job or the directory, and is idempotent:
    asked again because an answer was lost, it answers the same and changes nothing. When the
    server behind it does not answer, operations raise `DependencyDown`, and their outcome is
    unknown; asking again is always safe.
    """

    async def outlook(self, cells: Sequence[tuple[int, int]]) -> a.Outlook:
        """When a slot of these candidates can be expected."""
        ...

    # --- attempts: slots with a lease ------------------------------------------------------------

    async def reserve(self, ask: SlotAsk) -> a.Granted | a.Full | a.Gone:
        """Choose a candidate with a free slot and hold it, in one step."""
        ...

    async def preempt(self, ask: SlotAsk) -> a.Preempting | a.Granted | a.NoVictim | a.Gone:
        """Cancel a batch attempt on a candidate and name the asker its heir.

        When the slot comes free it is granted to the heir; asking `reserve` with the same
        attempt_id tells. Granted at once when a slot came free meanwhile.
        """
        ...

    async def transition(
        self,
        cell: int,
        attempt_id: AttemptId,
        sender: Sender,
        to: AttemptState,
        *,
        number: int = 0,
    ) -> a.Moved | a.Repeat | a.Stale | a.Cold:
        """The node accepted the attempt, or runs it; its run time counts from the first.

        number tells which of a node's words came first: heartbeats have numbers, too.
        """
        ...

    async def finish(
        self, cell: int, attempt_id: AttemptId, sender: Sender, ending: Ending, *, due_ms: int
    ) -> a.Finished | a.LateFinish | a.Stale | a.Cold:
        """Store outcome and result and free the slot, in one step.

        The attempt stays until `settle`; past due_ms another instance may take it to its job.
        """
        ...

    async def cancel(
        self, cell: int, attempt_id: AttemptId, error: ErrorInfo, *, grace_ms: int
    ) -> a.CancelWon | a.AlreadyEnded | a.Stale | a.Cold:
        """Win the attempt back from its node. The slot stays held until the node lets go."""
        ...

    async def drop(self, cell: int, attempt_id: AttemptId) -> a.Dropped | a.Stale | a.Cold:
        """Give back a slot whose node was never told; also ends waiting for an inheritance."""
        ...

    async def mark_asked(
        self, cell: int, attempt_id: AttemptId, *, grace_ms: int
    ) -> a.Done | a.Stale | a.Cold:
        """The node was asked to report: its next heartbeat decides about a cancelling attempt."""
        ...

    async def adopt(
        self, cell: int, adoption: Adoption
    ) -> a.Adopted | a.Stale | a.NotSeated | a.Cold:
        """Let an attempt the cell did not know hold a slot, over the limit if need be."""
        ...

    async def settle(self, cell: int, attempt_ids: Sequence[AttemptId]) -> None:
        """Forget finished attempts that their jobs have taken."""
        ...

    async def due_attempts(self, cells: Sequence[int], limit: int) -> tuple[AttemptRecord, ...]:
        """Attempts the sweep must look at now."""
        ...

    # --- jobs ------------------------------------------------------------------------------------

    async def claim(self, claim: Claim) -> a.Claimed | a.Existing | a.BodyConflict:
        """Bind a request to one job; the same request finds the same job."""
        ...

    async def bind(
        self,
        job_id: JobId,
        attempt_id: AttemptId,
        cell: int,
        node_id: NodeId,
        *,
        total_ms: int | None,
    ) -> a.Bound | a.NotBound | a.JobGone:
        """Make the attempt the job's current one, if it has none and has not ended.

        total_ms, for batch work, starts the job's time anew from this dispatch.
        """
        ...

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
        """The attempt is over without success: the job is CREATED again, driven by instance_id.

        None leaves it to its former driver, which has claim_ms to go on with it.
        An attempt that was never bound is remembered, so that it can no longer be.
        """
        ...

    async def end(
        self,
        job_id: JobId,
        attempt_id: AttemptId | None,
        ending: Ending,
        *,
        times: Times | None = None,
        keep: Keep,
    ) -> a.Ended | a.NotCurrent | a.JobGone:
        """Give the job its one end, from its current attempt, or from none when it has none."""
        ...

    async def renew_claims(
        self, job_ids: Sequence[JobId], instance_id: InstanceId, *, claim_ms: int
    ) -> tuple[JobId, ...]:
        """Go on driving jobs that wait or retry; answers those that are no longer the asker's."""
        ...

    async def take_over(
        self, job_id: JobId, instance_id: InstanceId, *, claim_ms: int
    ) -> a.Taken | a.StillHeld | a.JobGone:
        """Drive a CREATED job whose claim ran out; one of many askers gets it."""
        ...

    async def release(self, job_ids: Sequence[JobId]) -> None:
        """Deliveries were acknowledged: payloads go, at once or when the binding's lease ends."""
        ...

    async def read_input(self, job_id: JobId) -> JobInput | None:
        """The job's input; None when it has ended or is gone."""
        ...

    async def read_open(self, job_id: JobId) -> a.OpenWork | None:
        """The job and its input together; None when it has ended or is gone."""
        ...

    async def due_jobs(self, shards: Sequence[int], limit: int) -> tuple[JobRecord, ...]:
        """Jobs the sweep must look at now: claim or time run out.

        Ended jobs whose retention passed are released and forgotten on the way.
        """
        ...
