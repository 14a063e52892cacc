"""What goes on in the background: cancelled attempts that hold on, and results kept too long."""

from __future__ import annotations

import asyncio

from dragoman.clock import Clock
from dragoman.live.dispatch.driver import JobDriver
from dragoman.live.dispatch.memory_ledger import MemoryLedger
from dragoman.live.dispatch.ports import NodePort
from dragoman.live.ledger import NodeLost, Sender
from dragoman.live.protocol import Command, JobCancel, NodeControl
from dragoman.observability import LimitWatch, get_logger

log = get_logger("dragoman.dispatch")

SWEEP_SECONDS = 0.5
SWEEP_LIMIT = 1_000
"""How many cancelled attempts one pass looks into; the rest stay due."""


class Sweeps:
    """A loop that never stops while the instance lives."""

    def __init__(
        self,
        ledger: MemoryLedger,
        driver: JobDriver,
        nodes: NodePort,
        watch: LimitWatch,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._driver = driver
        self._nodes = nodes
        self._watch = watch
        self._clock = clock

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                with self._watch.path("sweep"):
                    await self.sweep()
            except Exception:
                log.exception("upkeep_failed", work="sweep")

    async def sweep(self) -> None:
        """One pass."""
        self._ledger.sweep()
        # Nodes whose lease ran out since may have been skipped by those that wait.
        self._driver.pending.wake()
        for left in self._ledger.unanswered(SWEEP_LIMIT):
            seat = left.seat
            if left.asked:
                # It was asked for a report and is silent: it is gone, or nearly.
                sender = Sender(seat.node_id, left.epoch)
                answer = await self._ledger.lose(seat.cell, sender, only_if_silent=True)
                if isinstance(answer, NodeLost):
                    self._driver.freed(answer.freed)
                    for running in answer.lost:
                        job = self._driver.attempts.get(running.attempt_id)
                        if job is not None:
                            self._driver.lost(job, self._clock.monotonic())
                    continue
            # Marked before asked: the answer to the question is the heartbeat that decides.
            left.asked = True
            # The node may never have heard that it is to stop.
            cancel = JobCancel(left.job_id, left.attempt_id, left.error.code)
            self._nodes.send(seat.node_id, seat.owner, cancel)
            self._nodes.send(seat.node_id, seat.owner, NodeControl(Command.REPORT))
