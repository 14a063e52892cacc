"""A process is killed between any two steps of a job; others bring the job to its end, once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.integration.ledger_crash.story import (
    STEPS,
    TERMS,
    Stage,
    the_ask,
    the_claim,
    the_ending,
)
from tests.servers import PATIENT_MS, RedisProcess

from dragoman.ids import (
    JOB_SHARDS,
    AttemptId,
    ConnectionId,
    InstanceId,
    JobId,
    NodeId,
    new_attempt_id,
    new_id,
)
from dragoman.live.ledger import (
    AttemptRecord,
    Bound,
    CancelWon,
    Claimed,
    Existing,
    Freed,
    Granted,
    Heartbeat,
    JobInput,
    JobRecord,
    Placed,
    Placement,
    RedisLedger,
    Registered,
    Registration,
    Sender,
    Settlement,
    Sweeper,
)
from dragoman.live.protocol import AttemptState, JobState, Outcome, RunningJob

pytestmark = pytest.mark.redis

ROOT = Path(__file__).parents[3]
NODE_ALIVE_MS = 60_000
RESCUER = InstanceId("i-rescuer")
KILLS = (*STEPS, "nothing")
"""The step before which the process dies; the last one dies after everything was done."""


class Rescue:
    """The instance that is left: it sweeps, and its one node does what it is told."""

    def __init__(self, ledger: RedisLedger, stage: Stage) -> None:
        self.ledger = ledger
        self.stage = stage
        self.sender = Sender(NodeId(stage.node_id), stage.epoch)
        self.running: dict[AttemptId, JobId] = {}
        """What the node works on."""
        self.ends: list[JobRecord] = []
        self._settlement = Settlement(ledger, TERMS, RESCUER)
        self._random = Random()

    async def tell_cancel(self, won: CancelWon, attempt: AttemptRecord) -> None:
        """The node stops, and says so."""
        self.running.pop(attempt.attempt_id, None)
        ending = the_ending(attempt.job_id, attempt.attempt_id)
        await self.ledger.finish(attempt.cell, attempt.attempt_id, self.sender, ending, due_ms=100)

    async def ask_report(self, attempt: AttemptRecord) -> None:
        await self.beat()

    async def beat(self) -> None:
        listed = tuple(RunningJob(job, attempt) for attempt, job in self.running.items())
        heartbeat = Heartbeat(self.sender.node_id, self.sender.epoch, NODE_ALIVE_MS, listed)
        await self.ledger.beat(self.stage.cell, heartbeat)

    async def dispatch(self, job: JobRecord, job_input: JobInput) -> None:
        """Find the job a slot and let the node do it; when it is full, a later sweep tries."""
        attempt_id = new_attempt_id(self._random)
        ask = the_ask(job.job_id, attempt_id, self.stage.cell, self.stage.index)
        granted = await self.ledger.reserve(ask)
        if not isinstance(granted, Granted):
            return
        bound = await self.ledger.bind(
            job.job_id, attempt_id, granted.cell, granted.node_id, total_ms=None
        )
        if not isinstance(bound, Bound):
            await self.ledger.drop(granted.cell, attempt_id)
            return
        await self.ledger.transition(granted.cell, attempt_id, self.sender, AttemptState.ACCEPTED)
        ending = the_ending(job.job_id, attempt_id)
        await self.ledger.finish(granted.cell, attempt_id, self.sender, ending, due_ms=100)
        attempt = await self.ledger.read_attempt(granted.cell, attempt_id)
        if attempt is not None:
            await self._settlement.take(attempt)

    async def ended(self, job: JobRecord) -> None:
        self.ends.append(job)

    async def freed(self, freed: Freed) -> None:
        """No job waits for slots here."""

    async def sweep_until_ended(self, job_id: JobId, sweepers: int) -> JobRecord:
        """Sweep, several at once, until the job has its end and no slot is held."""
        many = [Sweeper(self.ledger, self, TERMS, RESCUER) for _ in range(sweepers)]
        async with asyncio.timeout(20):
            while True:
                await self.beat()
                sweeps = (one.sweep([self.stage.cell], range(JOB_SHARDS)) for one in many)
                await asyncio.gather(*sweeps)
                job = await self.ledger.read(job_id)
                size = await self.ledger.size()
                if job is not None and job.ended and not size["held"] and not size["ended"]:
                    return job
                await asyncio.sleep(0.02)


async def set_stage(ledger: RedisLedger, url: str, key_prefix: str, kill_before: str) -> Stage:
    """One node with one slot."""
    node_id = NodeId("n-1")
    registration = Registration(node_id, RESCUER, ConnectionId("c-1"))
    registered = await ledger.register(registration)
    assert isinstance(registered, Registered)
    placement = Placement(node_id, registered.owner, 1, NODE_ALIVE_MS)
    placed = await ledger.place(registered.cell, placement)
    assert isinstance(placed, Placed)
    epoch = registered.owner.epoch
    return Stage(url, key_prefix, node_id, epoch, registered.cell, placed.index, kill_before)


class Players:
    """The program that plays stories until they die."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.ledger_crash.story"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def play(self, stage: Stage) -> str | None:
        """Play until it dies; answers the attempt that the node was told of, if it was."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(stage).decode() + "\n")
        self._process.stdin.flush()
        told = None
        while (line := self._process.stdout.readline().strip()).startswith("a-"):
            told = line
        assert line == str(-signal.SIGKILL), line
        return told

    def close(self) -> None:
        with self._process:
            pass


@pytest.fixture(scope="module")
def players() -> Iterator[Players]:
    started = Players()
    yield started
    started.close()


async def crash_and_rescue(
    server: RedisProcess, players: Players, kill_before: str, sweepers: int
) -> None:
    key_prefix = new_id(Random(), "crash")
    ledger = RedisLedger(server.url, Random(), key_prefix=key_prefix, timeout_ms=PATIENT_MS)
    try:
        stage = await set_stage(ledger, server.url, key_prefix, kill_before)
        rescue = Rescue(ledger, stage)
        told = await asyncio.to_thread(players.play, stage)
        again = await ledger.claim(the_claim(RESCUER))
        if isinstance(again, Claimed):
            assert kill_before == "claim", "the request was lost"
            return
        assert isinstance(again, Existing)
        if told and kill_before in ("ack", "start", "finish"):
            rescue.running[AttemptId(told)] = again.job.job_id
        job = await rescue.sweep_until_ended(again.job.job_id, sweepers)
        assert (job.state, job.outcome) in (
            (JobState.FINISHED, Outcome.SUCCESS),
            (JobState.RELEASED, Outcome.SUCCESS),
        )
        assert {end.finished_at_ms for end in rescue.ends} <= {job.finished_at_ms}
        assert sum(past.outcome is Outcome.SUCCESS for past in job.attempts) == 1
        cell = await ledger.read_cell(stage.cell)
        assert cell is not None
        assert [seat.held for seat in cell.seats] == [0]
    finally:
        await ledger.close()


@pytest.mark.parametrize("kill_before", KILLS)
@pytest.mark.parametrize("sweepers", [1, 2])
def test_a_job_whose_process_died_ends_once_and_gives_its_slot_back(
    redis_server: RedisProcess, players: Players, kill_before: str, sweepers: int
) -> None:
    asyncio.run(crash_and_rescue(redis_server, players, kill_before, sweepers))
