"""Choosing nodes, measured: Poisson arrivals, nodes with slots, and a ledger that decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from dragoman.ids import AttemptId, ConnectionId, InstanceId, NodeId, RequestId, TenantId
from dragoman.live.dispatch import LedgerTerms, MemoryLedger, SlotRules
from dragoman.live.dispatch.job import Job
from dragoman.live.dispatch.job_ledger import Finishing, PlaceAnswer, Placing
from dragoman.live.ledger import (
    Ending,
    Freed,
    JobInput,
    JobSpec,
    Keep,
    NodeRegistered,
    Placement,
    Registration,
    Strategy,
)
from dragoman.live.protocol import Outcome, Pipeline
from dragoman.live.snapshot import JobRequirement, PoolRule
from dragoman.testing import VirtualClock, run_virtual

NODES, SLOTS = 20, 4
ALL = (1 << NODES) - 1
PIPELINE = Pipeline(use_nmt=True)
REQUIREMENT = JobRequirement(PoolRule.ASR_TTS, (("zh", "en"),), PIPELINE, ())
HOUR_MS = 3_600_000


def erlang_b(servers: int, erlangs: float) -> float:
    """The share of arrivals that a loss system of so many servers refuses."""
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = erlangs * blocked / (server + erlangs * blocked)
    return blocked


@dataclass
class Measured:
    """What came of a run."""

    refused: int = 0
    seconds: list[float] = field(default_factory=list)
    """From arrival to end, of every job that was served."""

    @property
    def refused_share(self) -> float:
        return self.refused / (self.refused + len(self.seconds))

    @property
    def mean(self) -> float:
        return sum(self.seconds) / len(self.seconds)

    def percentile(self, share: float) -> float:
        return sorted(self.seconds)[int(share * len(self.seconds))]


def measure(
    strategy: Strategy,
    *,
    load: float,
    arrivals: int,
    paces: Sequence[float] = (1.0,) * NODES,
    waits: bool = False,
    seed: int = 1,
) -> Measured:
    """Let jobs arrive at a share of what the fleet can serve.

    paces are the nodes' mean service times. Jobs that find no slot are refused, or wait for one
    in the order they came.
    """
    return run_virtual(lambda: _Run(strategy, load, paces, waits, seed).run(arrivals), seed=seed)


class _Run:
    def __init__(
        self, strategy: Strategy, load: float, paces: Sequence[float], waits: bool, seed: int
    ) -> None:
        self._rate = load * sum(SLOTS / pace for pace in paces)
        self._paces = paces
        self._waits = waits
        self._random = Random(seed)
        self._loop = asyncio.get_running_loop()
        self._ledger = MemoryLedger(
            LedgerTerms(SlotRules(strategy, 0.0, 0, 1_000), Keep(lease_ms=1, retention_ms=1)),
            InstanceId("i"),
            VirtualClock(self._loop),
            Random(seed + 1),
        )
        self._measured = Measured()
        self._line: list[tuple[int, float]] = []

    async def run(self, arrivals: int) -> Measured:
        for number in range(NODES):
            registered = await self._ledger.register(
                Registration(NodeId(f"n{number}"), InstanceId("i"), ConnectionId("c"))
            )
            assert isinstance(registered, NodeRegistered)
            await self._ledger.seat(
                0, Placement(NodeId(f"n{number}"), registered.owner, SLOTS, lease_ms=1000 * HOUR_MS)
            )
        for number in range(arrivals):
            await asyncio.sleep(self._random.expovariate(self._rate))
            arrived = self._loop.time()
            if not self._begin(number, arrived):
                if self._waits:
                    self._line.append((number, arrived))
                else:
                    self._measured.refused += 1
        await asyncio.sleep(1000 * max(self._paces))
        return self._measured

    def _begin(self, number: int, arrived: float) -> bool:
        spec = JobSpec(TenantId("t"), RequestId(f"r-{number}"), "zh", "en", PIPELINE)
        job = Job(spec, JobInput(), b"", REQUIREMENT, None, arrived, arrived, False, "en")
        job.attempt_id = AttemptId(f"a-{number:024x}")
        job.cells = ((0, ALL),)
        answers: list[Placing] = []

        def placed(job: Job, answer: PlaceAnswer, now: float) -> None:
            answers.append(answer.kind)

        self._ledger.place(job, self._loop.time(), placed)
        if answers != [Placing.PLACED]:
            self._ledger.end(job, Ending(Outcome.FAILED), self._loop.time(), _told)
            return False
        assert job.seat is not None, "it was placed"
        service = self._random.expovariate(1 / self._paces[job.seat.index])
        self._loop.call_later(service, self._end, job, arrived)
        return True

    def _end(self, job: Job, arrived: float) -> None:
        now = self._loop.time()
        self._ledger.finish(job, Ending(Outcome.SUCCESS), again=False, now=now, then=_told)
        self._ledger.sweep()
        self._measured.seconds.append(now - arrived)
        if self._line:
            number, since = self._line.pop(0)
            self._begin(number, since)


def _told(job: Job, answer: Finishing, freed: Freed, now: float) -> None:
    """The ledger answers before it returns."""
