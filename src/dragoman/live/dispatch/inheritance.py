"""Live work that found no slot takes one over from batch work.

The ledger names the live job the heir of the slot that the batch attempt is told to leave. The
heir waits for it, at most as long as a node has to answer a cancel, then looks elsewhere.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

import msgspec

from dragoman.clock import Clock
from dragoman.ids import AttemptId
from dragoman.live.dispatch.allocation import Inheriting
from dragoman.live.dispatch.live_job import Inheritance, LiveJob
from dragoman.live.dispatch.reach import Reach
from dragoman.live.ledger import (
    Freed,
    Granted,
    Inherited,
    Ledger,
    Preempting,
    Settlement,
    Step,
    Terms,
)
from dragoman.live.protocol import ErrorInfo

PREEMPTED = ErrorInfo("PREEMPTED", "The slot was needed for live work.")


class Placing(Protocol):
    """What inheriting needs of the course a job takes."""

    async def hand_over(self, job: LiveJob, attempt_id: AttemptId, granted: Granted) -> bool: ...
    async def look_again(self, job: LiveJob) -> None: ...
    async def follow(self, step: Step) -> None: ...
    def freed(self, freed: Freed | None) -> None: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> None: ...


class Inheritances:
    """Brings slots from batch attempts that give way to the live jobs that wait for them."""

    def __init__(
        self,
        ledger: Ledger,
        settlement: Settlement,
        terms: Terms,
        placing: Placing,
        reach: Reach,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._settlement = settlement
        self._grace_seconds = terms.grace_ms / 1000
        self._placing = placing
        self._reach = reach
        self._clock = clock

    def expect(self, job: LiveJob, outcome: Inheriting) -> None:
        """Wait for the slot, and have the batch attempt give way."""
        preempting = outcome.preempting
        own_cell = tuple(entry for entry in outcome.ask.cells if entry[0] == preempting.cell)
        ask = msgspec.structs.replace(outcome.ask, cells=own_cell)
        until = self._clock.monotonic() + self._grace_seconds
        job.inheritance = Inheritance(ask, preempting.cell, until)
        self._placing.spawn(self._evict(preempting))

    def came(self, job: LiveJob, inherited: Inherited) -> None:
        """A slot passed to the job."""
        waits = job.inheritance
        if waits is not None and waits.ask.attempt_id == inherited.attempt_id:
            job.inheritance = None
            self._placing.spawn(self._take(job, waits))

    async def overdue(self, job: LiveJob) -> None:
        """The slot did not come in time, or its coming was not heard of."""
        waits, job.inheritance = job.inheritance, None
        if waits is None:
            return
        if await self._ledger.read_attempt(waits.cell, waits.ask.attempt_id) is not None:
            await self._take(job, waits)
            return
        await self._drop(waits)
        await self._placing.look_again(job)

    def renounce(self, job: LiveJob) -> None:
        """The job needs no slot any more: the next in line may have it."""
        waits, job.inheritance = job.inheritance, None
        if waits is not None:
            self._placing.spawn(self._drop(waits))

    async def _evict(self, preempting: Preempting) -> None:
        victim = await self._ledger.read_attempt(preempting.cell, preempting.victim.attempt_id)
        if victim is not None:
            # Its job first: with the node's answer the attempt is gone.
            step = await self._settlement.failed(victim, PREEMPTED)
            self._reach.cancel(preempting.victim, victim.node_id, victim.owner, PREEMPTED.code)
            await self._placing.follow(step)

    async def _take(self, job: LiveJob, waits: Inheritance) -> None:
        """The slot is the job's now: bind it."""
        job.allocating = True
        try:
            answer = await self._ledger.reserve(waits.ask)
            if isinstance(answer, Granted) and await self._placing.hand_over(
                job, waits.ask.attempt_id, answer
            ):
                return
        finally:
            job.allocating = False
        await self._placing.look_again(job)

    async def _drop(self, waits: Inheritance) -> None:
        dropped = await self._ledger.drop(waits.cell, waits.ask.attempt_id)
        self._placing.freed(getattr(dropped, "freed", None))
