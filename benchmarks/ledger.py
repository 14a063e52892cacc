"""What one allocation costs in memory: claim a request, hold a slot for its job, bind the two.

Time is the process's own CPU time, so that whatever else the machine does is not counted. A run
keeps the fleet as full as it found it: each round allocates, then ends what it allocated, and only
the allocations are timed. The same on Redis: `python -m benchmarks shared`.
"""

from __future__ import annotations

import asyncio
import gc
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
    ConnectionId,
    InstanceId,
    NodeId,
    RequestId,
    TenantId,
    new_attempt_id,
)
from dragoman.live.dispatch import LedgerTerms, MemoryLedger, SlotRules
from dragoman.live.dispatch.job import Job
from dragoman.live.dispatch.job_ledger import Finishing, PlaceAnswer, Placing
from dragoman.live.ledger import (
    Ending,
    Freed,
    JobInput,
    JobSpec,
    Keep,
    Owner,
    Placement,
    Strategy,
)
from dragoman.live.protocol import Outcome, Pipeline
from dragoman.live.snapshot import JobRequirement, PoolRule

SLOTS_PER_NODE = 4
CELL_SIZE = 100
FULL_SHARE = 0.97
HERE = InstanceId("i-bench")
HOUR_MS = 3_600_000
KEEP = Keep(lease_ms=1, retention_ms=1)
PIPELINE = Pipeline(use_asr=True, use_nmt=True, use_tts=True)
REQUIREMENT = JobRequirement(PoolRule.ASR_TTS, (("zh", "en"),), PIPELINE, ())
ENDING = Ending(Outcome.FAILED)
"""Failed jobs leave no result behind, so that the memory of a run stays flat."""


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


class Fleet:
    """A ledger with nodes in its cells, and the jobs that dispatch would place on it."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.nodes = nodes
        self._clock = SystemClock()
        terms = LedgerTerms(SlotRules(Strategy.RANDOM, 0.0, 0, 1_000), KEEP)
        self.ledger = MemoryLedger(terms, HERE, self._clock, Random(1), cell_size=CELL_SIZE)
        self._random = Random(seed)
        whole, rest = divmod(nodes, CELL_SIZE)
        masks = [(1 << CELL_SIZE) - 1] * whole + ([(1 << rest) - 1] if rest else [])
        self._cells = tuple(enumerate(masks))
        self._made = 0

    async def place(self) -> None:
        """Seat every node."""
        for number in range(self.nodes):
            node_id = NodeId(f"n-{number}")
            owner = Owner(HERE, ConnectionId(f"c-{number}"), 1)
            placement = Placement(node_id, owner, SLOTS_PER_NODE, HOUR_MS)
            await self.ledger.seat(number // CELL_SIZE, placement)

    def fill(self, share: float) -> None:
        """Hold this share of all slots."""
        for _ in range(int(self.nodes * SLOTS_PER_NODE * share)):
            self.allocate(self.job())

    def job(self) -> Job:
        """A job that was just submitted, and aims at the cell that dispatch would ask first."""
        self._made += 1
        request_id = RequestId(f"r-{self._made}")
        spec = JobSpec(TenantId("bench"), request_id, "zh", "en", PIPELINE)
        now = self._clock.monotonic()
        job = Job(spec, JobInput(text="hello"), b"body", REQUIREMENT, None, now, now, False, "en")
        job.attempt_id = new_attempt_id(self._random)
        first = self._random.randrange(len(self._cells))
        job.cells = self._cells[first : first + 1]
        return job

    def allocate(self, job: Job) -> None:
        """Claim, hold a slot (of the drawn cell, else of all the others), bind."""
        now = self._clock.monotonic()
        self.ledger.place(job, now, self._look_further)

    def _look_further(self, job: Job, answer: PlaceAnswer, now: float) -> None:
        if answer.kind is Placing.PLACED:
            return
        first = job.cells[0][0]
        job.cells = self._cells[first + 1 :] + self._cells[:first]
        self.ledger.place(job, now, _is_placed)

    def give_back(self, job: Job) -> None:
        """End the job."""
        self.ledger.finish(job, ENDING, again=False, now=self._clock.monotonic(), then=_has_ended)


def _is_placed(job: Job, answer: PlaceAnswer, now: float) -> None:
    assert answer.kind is Placing.PLACED, answer


def _has_ended(job: Job, answer: Finishing, freed: Freed, now: float) -> None:
    assert answer is Finishing.ENDED, answer


def cpu_us_per_allocation(fleet: Fleet, size: Size, free_slots: int) -> float:
    """The quietest batch, which the machine's other work disturbed least."""
    # A quarter of what is free at most, so that a run does not change how full the fleet is.
    at_once = max(1, min(size.jobs_at_once, free_slots // 4))
    batches = []
    for _ in range(size.batches):
        gc.collect()
        seconds = 0.0
        rounds = max(1, size.jobs_per_batch // at_once)
        for _ in range(rounds):
            jobs = [fleet.job() for _ in range(at_once)]
            started = time.process_time()
            for job in jobs:
                fleet.allocate(job)
            seconds += time.process_time() - started
            for job in jobs:
                fleet.give_back(job)
        fleet.ledger.sweep()
        batches.append(seconds * 1e6 / (rounds * at_once))
    return min(batches)


async def measure_memory(size: Size) -> list[tuple[int, float, float]]:
    """(nodes, microseconds empty, microseconds at 97 % full) for each fleet."""
    rows = []
    for nodes in size.fleets:
        fleet = Fleet(nodes, seed=2)
        slots = nodes * SLOTS_PER_NODE
        await fleet.place()
        # A server does the same once it is up: what is there to stay is not looked at again.
        gc.freeze()
        empty = cpu_us_per_allocation(fleet, size, slots)
        fleet.fill(FULL_SHARE)
        gc.freeze()
        full = cpu_us_per_allocation(fleet, size, int(slots * (1 - FULL_SHARE)))
        gc.unfreeze()
        rows.append((nodes, empty, full))
    return rows


# --- Redis, for the benchmarks that need one ----------------------------------------------------


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


# --- tables -------------------------------------------------------------------------------------


def table(title: str, columns: Sequence[str]) -> Table:
    drawn = Table(title=title, title_justify="left")
    for column in columns:
        drawn.add_column(column, justify="right")
    return drawn


def run(quick: bool) -> list[Table]:
    """Allocation alone, in memory."""
    return [memory_table(asyncio.run(measure_memory(MEMORY_QUICK if quick else MEMORY)))]


def memory_table(rows: Sequence[tuple[int, float, float]]) -> Table:
    smallest = rows[0][1]
    drawn = table(
        "Allocation (claim, hold, bind), memory ledger: CPU microseconds",
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
