"""The process of an asker dies before or after each single call of an operation.

Every operation of the interface is tried, with all of its calls: how many there are is counted, not
listed. Afterwards what is kept fits together, and another process that asks the same finds its way.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import msgspec
import pytest
from tests.contract.shared.bench import (
    CANCELLED,
    CLAIM_MS,
    DUE_MS,
    GRACE_MS,
    HERE,
    KEEP,
    KEEP_DELIVERED,
    LEASE_MS,
    RUN_MS,
    SESSION_MS,
    TENANT,
    THERE,
    TOMBSTONE_MS,
    Attempt,
    Bench,
    Node,
    past,
    success,
)
from tests.integration.shared_redis.stepping import Stepping
from tests.servers import PATIENT_MS, RedisProcess

from dragoman.cli.redis_keys import families
from dragoman.clock import ManualClock
from dragoman.ids import JOB_SHARDS, ConnectionId, NodeId
from dragoman.live.ledger import (
    Adoption,
    Ending,
    Heartbeat,
    JobInput,
    Placement,
    Registration,
    Sender,
    Times,
)
from dragoman.live.protocol import AttemptState, JobClass, JobResult, Outcome
from dragoman.live.shared import Cells, RedisCheck, RedisSharedLedger, Shards, SharedLedger
from dragoman.live.shared import records as r
from dragoman.live.shared.check import Damage

pytestmark = pytest.mark.redis

LONG = "a long text " * 400
NOT_OF_LIVES = {"size", "start", "stop", "list_again"}
"""Of the whole ledger; and what is only gathered, to be written with the next list."""

_prefixes = count()

Operation = Callable[[SharedLedger], Coroutine[Any, Any, Any]]


@dataclass(frozen=True)
class Scene:
    """A session with an open job, whose attempt holds a slot, and things at other stages."""

    bench: Bench
    node: Node
    held: r.Holding
    job: r.NewJob
    attempt: Attempt
    kept: Attempt
    """One that ended, and whose long result its cell keeps."""
    stray: Attempt
    """One that its node runs, and the cell does not know."""


def set_the_scene(bench: Bench) -> Scene:
    node = bench.join("n-1", slots=4)
    held = bench.begin()
    opening = bench.utterance(held, 0)
    job = opening.jobs[0]
    bench.open(opening)
    attempt = bench.dispatch(node, attempt_id=job.attempt_id, job_id=job.job_id)
    bench.accept(attempt)
    other = bench.open_job()
    kept = bench.dispatch(node, attempt_id=other.attempt_id, job_id=other.job_id)
    bench(bench.ledger.finish(0, kept.attempt_id, kept.sender, long_end(kept)))
    batch = bench.open_job(job_class=JobClass.BATCH)
    bench.dispatch(node, attempt_id=batch.attempt_id, job_id=batch.job_id, job_class=JobClass.BATCH)
    strange = bench.open_job()
    stray = Attempt(strange.job_id, strange.attempt_id, 0, node.node_id, node.sender)
    return Scene(bench, node, held, job, attempt, kept, stray)


def long_result(attempt: Attempt) -> JobResult:
    output = success(attempt.job_id, attempt.attempt_id, LONG).output
    assert output is not None
    return output


def long_end(attempt: Attempt) -> r.Finish:
    return r.Finish(Outcome.SUCCESS, long_result(attempt), None, DUE_MS)


# --- one operation each -------------------------------------------------------------------------


def open_long(scene: Scene) -> Operation:
    opening = scene.bench.utterance(scene.held, 1)
    [job] = opening.jobs
    long = msgspec.structs.replace(job, input=JobInput(text=LONG))
    opening = msgspec.structs.replace(opening, jobs=(long,))
    return lambda ledger: ledger.open(opening)


def open_again_after_a_failure(scene: Scene) -> Operation:
    bench = scene.bench
    failed = bench.open_job("asked-again")
    bench.close(failed, Ending(Outcome.FAILED, error=CANCELLED))
    opening = bench.opening(bench.new_job("asked-again"))
    return lambda ledger: ledger.open(opening)


def close_long(scene: Scene) -> Operation:
    ending = Ending(Outcome.SUCCESS, long_result(scene.attempt))
    closing = scene.bench.closing(scene.job, ending, held=scene.held)

    async def both(ledger: SharedLedger) -> Any:
        # As the driver does: the slot comes free beside the job's end.
        finish = r.Finish(Outcome.SUCCESS, due_ms=DUE_MS)
        sender = scene.attempt.sender
        return await asyncio.gather(
            ledger.finish(0, scene.attempt.attempt_id, sender, finish), ledger.close(closing)
        )

    return both


def finish_long(scene: Scene) -> Operation:
    attempt = scene.attempt
    return lambda ledger: ledger.finish(0, attempt.attempt_id, attempt.sender, long_end(attempt))


def move(scene: Scene) -> Operation:
    moving = scene.bench.moving(scene.job, ended=past(scene.job))

    async def both(ledger: SharedLedger) -> Any:
        await ledger.drop(0, scene.attempt.attempt_id, tombstone_ms=TOMBSTONE_MS)
        await ledger.cancel(0, scene.attempt.attempt_id, CANCELLED, grace_ms=GRACE_MS)
        return await ledger.move(moving)

    return both


def take_over(scene: Scene) -> Operation:
    return lambda ledger: ledger.take_over(
        scene.job.job_id, scene.job.attempt_id, HERE, claim_ms=CLAIM_MS
    )


def release(scene: Scene) -> Operation:
    closed = scene.bench.open_job()
    scene.bench.close(
        closed, Ending(Outcome.SUCCESS, success(closed.job_id, closed.attempt_id, LONG).output)
    )
    return lambda ledger: ledger.release([closed.job_id])


def reserve(scene: Scene) -> Operation:
    job = scene.bench.open_job()
    ask = scene.bench.ask(scene.node, attempt_id=job.attempt_id, job_id=job.job_id)
    return lambda ledger: ledger.reserve(ask)


def preempt(scene: Scene) -> Operation:
    bench = scene.bench
    for _ in range(2):
        job = bench.open_job()
        bench.dispatch(scene.node, attempt_id=job.attempt_id, job_id=job.job_id)
    job = bench.open_job()
    ask = bench.ask(scene.node, attempt_id=job.attempt_id, job_id=job.job_id)
    return lambda ledger: ledger.preempt(ask)


def seat(scene: Scene) -> Operation:
    register = Registration(scene.node.node_id, THERE, ConnectionId("c-2"))

    async def both(ledger: SharedLedger) -> Any:
        registered = await ledger.register(register)
        placement = Placement(
            scene.node.node_id,
            registered.owner,  # type: ignore[union-attr]
            4,
            LEASE_MS,
            (scene.attempt.running, scene.stray.running),
        )
        return await ledger.seat(0, placement)

    return both


def beat(scene: Scene) -> Operation:
    heartbeat = Heartbeat(scene.node.node_id, scene.node.owner.epoch, LEASE_MS, (), 9)
    return lambda ledger: ledger.beat(0, heartbeat)


def adopt(scene: Scene) -> Operation:
    adoption = Adoption(
        scene.stray.running, scene.node.sender, JobClass.LIVE, True, LEASE_MS, RUN_MS
    )
    return lambda ledger: ledger.adopt(0, adoption)


def step(scene: Scene) -> Operation:
    said = r.AttemptStep(
        scene.attempt.attempt_id, NodeId("n-1"), scene.node.owner.epoch, AttemptState.RUNNING, 2
    )
    return lambda ledger: ledger.step(0, (said,))


def deliver(scene: Scene) -> Operation:
    bench = scene.bench
    held = bench.begin()
    refused = bench.utterance(held, 0, refused=["en"])
    bench.open(refused)
    second = bench.utterance(held, 1)
    bench.open(second)
    bench(bench.ledger.close(bench.closing(second.jobs[0])))
    entry = r.Delivery(1, "en", second.jobs[0].job_id)
    return lambda ledger: ledger.deliver(held, (entry,))


def begin_session(scene: Scene) -> Operation:
    session = scene.bench.new_session()
    return lambda ledger: ledger.begin_session(session)


def restore(scene: Scene) -> Operation:
    session = scene.bench.session(scene.held)
    return lambda ledger: ledger.restore_session(session)


def renew_sessions(scene: Scene) -> Operation:
    others = [scene.bench.begin() for _ in range(3)]
    return lambda ledger: ledger.renew_sessions((scene.held, *others))


def forget(scene: Scene) -> Operation:
    node = scene.bench.join("n-2")

    async def both(ledger: SharedLedger) -> Any:
        await ledger.remove(0, node.sender)
        return await ledger.forget(node.node_id, node.owner.epoch)

    return both


def amend(scene: Scene) -> Operation:
    return lambda ledger: ledger.amend(0, scene.node.sender, slots=9, facts=b"more")


def mark_asked(scene: Scene) -> Operation:
    scene.bench.cancel(scene.attempt)
    return lambda ledger: ledger.mark_asked(0, scene.attempt.attempt_id, grace_ms=GRACE_MS)


def acknowledge(scene: Scene) -> Operation:
    return lambda ledger: ledger.acknowledge(scene.held, 1)


OPERATIONS: dict[str, Callable[[Scene], Operation]] = {
    "open": open_long,
    "open again after a failure": open_again_after_a_failure,
    "move": move,
    "close": close_long,
    "renew": lambda scene: lambda ledger: ledger.renew([scene.job.job_id], HERE, claim_ms=CLAIM_MS),
    "take_over": take_over,
    "release": release,
    "read": lambda scene: lambda ledger: ledger.read(scene.job.job_id),
    "read_open": lambda scene: lambda ledger: ledger.read_open(scene.job.job_id),
    "due": lambda scene: lambda ledger: ledger.due([int(scene.job.job_id[2:4], 16)], 9),
    "recent": lambda scene: lambda ledger: ledger.recent(TENANT, 9),
    "begin_session": begin_session,
    "restore_session": restore,
    "take_session": lambda scene: (
        lambda ledger: ledger.take_session(scene.held.session_id, THERE, ConnectionId("c-9"))
    ),
    "deliver": deliver,
    "acknowledge": acknowledge,
    "renew_sessions": renew_sessions,
    "end_session": lambda scene: (
        lambda ledger: ledger.end_session(scene.held.session_id, scene.held.owner)
    ),
    "read_session": lambda scene: lambda ledger: ledger.read_session(scene.held.session_id),
    "keep_past": lambda scene: lambda ledger: ledger.keep_past(scene.held.session_id, b"said"),
    "read_past": lambda scene: lambda ledger: ledger.read_past(scene.held.session_id),
    "reserve": reserve,
    "finish": finish_long,
    "step": step,
    "preempt": preempt,
    "cancel": lambda scene: (
        lambda ledger: ledger.cancel(0, scene.attempt.attempt_id, CANCELLED, grace_ms=GRACE_MS)
    ),
    "drop": lambda scene: (
        lambda ledger: ledger.drop(0, scene.attempt.attempt_id, tombstone_ms=TOMBSTONE_MS)
    ),
    "settle": lambda scene: lambda ledger: ledger.settle(0, [scene.kept.attempt_id]),
    "look": lambda scene: (
        lambda ledger: ledger.look(0, scene.kept.attempt_id, tombstone_ms=TOMBSTONE_MS)
    ),
    "mark_asked": mark_asked,
    "adopt": adopt,
    "due_attempts": lambda scene: lambda ledger: ledger.due_attempts(0, 9),
    "outlook": lambda scene: lambda ledger: ledger.outlook([(0, 1), (1, 1)]),
    "register": seat,
    "seat": seat,
    "forget": forget,
    "remove": forget,
    "lookup": lambda scene: lambda ledger: ledger.lookup(scene.node.node_id),
    "members": lambda scene: lambda ledger: ledger.members(0),
    "cells": lambda scene: lambda ledger: ledger.cells(),
    "beat": beat,
    "amend": amend,
    "set_drained": lambda scene: lambda ledger: ledger.set_drained(0, scene.node.node_id, True),
    "disconnect": lambda scene: lambda ledger: ledger.disconnect(0, scene.node.sender),
    "lose": lambda scene: lambda ledger: ledger.lose(0, scene.node.sender),
    "read_cell": lambda scene: lambda ledger: ledger.read_cell(0),
    "cell_version": lambda scene: lambda ledger: ledger.cell_version(0),
    "read_changes": lambda scene: lambda ledger: ledger.read_changes(0, 0),
}

IN_PASSING = {Damage.NO_TIME_TO_LIVE, Damage.ATTEMPT_WITHOUT_JOB}
"""What is so for a while: keys get their time to live from the sweep, and a slot whose job went on
without it comes free by its lease."""


class Stage:
    """Two processes on one Redis: one that dies, and one that goes on."""

    def __init__(self, runner: asyncio.Runner, server: RedisProcess) -> None:
        self._runner = runner
        self._server = server
        self._clock = ManualClock()

    def open_ledger(self, prefix: str, seed: int) -> RedisSharedLedger:
        async def opened() -> RedisSharedLedger:
            return RedisSharedLedger(
                self._server.url,
                Random(seed),
                keep_delivered=KEEP_DELIVERED,
                session_ms=SESSION_MS,
                key_prefix=prefix,
                time_ms=self._clock.now_ms,
                timeout_ms=PATIENT_MS,
            )

        return self._runner.run(opened())

    def play(self, make: Callable[[Scene], Operation], sent: int | None) -> int:
        """Cut an operation off after so many calls, ask again, and compare what is kept.

        Answers how many calls the operation makes.
        """
        prefix = f"killed-{next(_prefixes)}"
        doomed, survivor = self.open_ledger(prefix, 1), self.open_ledger(prefix, 2)
        bench = Bench(self._runner, survivor, self._clock.advance, Random(3))
        try:
            scene = set_the_scene(bench)
            operation = make(scene)
            # Connected, and with its functions known.
            bench(doomed.read_cell(0))
            bench(doomed.read(scene.job.job_id))
            bench(doomed.lookup(scene.node.node_id))
            stepping = Stepping(doomed)
            if sent is None:
                bench(stepping.run(operation(doomed)))
                return len(stepping.calls)
            bench(stepping.cut_off(sent, operation(doomed)))
            self.check(bench, prefix, f"killed after {sent} calls of {stepping.calls}")
            bench(operation(survivor))
            self.check(bench, prefix, f"asked again after {sent} calls")
            self.wind_up(scene)
            self.check(bench, prefix, f"wound up after {sent} calls")
            return sent
        finally:
            bench(survivor.stop())
            bench(doomed.stop())

    def check(self, bench: Bench, prefix: str, when: str) -> None:
        async def look() -> list[Any]:
            check = RedisCheck(
                self._server.url, families(), key_prefix=prefix, timeout_ms=PATIENT_MS
            )
            try:
                return await check.look()
            finally:
                await check.close()

        findings = [each for each in bench(look()) if each.damage not in IN_PASSING]
        assert findings == [], when

    def wind_up(self, scene: Scene) -> None:
        """The node is lost, and the sweep ends what is left of its attempts and jobs."""
        bench = scene.bench
        ledger = bench.ledger
        record = bench(ledger.read_cell(0))
        for seat_record in record.seats if record is not None else ():
            sender = Sender(seat_record.node_id, seat_record.owner.epoch)
            bench(ledger.remove(0, sender))
            bench(ledger.forget(sender.node_id, sender.epoch))
        bench.advance(max(DUE_MS, GRACE_MS, CLAIM_MS) / 1000 + 1)
        for attempt in bench(ledger.due_attempts(0, 99)):
            bench(ledger.settle(0, [attempt.attempt_id]))
        for job in bench(ledger.due(range(JOB_SHARDS), 99)):
            found = bench(ledger.look(job.cell, job.attempt_id, tombstone_ms=TOMBSTONE_MS))
            assert isinstance(found, r.Tombstone), "nothing holds a slot any more"
            ending = Ending(Outcome.FAILED, error=CANCELLED)
            closing = r.Closing(job.job_id, None, ending, Times(), None, KEEP)
            assert isinstance(bench(ledger.close(closing)), r.Closed)
        size = bench(ledger.size())
        assert (size["held"], size["finished"], size["open"]) == (0, 0, 0)


@pytest.fixture
def stage(redis_server: RedisProcess) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        yield Stage(runner, redis_server)


def test_every_operation_of_the_interface_is_tried() -> None:
    of_interface = {
        name
        for protocol in (Shards, Cells, SharedLedger)
        for name, member in inspect.getmembers(protocol, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    tried = {name.partition(" ")[0] for name in OPERATIONS}
    assert tried == of_interface - NOT_OF_LIVES


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_process_that_dies_between_two_calls_leaves_nothing_broken(
    stage: Stage, name: str
) -> None:
    calls = stage.play(OPERATIONS[name], None)
    assert calls > 0
    for sent in range(calls + 1):
        stage.play(OPERATIONS[name], sent)
