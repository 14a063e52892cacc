"""What a session's job costs on the shared ledger on Redis: open and reserve, finish and close.

Both halves are asked as the core asks them: the two operations of a half at the same time, many
jobs in the same turns of the loop. The calls that functions make are counted by the server and do
not depend on the machine; the microseconds do, and are those of the quietest round.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

from redis import Redis
from rich.table import Table

from benchmarks.ledger import CELL_SIZE, HERE, HOUR_MS, PIPELINE, RedisServer, redis_server, table
from dragoman.ids import (
    ConnectionId,
    NodeId,
    RequestId,
    SessionId,
    TenantId,
    new_attempt_id,
    new_id,
    new_job_id_for,
)
from dragoman.live.ledger import (
    Ending,
    JobInput,
    JobSpec,
    Keep,
    Owner,
    Placement,
    Sender,
    Strategy,
    Times,
)
from dragoman.live.protocol import JobClass, JobResult, Outcome, SessionInit
from dragoman.live.shared import RedisSharedLedger
from dragoman.live.shared import records as r

SLOTS_PER_NODE = 4
KEEP = Keep(lease_ms=60_000, retention_ms=60_000)
TENANT = TenantId("bench")
_NOT_ASKED = ("info", "fcall", "config|resetstat", "function|load", "command|docs", "hello")
"""Commands that are no call of a function: those of the measurement, and the functions' own."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    nodes: int
    rounds: int
    jobs_at_once: int


WHOLE = Size(nodes=100, rounds=40, jobs_at_once=100)
QUICK = Size(nodes=20, rounds=3, jobs_at_once=20)


@dataclass(frozen=True)
class Half:
    """What one half of a job's life costs."""

    name: str
    calls: dict[str, float]
    """Calls of functions, for each job."""
    function_us: float
    """What the server counted for the functions alone."""
    server_us: float
    """The server's CPU time, sockets included."""
    client_us: float


class Sessions:
    """Sessions that speak one utterance after the other."""

    def __init__(self, ledger: RedisSharedLedger, size: Size, seed: int) -> None:
        self._ledger = ledger
        self._size = size
        self._random = Random(seed)
        self._held: list[r.Holding] = []
        self._index = 0

    async def begin(self) -> None:
        for number in range(self._size.nodes):
            owner = Owner(HERE, ConnectionId(f"c-{number}"), 1)
            placement = Placement(NodeId(f"n-{number}"), owner, SLOTS_PER_NODE, HOUR_MS)
            await self._ledger.seat(number // CELL_SIZE, placement)
        for number in range(self._size.jobs_at_once):
            session = r.StoredSession(
                session_id=SessionId(new_id(self._random, "s")),
                tenant=TENANT,
                secret_hash="",
                init=SessionInit(src_lang="zh", tgt_langs=("en",)),
                owner=r.SessionOwner(HERE, ConnectionId(f"s-{number}"), 1),
            )
            await self._ledger.begin_session(session)
            self._held.append(r.Holding(session.session_id, session.owner, 1))

    def next_jobs(self) -> list[tuple[r.Holding, r.NewJob]]:
        jobs = [(held, self._new_job(held)) for held in self._held]
        self._index += 1
        return jobs

    def _new_job(self, held: r.Holding) -> r.NewJob:
        request_id = RequestId(f"{held.session_id}/{self._index}")
        spec = JobSpec(
            tenant=TENANT,
            request_id=request_id,
            src_lang="zh",
            tgt_lang="en",
            pipeline=PIPELINE,
            session_id=held.session_id,
            utterance_index=self._index,
        )
        return r.NewJob(
            job_id=new_job_id_for(self._random, TENANT, request_id, "en"),
            spec=spec,
            input=JobInput(text="hello"),
            body_hash=b"0123456789abcdef",
            target_key="en",
            attempt_id=new_attempt_id(self._random),
            cell=0,
            total_ms=HOUR_MS,
        )

    async def place(self, held: r.Holding, job: r.NewJob) -> r.Granted:
        """Open the job and hold a slot for it, at the same time."""
        index = job.spec.utterance_index
        assert index is not None
        opening = r.UtteranceOpening((job,), HERE, 5_000, KEEP, held, index=index)
        ask = r.SlotAsk(
            cell=0,
            candidates=(1 << self._size.nodes) - 1,
            attempt_id=job.attempt_id,
            job_id=job.job_id,
            job_class=JobClass.LIVE,
            instance_id=HERE,
            strategy=Strategy.RANDOM,
            headroom=0.0,
            ack_ms=HOUR_MS,
            lease_ms=HOUR_MS,
            run_ms=HOUR_MS,
        )
        opened, granted = await asyncio.gather(
            self._ledger.open(opening), self._ledger.reserve(ask)
        )
        assert isinstance(opened, r.Opened), opened
        assert isinstance(granted, r.Granted), granted
        return granted

    async def finish(self, held: r.Holding, job: r.NewJob, granted: r.Granted) -> int:
        """Free the slot and give the job its end and its number, at the same time."""
        index = job.spec.utterance_index
        assert index is not None
        output = JobResult(job.job_id, job.attempt_id, True, text_translated="hola")
        closing = r.Closing(
            job.job_id,
            job.attempt_id,
            Ending(Outcome.SUCCESS, output),
            Times(1, 2, 3, 4),
            granted.node_id,
            KEEP,
            held,
            r.Delivery(index, "en", job.job_id),
        )
        sender = Sender(granted.node_id, granted.owner.epoch)
        freed, closed = await asyncio.gather(
            self._ledger.finish(0, job.attempt_id, sender, r.Finish(Outcome.SUCCESS)),
            self._ledger.close(closing),
        )
        assert isinstance(freed, r.FreedSlot), freed
        assert isinstance(closed, r.Closed), closed
        assert closed.seq is not None
        return closed.seq

    async def acknowledge(self, held: r.Holding, seq: int) -> None:
        assert await self._ledger.acknowledge(held, seq)


class Meter:
    """Adds up what the server says it did between two looks."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client = Redis(port=server.port)
        self.calls: Counter[str] = Counter()
        self._rounds: list[tuple[float, float, float]] = []

    async def over(self, asked: Callable[[], Awaitable[object]]) -> None:
        before, server, client = self._stats(), self._server.cpu_seconds(), time.process_time()
        await asked()
        client_seconds = time.process_time() - client
        server_seconds = self._server.cpu_seconds() - server
        function_us = 0.0
        for name, (calls, micros) in self._stats().items():
            calls -= before.get(name, (0, 0.0))[0]
            micros -= before.get(name, (0, 0.0))[1]
            if name == "fcall":
                function_us += micros
            elif name not in _NOT_ASKED:
                self.calls[name] += calls
        self._rounds.append((function_us, server_seconds * 1e6, client_seconds * 1e6))

    def half(self, name: str, jobs: int) -> Half:
        """What each of so many jobs a round cost."""
        rounds = len(self._rounds)
        per_job = {call: count / rounds / jobs for call, count in self.calls.items() if count}
        functions, server, client = (
            min(column) / jobs for column in zip(*self._rounds, strict=True)
        )
        return Half(name, per_job, functions, server, client)

    def _stats(self) -> dict[str, tuple[int, float]]:
        shown: dict[str, dict[str, float]] = self._client.info("commandstats")
        return {
            name.removeprefix("cmdstat_"): (int(each["calls"]), each["usec"])
            for name, each in shown.items()
        }


async def measure(size: Size) -> tuple[list[Half], float]:
    """Both halves and the acknowledgement, and the bytes that an open job takes."""
    async with redis_server() as server:
        ledger = RedisSharedLedger(
            server.url, Random(1), keep_delivered=100, session_ms=HOUR_MS, timeout_ms=20_000
        )
        try:
            sessions = Sessions(ledger, size, seed=2)
            await sessions.begin()
            # The first round loads the functions and learns who sits where.
            for held, job in sessions.next_jobs():
                seq = await sessions.finish(held, job, await sessions.place(held, job))
                await sessions.acknowledge(held, seq)
            meters = [Meter(server) for _ in range(3)]
            bytes_per_job = 0.0
            for _ in range(size.rounds):
                jobs = sessions.next_jobs()
                before = server.info("used_memory:")
                granted: list[r.Granted] = []
                numbers: list[int] = []

                async def place(
                    jobs: list[tuple[r.Holding, r.NewJob]] = jobs,
                    granted: list[r.Granted] = granted,
                ) -> None:
                    granted += await asyncio.gather(*(sessions.place(*job) for job in jobs))

                async def finish(
                    jobs: list[tuple[r.Holding, r.NewJob]] = jobs,
                    granted: list[r.Granted] = granted,
                    numbers: list[int] = numbers,
                ) -> None:
                    numbers += await asyncio.gather(
                        *(
                            sessions.finish(*job, grant)
                            for job, grant in zip(jobs, granted, strict=True)
                        )
                    )

                async def acknowledge(
                    jobs: list[tuple[r.Holding, r.NewJob]] = jobs,
                    numbers: list[int] = numbers,
                ) -> None:
                    await asyncio.gather(
                        *(
                            sessions.acknowledge(held, seq)
                            for (held, _), seq in zip(jobs, numbers, strict=True)
                        )
                    )

                await meters[0].over(place)
                bytes_per_job += (server.info("used_memory:") - before) / len(jobs)
                await meters[1].over(finish)
                await meters[2].over(acknowledge)
            names = ("open and reserve", "finish and close", "acknowledge")
            halves = [
                meter.half(name, size.jobs_at_once)
                for meter, name in zip(meters, names, strict=True)
            ]
            return halves, bytes_per_job / size.rounds
        finally:
            await ledger.stop()


def run(quick: bool) -> list[Table]:
    """The shared ledger on Redis, if there is one to start."""
    if shutil.which("redis-server") is None:
        return []
    halves, bytes_per_job = asyncio.run(measure(QUICK if quick else WHOLE))
    return [halves_table(halves, bytes_per_job)]


def halves_table(halves: Sequence[Half], bytes_per_job: float) -> Table:
    drawn = table(
        f"A session's text job on the shared ledger on Redis ({bytes_per_job:,.0f} bytes open)",
        ("half", "calls", "functions, us", "server CPU, us", "client CPU, us"),
    )
    for half in halves:
        drawn.add_row(
            half.name,
            f"{sum(half.calls.values()):.2f}",
            f"{half.function_us:.1f}",
            f"{half.server_us:.1f}",
            f"{half.client_us:.1f}",
        )
    return drawn
