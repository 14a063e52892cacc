"""Choosing nodes, measured: Poisson arrivals, nodes with slots, and a ledger that decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from dragoman.ids import AttemptId, ConnectionId, InstanceId, JobId, NodeId
from dragoman.live.ledger import (
    Ending,
    Granted,
    MemoryLedger,
    Placement,
    Registered,
    Registration,
    Sender,
    SlotAsk,
    Strategy,
)
from dragoman.live.protocol import JobClass, Outcome
from dragoman.testing import VirtualClock, run_virtual

NODES, SLOTS = 20, 4
ALL = (1 << NODES) - 1
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
        self._strategy = strategy
        self._rate = load * sum(SLOTS / pace for pace in paces)
        self._paces = paces
        self._waits = waits
        self._random = Random(seed)
        self._ledger = MemoryLedger(VirtualClock(asyncio.get_running_loop()), Random(seed + 1))
        self._loop = asyncio.get_running_loop()
        self._measured = Measured()
        self._line: list[tuple[int, float]] = []

    async def run(self, arrivals: int) -> Measured:
        for number in range(NODES):
            registered = await self._ledger.register(
                Registration(NodeId(f"n{number}"), InstanceId("i"), ConnectionId("c"))
            )
            assert isinstance(registered, Registered)
            await self._ledger.seat(
                0, Placement(NodeId(f"n{number}"), registered.owner, SLOTS, lease_ms=1000 * HOUR_MS)
            )
        for number in range(arrivals):
            await asyncio.sleep(self._random.expovariate(self._rate))
            arrived = self._loop.time()
            if not await self._begin(number, arrived):
                if self._waits:
                    self._line.append((number, arrived))
                else:
                    self._measured.refused += 1
        await asyncio.sleep(1000 * max(self._paces))
        return self._measured

    async def _begin(self, number: int, arrived: float) -> bool:
        attempt_id = AttemptId(f"a-{number:024x}")
        ask = SlotAsk(
            JobId(f"j-{number:026x}"),
            attempt_id,
            ((0, ALL),),
            JobClass.LIVE,
            HOUR_MS,
            HOUR_MS,
            HOUR_MS,
            self._strategy,
        )
        granted = await self._ledger.reserve(ask)
        if not isinstance(granted, Granted):
            return False
        service = self._random.expovariate(1 / self._paces[granted.index])
        self._loop.call_later(service, self._end_soon, attempt_id, granted, arrived)
        return True

    def _end_soon(self, attempt_id: AttemptId, granted: Granted, arrived: float) -> None:
        self._loop.create_task(self._end(attempt_id, granted, arrived))

    async def _end(self, attempt_id: AttemptId, granted: Granted, arrived: float) -> None:
        sender = Sender(granted.node_id, granted.owner.epoch)
        ending = Ending(Outcome.SUCCESS)
        await self._ledger.finish(0, attempt_id, sender, ending, due_ms=HOUR_MS)
        await self._ledger.settle(0, (attempt_id,))
        self._measured.seconds.append(self._loop.time() - arrived)
        if self._line:
            number, since = self._line.pop(0)
            await self._begin(number, since)
