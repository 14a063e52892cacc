"""What one allocation costs: claim a job, reserve a slot for it, bind the two.

Time is the process's own CPU time, so that whatever else the machine does is not counted. A run
keeps the fleet as full as it found it: each round allocates, then ends what it allocated, and only
the allocations are timed.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from rich.table import Table

from dragoman.clock import SystemClock
from dragoman.ids import (
    AttemptId,
    ConnectionId,
    InstanceId,
    JobId,
    NodeId,
    RequestId,
    TenantId,
    new_attempt_id,
)
from dragoman.live.ledger import (
    Bound,
    Claim,
    Claimed,
    Ending,
    Granted,
    JobInput,
    JobSpec,
    Keep,
    Ledger,
    MemoryLedger,
    Owner,
    Placement,
    RedisLedger,
    Sender,
    SlotAsk,
)
from dragoman.live.protocol import JobClass, Outcome, Pipeline

SLOTS_PER_NODE = 4
CELL_SIZE = 100
FULL_SHARE = 0.97
HERE = InstanceId("i-bench")
HOUR_MS = 3_600_000
KEEP = Keep(lease_ms=1, retention_ms=1)
PIPELINE = Pipeline(use_asr=True, use_nmt=True, use_tts=True)
ENDING = Ending(Outcome.FAILED)
"""Failed jobs leave no result behind, so that the memory of a run stays flat."""

Cells = tuple[tuple[int, int], ...]
Held = tuple[SlotAsk, Granted]


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    fleets: tuple[int, ...]
    batches: int
    jobs_per_batch: int
    jobs_at_once: int
    """At most this many are allocated before any is given back."""


MEMORY = Size((100, 1_000, 10_000, 100_000), batches=60, jobs_per_batch=300, jobs_at_once=100)
MEMORY_QUICK = Size((100, 1_000), batches=3, jobs_per_batch=300, jobs_at_once=100)
REDIS = Size((100, 1_000, 10_000), batches=8, jobs_per_batch=400, jobs_at_once=200)
REDIS_QUICK = Size((100,), batches=2, jobs_per_batch=100, jobs_at_once=100)


class Fleet:
    """A ledger with nodes in its cells, and the asks that dispatch would make of it."""

    def __init__(self, ledger: Ledger, nodes: int, seed: int) -> None:
        self.ledger = ledger
        self.nodes = nodes
        self._random = Random(seed)
        whole, rest = divmod(nodes, CELL_SIZE)
        masks = [(1 << CELL_SIZE) - 1] * whole + ([(1 << rest) - 1] if rest else [])
        self._cells = tuple(enumerate(masks))
        self._made = 0

    async def place(self) -> None:
        for number in range(self.nodes):
            node_id = NodeId(f"n-{number}")
            owner = Owner(HERE, ConnectionId(f"c-{number}"), 1)
            placement = Placement(node_id, owner, SLOTS_PER_NODE, HOUR_MS)
            await self.ledger.seat(number // CELL_SIZE, placement)

    async def fill(self, share: float) -> None:
        """Hold this share of all slots."""
        for _ in range(int(self.nodes * SLOTS_PER_NODE * share)):
            await self.allocate(self.claim(), self.draw())

    def claim(self) -> Claim:
        self._made += 1
        spec = JobSpec(
            tenant=TenantId("bench"),
            request_id=RequestId(f"r-{self._made}"),
            src_lang="zh",
            tgt_lang="en",
            pipeline=PIPELINE,
        )
        return Claim(spec, JobInput(text="hello"), b"body", HERE, HOUR_MS, HOUR_MS)

    def draw(self) -> int:
        """The cell that dispatch asks first."""
        return self._random.randrange(len(self._cells))

    async def allocate(self, claim: Claim, first: int) -> Held:
        """Claim, reserve (the drawn cell, then all the others), bind."""
        claimed = await self.ledger.claim(claim)
        assert isinstance(claimed, Claimed)
        attempt_id = new_attempt_id(self._random)
        ask = self._ask(claimed.job_id, attempt_id, self._cells[first : first + 1])
        granted = await self.ledger.reserve(ask)
        if not isinstance(granted, Granted):
            others = self._cells[first + 1 :] + self._cells[:first]
            granted = await self.ledger.reserve(self._ask(claimed.job_id, attempt_id, others))
        assert isinstance(granted, Granted), granted
        bound = await self.ledger.bind(
            claimed.job_id, attempt_id, granted.cell, granted.node_id, total_ms=None
        )
        assert isinstance(bound, Bound)
        return ask, granted

    def _ask(self, job_id: JobId, attempt_id: AttemptId, cells: Cells) -> SlotAsk:
        return SlotAsk(
            job_id,
            attempt_id,
            cells,
            JobClass.LIVE,
            ack_ms=HOUR_MS,
            lease_ms=HOUR_MS,
            run_ms=HOUR_MS,
        )

    async def give_back(self, held: Held) -> None:
        ask, granted = held
        sender = Sender(granted.node_id, granted.owner.epoch)
        await self.ledger.finish(granted.cell, ask.attempt_id, sender, ENDING, due_ms=HOUR_MS)
        await self.ledger.end(ask.job_id, ask.attempt_id, ENDING, keep=KEEP)
        await self.ledger.settle(granted.cell, [ask.attempt_id])

    async def sweep(self) -> None:
        """Forget the jobs that have ended."""
        for _ in range(2):
            await self.ledger.due_jobs(range(256), 100_000)


async def cpu_us_per_allocation(
    fleet: Fleet, size: Size, free_slots: int, *, together: bool = False
) -> float:
    """The quietest batch, which the machine's other work disturbed least.

    together: asked in the same turns of the loop, as under load.
    """
    # A quarter of what is free at most, so that a run does not change how full the fleet is.
    at_once = max(1, min(size.jobs_at_once, free_slots // 4))
    batches = []
    for _ in range(size.batches):
        gc.collect()
        seconds = 0.0
        rounds = max(1, size.jobs_per_batch // at_once)
        for _ in range(rounds):
            asks = [(fleet.claim(), fleet.draw()) for _ in range(at_once)]
            started = time.process_time()
            if together:
                held = list(await asyncio.gather(*(fleet.allocate(*ask) for ask in asks)))
            else:
                held = [await fleet.allocate(*ask) for ask in asks]
            seconds += time.process_time() - started
            for one in held:
                await fleet.give_back(one)
        batches.append(seconds * 1e6 / (rounds * at_once))
    return min(batches)


async def measure_memory(size: Size) -> list[tuple[int, float, float]]:
    """(nodes, microseconds empty, microseconds at 97 % full) for each fleet."""
    rows = []
    for nodes in size.fleets:
        fleet = Fleet(MemoryLedger(SystemClock(), Random(1), cell_size=CELL_SIZE), nodes, seed=2)
        slots = nodes * SLOTS_PER_NODE
        await fleet.place()
        # A server does the same once it is up: what is there to stay is not looked at again.
        gc.freeze()
        empty = await cpu_us_per_allocation(fleet, size, slots)
        await fleet.sweep()
        await fleet.fill(FULL_SHARE)
        gc.freeze()
        full = await cpu_us_per_allocation(fleet, size, int(slots * (1 - FULL_SHARE)))
        gc.unfreeze()
        rows.append((nodes, empty, full))
    return rows


# --- Redis --------------------------------------------------------------------------------------


class RedisServer:
    """A Redis of the benchmark's own."""

    def __init__(self, directory: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--dir", directory, "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        self.url = f"redis://127.0.0.1:{self.port}"

    def info(self, field: str) -> float:
        """A number from INFO."""
        shown = subprocess.run(
            ["redis-cli", "-p", str(self.port), "INFO", "everything"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        return next(
            (float(line.split(":")[1]) for line in shown.splitlines() if line.startswith(field)),
            0.0,
        )

    def cpu_seconds(self) -> float:
        return self.info("used_cpu_user:") + self.info("used_cpu_sys:")

    def wait(self) -> None:
        """Until it answers."""
        while not self.info("process_id:"):
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


@asynccontextmanager
async def redis_server() -> AsyncIterator[RedisServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = RedisServer(directory)
        try:
            async with asyncio.timeout(10):
                await asyncio.to_thread(server.wait)
            yield server
        finally:
            server.stop()


@dataclass(frozen=True)
class RedisRow:
    """What an allocation and what it leaves in Redis cost."""

    nodes: int
    client_us: float
    server_us: float
    operations: float
    bytes_per_node: float
    bytes_per_job: float


async def measure_redis(size: Size) -> list[RedisRow]:
    rows = []
    for nodes in size.fleets:
        async with redis_server() as server:
            ledger = RedisLedger(server.url, Random(1), cell_size=CELL_SIZE)
            try:
                rows.append(
                    await _measure_redis(Fleet(ledger, nodes, seed=2), ledger, server, size)
                )
            finally:
                await ledger.close()
    return rows


async def _measure_redis(
    fleet: Fleet, ledger: RedisLedger, server: RedisServer, size: Size
) -> RedisRow:
    bare = server.info("used_memory:")
    await fleet.place()
    placed = server.info("used_memory:")
    for held in [await fleet.allocate(fleet.claim(), fleet.draw()) for _ in range(10)]:
        await fleet.give_back(held)
    jobs = min(size.jobs_at_once, fleet.nodes)
    operations = sum(ledger.operations.values())
    before = server.info("used_memory:")
    held_jobs = [await fleet.allocate(fleet.claim(), fleet.draw()) for _ in range(jobs)]
    per_job = (sum(ledger.operations.values()) - operations) / jobs
    bytes_per_job = (server.info("used_memory:") - before) / jobs
    for held in held_jobs:
        await fleet.give_back(held)
    server_before = server.cpu_seconds()
    slots = fleet.nodes * SLOTS_PER_NODE
    client_us = await cpu_us_per_allocation(fleet, size, slots, together=True)
    # The server's share covers the whole life of the jobs: allocation and end.
    lives = size.batches * size.jobs_per_batch
    server_us = (server.cpu_seconds() - server_before) * 1e6 / lives
    return RedisRow(
        fleet.nodes,
        client_us,
        server_us,
        per_job,
        (placed - bare) / fleet.nodes,
        bytes_per_job,
    )


# --- tables -------------------------------------------------------------------------------------


def table(title: str, columns: Sequence[str]) -> Table:
    drawn = Table(title=title, title_justify="left")
    for column in columns:
        drawn.add_column(column, justify="right")
    return drawn


def run(quick: bool) -> list[Table]:
    """Allocation alone, in memory and on Redis."""
    memory = asyncio.run(measure_memory(MEMORY_QUICK if quick else MEMORY))
    tables = [memory_table(memory)]
    if shutil.which("redis-server") is not None:
        tables.append(redis_table(asyncio.run(measure_redis(REDIS_QUICK if quick else REDIS))))
    return tables


def memory_table(rows: Sequence[tuple[int, float, float]]) -> Table:
    smallest = rows[0][1]
    drawn = table(
        "Allocation (claim, reserve, bind), memory ledger: CPU microseconds",
        ("nodes", "empty", "97 % full", "empty, against the smallest", "rate kept at 97 %"),
    )
    for nodes, empty, full in rows:
        drawn.add_row(
            f"{nodes:,}",
            f"{empty:.1f}",
            f"{full:.1f}",
            f"{empty / smallest:.2f} x",
            f"{empty / full:.0%}",
        )
    return drawn


def redis_table(rows: Sequence[RedisRow]) -> Table:
    drawn = table(
        "The same on Redis, hundreds at once: CPU microseconds",
        ("nodes", "client", "server, a job's life", "operations", "bytes a node", "bytes a job"),
    )
    for row in rows:
        drawn.add_row(
            f"{row.nodes:,}",
            f"{row.client_us:.0f}",
            f"{row.server_us:.0f}",
            f"{row.operations:.1f}",
            f"{row.bytes_per_node:,.0f}",
            f"{row.bytes_per_job:,.0f}",
        )
    return drawn
