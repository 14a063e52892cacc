"""The hands a sweep works with in tests: nodes that answer, and a record of what was done."""

from __future__ import annotations

from dragoman.ids import NodeId
from dragoman.live.ledger import (
    AttemptRecord,
    CancelWon,
    Freed,
    Heartbeat,
    JobInput,
    JobRecord,
    Ledger,
)


class RecordingHands:
    """Writes down what a sweep asks for; nothing answers by itself."""

    def __init__(self) -> None:
        self.told: list[CancelWon] = []
        self.asked: list[AttemptRecord] = []
        self.dispatched: list[tuple[JobRecord, JobInput]] = []
        self.ends: list[JobRecord] = []
        self.free_slots = 0

    async def tell_cancel(self, won: CancelWon, attempt: AttemptRecord) -> None:
        self.told.append(won)

    async def ask_report(self, attempt: AttemptRecord) -> None:
        self.asked.append(attempt)

    async def dispatch(self, job: JobRecord, job_input: JobInput) -> None:
        self.dispatched.append((job, job_input))

    async def ended(self, job: JobRecord) -> None:
        self.ends.append(job)

    async def freed(self, freed: Freed) -> None:
        self.free_slots += freed.slots


class ReportingHands(RecordingHands):
    """The nodes behind these hands run nothing, and say so when they are asked."""

    def __init__(self, ledger: Ledger, lease_ms: int) -> None:
        super().__init__()
        self._ledger = ledger
        self._lease_ms = lease_ms

    async def ask_report(self, attempt: AttemptRecord) -> None:
        await super().ask_report(attempt)
        await self._beat(attempt.cell, attempt.node_id, attempt.owner.epoch)

    async def _beat(self, cell: int, node_id: NodeId, epoch: int) -> None:
        await self._ledger.beat(cell, Heartbeat(node_id, epoch, self._lease_ms))
