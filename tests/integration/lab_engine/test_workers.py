"""Workers that meet trouble: it stays with the item it belongs to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
import pytest
from tests.integration.lab_engine.laboratory import (
    STEADY,
    TENANT,
    Laboratory,
    add_items,
    experiment,
    laboratory,
    until,
)
from tests.integration.lab_engine.targets import note, noted

from dragoman.clock import SystemClock
from dragoman.errors import StoreError
from dragoman.lab.evaluators import Score
from dragoman.lab.failures import CalledTooOften
from dragoman.lab.model import (
    EvaluatorSpec,
    Experiment,
    ExperimentSpec,
    ItemKey,
    JsonValue,
    RunId,
    TargetSpec,
    Turn,
    VersionId,
)
from dragoman.lab.plugins import Context
from dragoman.lab.queue import InProcessQueue, ItemOffer
from dragoman.lab.repository import dispatching, items, runs
from dragoman.lab.states import RunMode, RunStatus
from dragoman.lab.targets import Output, PastTurn
from dragoman.lab.worker import OpenBench, Terms, Worker
from dragoman.lab.worker.combiner import Combiner
from dragoman.lab.worker.execution import ItemOutcome, TurnOutcome
from dragoman.lab.worker.lease_journal import LeaseJournal
from dragoman.observability import Metrics
from dragoman.store import Store, Work

Result = TypeVar("Result")

STILL = STEADY.model_copy(update={"safety_tick_ms": 3_600_000, "lease_seconds": 3_600.0})
"""Nothing happens by itself, only by what the test does."""


def cases(calls: str, count: int) -> list[list[dict[str, JsonValue]]]:
    return [[{"key": f"k{number}", "calls": calls}] for number in range(count)]


def calling(version: VersionId, function: str, **options: Any) -> ExperimentSpec:
    return ExperimentSpec(
        function, version, TargetSpec("python", {"function": function}), **options
    )


async def ends_of(at: Laboratory) -> list[tuple[str, str | None]]:
    """How each item ended, in order."""
    return await at.rows("SELECT status, error_code FROM turn_result ORDER BY item_id")


def test_an_answer_that_cannot_be_stored_costs_no_other_item_anything(
    database_url: str, calls: str
) -> None:
    async def odd(key: str, calls: str) -> Output:
        note(calls, key)
        unstorable: Any = object()
        return Output({"output": key}, latency_ms=unstorable if key == "k3" else 1.0)

    async def story() -> None:
        async with laboratory(database_url, context=Context(functions={"odd": odd})) as at:
            version, _ = await add_items(at.store, cases(calls, 8))
            await at.run(calling(version, "odd", retries=0, concurrency=8))

            expected: list[tuple[str, str | None]] = [("success", None)] * 8
            expected[3] = ("fail", "TARGET_ERROR")
            assert await ends_of(at) == expected
            assert set(Counter(noted(calls)).values()) == {1}

    asyncio.run(story())


def test_an_absurd_count_of_tokens_is_the_target_s_failure_and_named(
    database_url: str, calls: str
) -> None:
    async def odd(key: str, calls: str) -> Output:
        note(calls, key)
        return Output({"output": key}, tokens=2**70 if key == "k1" else 1)

    async def story() -> None:
        async with laboratory(database_url, context=Context(functions={"odd": odd})) as at:
            version, _ = await add_items(at.store, cases(calls, 3))
            await at.run(calling(version, "odd", concurrency=3))

            ends = [("success", None), ("fail", "TARGET_ERROR"), ("success", None)]
            assert await ends_of(at) == ends
            ((message,),) = await at.rows(
                "SELECT error_message FROM turn_result WHERE status = 'fail'"
            )
            assert "1e21 tokens" in message
            assert set(Counter(noted(calls)).values()) == {1}, "nobody pays for it again"

    asyncio.run(story())


def test_rate_limits_and_errors_that_pass_fail_no_item(database_url: str, calls: str) -> None:
    """With nothing said about retries: they are the rule, and a rate limit costs none."""
    seen: Counter[str] = Counter()

    async def busy(key: str, calls: str) -> str:
        seen[key] += 1
        if seen[key] <= 4:
            raise CalledTooOften("later", retry_after_seconds=0.01)
        return key

    async def moody(output: str, key: str) -> float:
        seen[f"judge/{key}"] += 1
        if seen[f"judge/{key}"] == 1:
            raise ValueError("said nonsense")
        return 1.0

    async def story() -> None:
        context = Context(functions={"busy": busy, "moody": moody})
        async with laboratory(database_url, context=context) as at:
            version, _ = await add_items(at.store, cases(calls, 3))
            judge = EvaluatorSpec("python", "moody", settings={"function": "moody"})
            await at.run(calling(version, "busy", evaluators=(judge,)))

            assert await ends_of(at) == [("success", None)] * 3
            # The answer was kept while its judge was asked again.
            assert {seen[f"k{n}"] for n in range(3)} == {5}
            assert {seen[f"judge/k{n}"] for n in range(3)} == {2}

    asyncio.run(story())


def test_an_error_with_half_a_character_in_it_is_stored(database_url: str, calls: str) -> None:
    async def garbled(key: str, calls: str) -> str:
        if key == "k1":
            raise ValueError("cannot read \ud800\x00.txt")
        return key

    async def story() -> None:
        async with laboratory(database_url, context=Context(functions={"garbled": garbled})) as at:
            version, _ = await add_items(at.store, cases(calls, 3))
            await at.run(calling(version, "garbled", retries=0))

            well = ("success", None)
            assert await ends_of(at) == [well, ("fail", "TARGET_ERROR"), well]
            messages = await at.rows("SELECT error_message FROM turn_result ORDER BY item_id")
            assert "cannot read ?�.txt" in messages[1][0]

    asyncio.run(story())


def test_a_target_that_cannot_be_opened_fails_every_item_and_says_why(sqlite_url: str) -> None:
    async def explode(experiment: object, mode: object) -> Any:
        raise ValueError("this kind is from another package")

    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            at.lab._worker._open_bench = explode
            version, _ = await add_items(at.store, [[{}], [{}]])
            made = await at.run(experiment(version, "answer_anything"))

            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.experiment.status is RunStatus.FAILED
            reasons = await at.rows("SELECT DISTINCT error_code, error_message FROM turn_result")
            assert reasons == [("TARGET_ERROR", "ValueError: this kind is from another package")]

    asyncio.run(story())


def test_a_database_that_is_away_while_a_target_is_opened_fails_no_item(sqlite_url: str) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            open_bench, opened = at.lab._worker._open_bench, 0

            async def open_later(experiment: Experiment, mode: RunMode) -> OpenBench:
                nonlocal opened
                opened += 1
                if opened == 1:
                    raise StoreError("The database cannot be reached.")
                return await open_bench(experiment, mode)

            at.lab._worker._open_bench = open_later
            version, _ = await add_items(at.store, [[{}], [{}]])
            await at.run(experiment(version, "answer_anything"))

            assert await ends_of(at) == [("success", None)] * 2
            assert opened == 2

    asyncio.run(story())


async def hanging(key: str, calls: str) -> str:
    note(calls, "begun")
    try:
        await asyncio.sleep(3600)
    finally:
        note(calls, "stopped")
    return key


class Deaf:
    """A target that does not end when it is told to."""

    def __init__(self, calls: str) -> None:
        self._calls = calls
        self.released = asyncio.Event()

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        note(self._calls, "deaf")
        while not self.released.is_set():
            with suppress(asyncio.CancelledError):
                await self.released.wait()
        return Output({"output": "at last"})

    async def close(self) -> None:
        return None


def test_a_call_that_does_not_end_when_told_to_holds_up_nobody(sqlite_url: str, calls: str) -> None:
    """Only signals move anything here: the worker must still hear of the second kill."""
    deaf = Deaf(calls)

    async def story() -> None:
        async with laboratory(
            sqlite_url, STILL, context=Context(functions={"hanging": hanging})
        ) as at:
            open_bench = at.lab._worker._open_bench

            async def open_deaf(experiment: Experiment, mode: RunMode) -> OpenBench:
                opened = await open_bench(experiment, mode)
                if experiment.spec.name == "deaf":
                    opened.bench.target = deaf
                return opened

            at.lab._worker._open_bench = open_deaf
            version, _ = await add_items(at.store, cases(calls, 1))
            for name, begun in (("deaf", "deaf"), ("hanging", "begun")):
                spec = msgspec.structs.replace(calling(version, "hanging"), name=name)
                made, started = await at.lab.experiments.submit(TENANT, spec)
                await until(partial(_count, calls, begun, 1))
                await at.lab.experiments.kill(TENANT, made.experiment_id)
                assert await at.ended(started.run_id) is RunStatus.TERMINATED
            await until(lambda: _count(calls, "stopped", 1))
            deaf.released.set()

    asyncio.run(story())


def test_an_item_taken_again_by_the_same_worker_has_both_calls_stopped_by_a_kill(
    sqlite_url: str, calls: str
) -> None:
    """As after a machine that slept: its own lease ran out, and it takes the item anew."""

    async def story() -> None:
        context = Context(functions={"hanging": hanging})
        async with laboratory(sqlite_url, STILL, context=context) as at:
            version, ids = await add_items(at.store, cases(calls, 1))
            made, started = await at.lab.experiments.submit(TENANT, calling(version, "hanging"))
            await until(lambda: _count(calls, "begun", 1))

            def slept(connection: Any) -> None:
                run = runs.find_run(connection, started.run_id)
                assert run is not None
                lease = items.Lease(run.run_id, ids[0], 1, 1, 1, "")
                items.renew(connection, at.lab._worker._owner, [lease], -1)
                assert dispatching.take_back(connection, run, 2).queued == (ItemKey(ids[0]),)
                assert dispatching.dispatch(connection, run, 1) == [ItemKey(one) for one in ids]

            await at.store.write(slept)
            at.lab._worker._queue.offers.put(ItemOffer(started.run_id, (ItemKey(ids[0]),)))
            await until(lambda: _count(calls, "begun", 2))

            await at.lab.experiments.kill(TENANT, made.experiment_id)
            await until(lambda: _count(calls, "stopped", 2))

    asyncio.run(story())


class HeldUp(Store):
    """A store whose writes come back only when they are let go."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.let_go = asyncio.Event()
        self.written = asyncio.Event()

    async def write(self, work: Work[Result], *, urgent: bool = False) -> Result:
        result = await self._store.write(work)
        self.written.set()
        await self.let_go.wait()
        return result

    async def read(self, work: Work[Result]) -> Result:
        return await self._store.read(work)

    async def close(self) -> None:
        return None


def test_a_worker_stopped_while_it_takes_items_hands_them_back(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url, works=False) as at:
            version, ids = await add_items(at.store, cases(calls, 2))
            _, started = await at.lab.experiments.submit(TENANT, experiment(version, "hang"))
            await until(lambda: _handed_out(at, started.run_id))
            store, queue = HeldUp(at.store), InProcessQueue()
            worker = Worker(
                store,
                queue,
                at.lab._worker._open_bench,
                Terms(capacity=8, lease_ms=3_600_000, tick_seconds=3600, any_run=False),
                owner="stopped",
                clock=SystemClock(),
                metrics=Metrics(),
            )
            await worker.start()
            queue.offers.put(ItemOffer(started.run_id, tuple(ItemKey(one) for one in ids)))
            await store.written.wait()
            stopping = asyncio.create_task(worker.stop())
            await asyncio.sleep(0)
            store.let_go.set()
            await stopping

            leased = await at.rows("SELECT lease_owner, try_no FROM item_run_log")
            assert leased == [(None, 1), (None, 1)]
            assert noted(calls) == []

    asyncio.run(story())


class Away(Store):
    """A store that does not answer until it is back."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.back = False

    async def write(self, work: Work[Result], *, urgent: bool = False) -> Result:
        return await self._reached().write(work)

    async def read(self, work: Work[Result]) -> Result:
        return await self._reached().read(work)

    async def close(self) -> None:
        return None

    def _reached(self) -> Store:
        if not self.back:
            raise StoreError("away")
        return self._store


def test_an_item_does_not_end_well_without_a_score_that_was_never_written(
    sqlite_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url, works=False) as at:
            version, ids = await add_items(at.store, cases(calls, 1))
            _, started = await at.lab.experiments.submit(TENANT, experiment(version, "hang"))
            await until(lambda: _handed_out(at, started.run_id))
            (lease,) = await at.store.write(
                lambda c: items.take(c, started.run_id, [ItemKey(ids[0])], "w", 3_600_000)
            )
            store = Away(at.store)
            combiner = Combiner(store, "w", SystemClock(), Metrics())
            journal = LeaseJournal(combiner, TENANT, lease, {"good": 0})
            score = Score(1.0)

            await journal.evaluator_done(0, "good", score)
            await combiner.close()
            store.back = True
            outcome = ItemOutcome(1, (TurnOutcome(Output({"output": "x"}), None, {"good": score}),))
            with pytest.raises(StoreError):
                await journal.try_over(outcome, last=True)

            states = await at.rows("SELECT result_state FROM item_run_log")
            assert states == [("init",)]

    asyncio.run(story())


class Restarting(Store):
    """A store that loses its connection in every write, and answers every read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, work: Work[Result], *, urgent: bool = False) -> Result:
        lost = StoreError("The connection was lost.")
        lost.is_passing = True
        raise lost

    async def read(self, work: Work[Result]) -> Result:
        return await self._store.read(work)

    async def close(self) -> None:
        return None


def test_a_database_that_restarts_has_refused_no_value(sqlite_url: str, calls: str) -> None:
    """The item is left to its lease, and tried again: it has not failed."""

    async def story() -> None:
        async with laboratory(sqlite_url, works=False) as at:
            version, ids = await add_items(at.store, cases(calls, 1))
            _, started = await at.lab.experiments.submit(TENANT, experiment(version, "hang"))
            await until(lambda: _handed_out(at, started.run_id))
            (lease,) = await at.store.write(
                lambda c: items.take(c, started.run_id, [ItemKey(ids[0])], "w", 3_600_000)
            )
            combiner = Combiner(Restarting(at.store), "w", SystemClock(), Metrics())
            journal = LeaseJournal(combiner, TENANT, lease, {})
            with pytest.raises(StoreError, match="connection was lost"):
                await journal.target_done(0, Output({"output": "x"}))

    asyncio.run(story())


async def _count(calls: str, line: str, times: int) -> bool:
    return Counter(noted(calls))[line] == times


async def _handed_out(at: Laboratory, run_id: RunId) -> bool:
    waiting = "SELECT 1 FROM item_run_log WHERE run_id = :r AND status = 'queueing'"
    rows = await at.rows("SELECT 1 FROM item_run_log WHERE run_id = :r", r=run_id)
    return bool(rows) and not await at.rows(waiting, r=run_id)
