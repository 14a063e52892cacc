"""The life of one job, step by step, in a process that may be killed between any two steps.

Run as a program it plays the story on a Redis and kills itself where it is told to.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from random import Random

import msgspec
from tests.servers import PATIENT_MS

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, RequestId, TenantId, new_attempt_id
from dragoman.live.ledger import (
    Bound,
    Claim,
    Claimed,
    Ending,
    Finished,
    Granted,
    JobInput,
    JobSpec,
    Keep,
    Ledger,
    RedisLedger,
    Sender,
    SlotAsk,
    Terms,
    Times,
)
from dragoman.live.protocol import AttemptState, JobClass, JobResult, Outcome, Pipeline

STEPS = (
    *("claim", "reserve", "bind", "tell", "ack", "start", "finish", "take", "settle"),
    "release",
)
TERMS = Terms(
    ack_ms=200,
    run_ms=400,
    total_ms=60_000,
    lease_ms=400,
    grace_ms=200,
    max_attempts=3,
    keep=Keep(lease_ms=1_000, retention_ms=2_000),
)
REQUEST = RequestId("the-request")
VICTIM = InstanceId("i-victim")


class Stage(msgspec.Struct, frozen=True):
    """Where the story plays and where it breaks off."""

    url: str
    key_prefix: str
    node_id: str
    epoch: int
    cell: int
    index: int
    kill_before: str


def the_claim(instance_id: InstanceId) -> Claim:
    spec = JobSpec(TenantId("acme"), REQUEST, "zh", "en", Pipeline(use_nmt=True))
    return Claim(spec, JobInput(text="hello"), b"body", instance_id, TERMS.ack_ms, TERMS.total_ms)


def the_ask(job_id: JobId, attempt_id: AttemptId, cell: int, index: int) -> SlotAsk:
    return SlotAsk(
        job_id,
        attempt_id,
        ((cell, 1 << index),),
        JobClass.LIVE,
        ack_ms=TERMS.ack_ms,
        lease_ms=TERMS.lease_ms,
        run_ms=TERMS.run_ms,
    )


def the_ending(job_id: JobId, attempt_id: AttemptId) -> Ending:
    output = JobResult(job_id, attempt_id, True, text_translated="hola")
    return Ending(Outcome.SUCCESS, output=output)


class Story:
    """Each method is one step; each needs those before it."""

    def __init__(self, ledger: Ledger, stage: Stage) -> None:
        self._ledger = ledger
        self._stage = stage
        self._sender = Sender(NodeId(stage.node_id), stage.epoch)
        self._attempt_id = new_attempt_id(Random())
        self._job_id = JobId("")

    async def play(self) -> None:
        steps: dict[str, Callable[[], Awaitable[None]]] = {
            "claim": self._claim,
            "reserve": self._reserve,
            "bind": self._bind,
            "tell": self._tell,
            "ack": self._ack,
            "start": self._start,
            "finish": self._finish,
            "take": self._take,
            "settle": self._settle,
            "release": self._release,
        }
        for name in STEPS:
            if name == self._stage.kill_before:
                os.kill(os.getpid(), signal.SIGKILL)
            await steps[name]()
        os.kill(os.getpid(), signal.SIGKILL)

    async def _claim(self) -> None:
        claimed = await self._ledger.claim(the_claim(VICTIM))
        assert isinstance(claimed, Claimed)
        self._job_id = claimed.job_id

    async def _reserve(self) -> None:
        stage = self._stage
        ask = the_ask(self._job_id, self._attempt_id, stage.cell, stage.index)
        assert isinstance(await self._ledger.reserve(ask), Granted)

    async def _bind(self) -> None:
        node_id = NodeId(self._stage.node_id)
        bound = await self._ledger.bind(
            self._job_id, self._attempt_id, self._stage.cell, node_id, total_ms=None
        )
        assert isinstance(bound, Bound)

    async def _tell(self) -> None:
        """The node hears of the attempt: from here on it may be working on it."""
        print(self._attempt_id, flush=True)  # noqa: T201

    async def _ack(self) -> None:
        await self._step_to(AttemptState.ACCEPTED)

    async def _start(self) -> None:
        await self._step_to(AttemptState.RUNNING)

    async def _step_to(self, state: AttemptState) -> None:
        await self._ledger.transition(self._stage.cell, self._attempt_id, self._sender, state)

    async def _finish(self) -> None:
        ending = the_ending(self._job_id, self._attempt_id)
        finished = await self._ledger.finish(
            self._stage.cell, self._attempt_id, self._sender, ending, due_ms=100
        )
        assert isinstance(finished, Finished)

    async def _take(self) -> None:
        ending = the_ending(self._job_id, self._attempt_id)
        await self._ledger.end(
            self._job_id, self._attempt_id, ending, times=Times(), keep=TERMS.keep
        )

    async def _settle(self) -> None:
        await self._ledger.settle(self._stage.cell, [self._attempt_id])

    async def _release(self) -> None:
        await self._ledger.release([self._job_id])


async def play(stage: Stage) -> None:
    ledger = RedisLedger(stage.url, Random(), key_prefix=stage.key_prefix, timeout_ms=PATIENT_MS)
    await Story(ledger, stage).play()


def main() -> None:
    """Plays every stage that a line of the input describes, each in a process of its own.

    Forked, so that the program is loaded once. Answers a line for each: how the process died.
    """
    for line in sys.stdin:
        stage = msgspec.json.decode(line, type=Stage)
        child = os.fork()
        if child == 0:
            asyncio.run(play(stage))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
