"""Whatever happens between the calls of one operation, it is as if it happened before or after.

Seating a node, its heartbeat and its loss look through a cell from outside. The same things are
done in memory, where each is one step: the answers and what is kept afterwards must be those of one
of the orders in which the steps can follow each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from random import Random
from typing import Any

import msgspec
import pytest
from tests.chaos_seeds import chaos_seeds
from tests.contract.shared.bench import (
    ACK_MS,
    CANCELLED,
    DUE_MS,
    GRACE_MS,
    HERE,
    KEEP_DELIVERED,
    LEASE_MS,
    RUN_MS,
    SESSION_MS,
    THERE,
    TOMBSTONE_MS,
    success,
)
from tests.integration.shared_redis.stepping import Stepping
from tests.servers import PATIENT_MS, RedisProcess

from dragoman.clock import ManualClock
from dragoman.ids import AttemptId, ConnectionId, JobId, NodeId
from dragoman.live.ledger import (
    Adoption,
    Done,
    Heartbeat,
    Owner,
    Placed,
    Placement,
    Registration,
    Sender,
    Strategy,
)
from dragoman.live.protocol import AttemptState, JobClass, Outcome, RunningJob
from dragoman.live.shared import MemorySharedLedger, RedisSharedLedger, SharedLedger
from dragoman.live.shared import records as r

pytestmark = pytest.mark.redis

NODE = NodeId("n-1")
ACKED, FRESH, CANCELLING, BATCH, STRAY, NEW, HEIR = (
    AttemptId(f"a-{name}")
    for name in ("acked", "fresh", "cancelling", "batch", "stray", "new", "heir")
)
ALL = (ACKED, FRESH, CANCELLING, BATCH, STRAY, NEW, HEIR)
SLOTS = 5
SEQUENCES = 25
"""How many sequences of three other operations are tried at each place in an ordinary run."""

_prefixes = count()

Operation = Callable[[SharedLedger], Coroutine[Any, Any, Any]]


def running(*names: AttemptId) -> tuple[RunningJob, ...]:
    return tuple(RunningJob(JobId(f"job-of-{name}"), name) for name in names)


def owner(epoch: int) -> Owner:
    return Owner(HERE, ConnectionId(f"c-{epoch}"), epoch)


def ask(name: AttemptId, job_class: JobClass = JobClass.LIVE, waits_for: str = "") -> r.SlotAsk:
    return r.SlotAsk(
        cell=0,
        candidates=1,
        attempt_id=name,
        job_id=JobId(f"job-of-{name}"),
        job_class=job_class,
        instance_id=THERE,
        strategy=Strategy.RANDOM,
        headroom=0.0,
        ack_ms=ACK_MS,
        lease_ms=LEASE_MS,
        run_ms=RUN_MS,
        max_preemptions=2,
        grace_ms=GRACE_MS,
        waits_for=waits_for,
    )


def reserve(name: AttemptId, waits_for: str = "") -> Operation:
    return lambda ledger: ledger.reserve(ask(name, waits_for=waits_for))


def preempt(name: AttemptId) -> Operation:
    return lambda ledger: ledger.preempt(ask(name))


def finish(name: AttemptId, epoch: int, *, keep: bool = False) -> Operation:
    output = success(JobId(f"job-of-{name}"), name).output if keep else None
    how = r.Finish(Outcome.SUCCESS, output, None, DUE_MS if keep else 0)
    return lambda ledger: ledger.finish(0, name, Sender(NODE, epoch), how)


def step(name: AttemptId, epoch: int, number: int) -> Operation:
    said = r.AttemptStep(name, NODE, epoch, AttemptState.RUNNING, number)
    return lambda ledger: ledger.step(0, (said,))


def cancel(name: AttemptId) -> Operation:
    return lambda ledger: ledger.cancel(0, name, CANCELLED, grace_ms=GRACE_MS)


def drop(name: AttemptId) -> Operation:
    return lambda ledger: ledger.drop(0, name, tombstone_ms=TOMBSTONE_MS)


def adopt(name: AttemptId, epoch: int, *, wanted: bool = True) -> Operation:
    adoption = Adoption(
        running(name)[0],
        Sender(NODE, epoch),
        JobClass.LIVE,
        wanted,
        LEASE_MS,
        RUN_MS,
        # One that a heartbeat before this one listed waits for the next, if it comes just now.
        number=6,
        instance_id=THERE,
    )
    return lambda ledger: ledger.adopt(0, adoption)


def seat(epoch: int, *names: AttemptId, slots: int = SLOTS) -> Operation:
    placement = Placement(NODE, owner(epoch), slots, LEASE_MS, running(*names), b"facts")
    return lambda ledger: ledger.seat(0, placement)


def beat(epoch: int, number: int, *names: AttemptId) -> Operation:
    heartbeat = Heartbeat(NODE, epoch, LEASE_MS, running(*names), number)
    return lambda ledger: ledger.beat(0, heartbeat)


def lose(epoch: int) -> Operation:
    return lambda ledger: ledger.lose(0, Sender(NODE, epoch))


def remove(epoch: int) -> Operation:
    return lambda ledger: ledger.remove(0, Sender(NODE, epoch))


def amend(epoch: int) -> Operation:
    return lambda ledger: ledger.amend(0, Sender(NODE, epoch), slots=SLOTS + 2, facts=b"more")


def disconnect(epoch: int) -> Operation:
    return lambda ledger: ledger.disconnect(0, Sender(NODE, epoch))


def set_drained(ledger: SharedLedger) -> Coroutine[Any, Any, Any]:
    return ledger.set_drained(0, NODE, True)


OPERATIONS: dict[str, Operation] = {
    "seat": seat(2, ACKED),
    "seat that lists nothing": seat(2),
    "seat by the same connection": seat(1, ACKED, FRESH),
    "beat": beat(1, 5, ACKED),
    "beat that lists nothing": beat(1, 5),
    "lose": lose(1),
    "remove": remove(1),
}

OTHERS: dict[str, Operation] = {
    "reserve": reserve(NEW),
    "reserve that waits": reserve(NEW, "zh-en"),
    "preempt": preempt(HEIR),
    **{
        f"finish {name} of {epoch}": finish(name, epoch)
        for name in (ACKED, FRESH, CANCELLING)
        for epoch in (1, 2)
    },
    "finish and keep": finish(ACKED, 1, keep=True),
    "finish batch": finish(BATCH, 1),
    "step": step(FRESH, 1, 4),
    "step after the heartbeat": step(FRESH, 1, 6),
    "step of a later connection": step(NEW, 2, 1),
    "cancel acked": cancel(ACKED),
    "cancel fresh": cancel(FRESH),
    "drop": drop(FRESH),
    "drop new": drop(NEW),
    "adopt": adopt(STRAY, 1),
    "adopt unwanted": adopt(STRAY, 1, wanted=False),
    "adopt of a later connection": adopt(STRAY, 2),
    "adopt again": adopt(ACKED, 2, wanted=False),
    "seat by the same connection": seat(1, ACKED),
    "seat by a second connection": seat(2, ACKED, FRESH),
    "seat by a third connection": seat(3, ACKED),
    "beat": beat(1, 6, ACKED, FRESH),
    "beat of a later connection": beat(2, 1, ACKED),
    "lose": lose(1),
    "lose a later connection": lose(2),
    "remove": remove(1),
    "remove a later connection": remove(2),
    "amend": amend(1),
    "amend a later connection": amend(2),
    "disconnect": disconnect(1),
    "disconnect a later connection": disconnect(2),
    "set drained": set_drained,
}


async def set_the_scene(ledger: SharedLedger) -> None:
    """A node with one free slot, one attempt that it acknowledged, one that it did not, one that is
    cancelled, and one of batch work."""
    await ledger.register(Registration(NODE, HERE, ConnectionId("c-1")))
    assert isinstance(await seat(1)(ledger), Placed)
    for name in (ACKED, FRESH, CANCELLING):
        assert isinstance(await ledger.reserve(ask(name)), r.Granted)
    assert isinstance(await ledger.reserve(ask(BATCH, JobClass.BATCH)), r.Granted)
    for name in (ACKED, CANCELLING, BATCH):
        assert await step(name, 1, 1)(ledger) == ()
    assert isinstance(await cancel(CANCELLING)(ledger), r.CancelWon)


async def outcome(ledger: SharedLedger, answers: list[Any]) -> list[Any]:
    """The answers, and what is kept."""
    cell = await ledger.read_cell(0)
    seats = [] if cell is None else [msgspec.to_builtins(each) for each in cell.seats]
    attempts = [await ledger.look(0, name, tombstone_ms=TOMBSTONE_MS) for name in ALL]
    return [[_plain(answer) for answer in answers], seats, [_plain(each) for each in attempts]]


def _plain(answer: Any) -> Any:
    if isinstance(answer, Placed):
        answer = msgspec.structs.replace(answer, version=0)
    name = type(answer).__name__
    if not isinstance(answer, msgspec.Struct):
        return [name, answer]
    fields = msgspec.to_builtins(answer, builtin_types=(bytes,))
    for field in ("lost", "passed", "cancelling", "unknown"):
        if field in fields:
            fields[field] = sorted(str(each) for each in fields[field])
    return [name, fields]


class Stage:
    """Where scenes are played: with ledgers in memory, and on a server by the same time."""

    def __init__(self, runner: asyncio.Runner, server: RedisProcess) -> None:
        self.runner = runner
        self._server = server
        self._clock = ManualClock()
        self._in_memory: dict[tuple[str, ...], list[Any]] = {}

    def in_memory(self, operations: tuple[str, ...]) -> list[Any]:
        """What comes of operations, one after the other, that are named."""
        known = self._in_memory.get(operations)
        if known is None:
            known = self.runner.run(self._play(operations))
            self._in_memory[operations] = known
        return known

    async def _play(self, operations: tuple[str, ...]) -> list[Any]:
        ledger = MemorySharedLedger(
            self._clock, Random(1), keep_delivered=KEEP_DELIVERED, session_ms=SESSION_MS
        )
        await set_the_scene(ledger)
        answers = {}
        for name in operations:
            operation = OPERATIONS[name[2:]] if name.startswith("> ") else OTHERS[name]
            answers[name] = await operation(ledger)
        ordered = sorted(answers)
        return await outcome(ledger, [answers[name] for name in ordered])

    def open_ledger(self, prefix: str) -> RedisSharedLedger:
        return RedisSharedLedger(
            self._server.url,
            Random(2),
            keep_delivered=KEEP_DELIVERED,
            session_ms=SESSION_MS,
            key_prefix=prefix,
            time_ms=self._clock.now_ms,
            timeout_ms=PATIENT_MS,
        )

    async def on_redis(
        self, name: str, pause: int, others: tuple[str, ...]
    ) -> tuple[list[Any], int]:
        """What comes of an operation with others before one of its calls, and how many it made."""
        prefix = f"between-{next(_prefixes)}"
        ours, theirs = self.open_ledger(prefix), self.open_ledger(prefix)
        try:
            await set_the_scene(ours)
            answers: dict[str, Any] = {}

            async def meanwhile() -> None:
                for other in others:
                    answers[other] = await OTHERS[other](theirs)

            stepping = Stepping(ours)
            operation = OPERATIONS[name](ours)
            answers[f"> {name}"] = await stepping.hold_back((pause,), operation, meanwhile)
            calls = len(stepping.calls)
            if pause > calls:
                return [], calls
            found = await outcome(theirs, [answers[each] for each in sorted(answers)])
            return found, calls
        finally:
            await asyncio.gather(ours.stop(), theirs.stop())

    def compare(self, name: str, others: tuple[str, ...]) -> None:
        """The operation with others before each of its calls but the first."""
        expected = [
            self.in_memory((*others[:position], f"> {name}", *others[position:]))
            for position in range(len(others) + 1)
        ]
        for pause in count(2):
            found, calls = self.runner.run(self.on_redis(name, pause, others))
            if pause > calls:
                return
            assert found in expected, f"{name}, before call {pause}: {', '.join(others)}"


@pytest.fixture
def stage(redis_server: RedisProcess) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        yield Stage(runner, redis_server)


@pytest.mark.parametrize("name", OPERATIONS)
def test_any_other_operation_between_two_calls_is_before_or_after(stage: Stage, name: str) -> None:
    for other in OTHERS:
        stage.compare(name, (other,))


@pytest.mark.parametrize("name", OPERATIONS)
def test_any_three_operations_between_two_calls_are_before_or_after(
    stage: Stage, name: str
) -> None:
    for seed in chaos_seeds(SEQUENCES):
        others = tuple(Random(seed).sample(sorted(OTHERS), 3))
        stage.compare(name, others)


@pytest.mark.parametrize("name", ["seat", "lose", "remove"])
def test_a_seat_is_settled_although_it_is_granted_more_at_every_look(
    stage: Stage, name: str
) -> None:
    async def play() -> tuple[list[str], int, int]:
        prefix = f"between-{next(_prefixes)}"
        ours, theirs = stage.open_ledger(prefix), stage.open_ledger(prefix)
        await set_the_scene(ours)
        await ours.amend(0, Sender(NODE, 1), slots=100)
        granted: list[object] = []

        async def meanwhile() -> None:
            granted.append(await theirs.reserve(ask(AttemptId(f"a-{len(granted)}"))))

        stepping = Stepping(ours)
        await stepping.hold_back(range(2, 100), OPERATIONS[name](ours), meanwhile)
        cell, size = await theirs.read_cell(0), await theirs.size()
        held = sum(each.held for each in cell.seats) if cell is not None else 0
        assert all(isinstance(each, r.Granted) for each in granted)
        await asyncio.gather(ours.stop(), theirs.stop())
        return stepping.calls, held, size["held"]

    calls, on_the_board, held = stage.runner.run(play())
    own = {"seat": "take_seat"}.get(name, "lose")
    assert calls == [own, *["HSCAN", own] * 3, own]
    assert on_the_board == held


def test_what_a_board_that_was_lost_had_granted_holds_no_slot_of_the_next(
    stage: Stage, redis_server: RedisProcess
) -> None:
    """The keys of a cell that no sweep visits may run out at different times."""

    async def play() -> None:
        prefix = f"between-{next(_prefixes)}"
        ledger = stage.open_ledger(prefix)
        await set_the_scene(ledger)
        redis_server.command("DEL", f"{prefix}:m2:{{c0}}:board")
        placed = await seat(2, ACKED)(ledger)
        assert placed.unknown == running(ACKED)
        assert await ledger.look(0, FRESH, tombstone_ms=TOMBSTONE_MS) == r.Tombstone()
        assert await adopt(ACKED, 2)(ledger) == Done()
        cell = await ledger.read_cell(0)
        assert cell is not None
        assert [each.held for each in cell.seats] == [1]
        assert (await ledger.size())["held"] == 1
        await ledger.stop()

    stage.runner.run(play())
