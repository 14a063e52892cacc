"""Users who ask at the same moment: one comes first, and the others are told what is true then."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import pytest
import sqlalchemy as sa
from tests.integration.lab_engine.laboratory import (
    STEADY,
    TENANT,
    add_items,
    experiment,
    laboratory,
)

from dragoman.clock import SystemClock
from dragoman.errors import BudgetExceeded, ExperimentRunning, NotFound
from dragoman.lab.experiments import StartAsk, Started
from dragoman.lab.feed import RunEnded, WatcherFeed
from dragoman.lab.model import Budget, ExperimentSpec, ItemId, RunId, TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.queue import InProcessQueue
from dragoman.lab.repository import Selection, leases, runs, starting
from dragoman.lab.scheduler.driver import STRIKES, Drive, Driver
from dragoman.lab.scheduler.step import TERMINATE_BATCH
from dragoman.lab.states import RunMode, RunStatus
from dragoman.lab.targets import Output
from dragoman.lab.worker.pacing import Pacer
from dragoman.lab.worker.workplace import Workplace
from dragoman.observability import Metrics
from dragoman.store import Store, StoreConnection, Work

Result = TypeVar("Result")

ONE_ITEM = [[{"key": "k", "calls": "/dev/null"}]]


def driver_of(store: Store) -> Driver:
    """A driver of another process than the lab's."""
    return Driver(
        store,
        InProcessQueue(),
        STEADY,
        WatcherFeed(),
        owner="another",
        clock=SystemClock(),
        metrics=Metrics(),
    )


def test_items_retried_by_many_at_once_all_get_into_one_run(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url, schedules=False, works=False) as at:
            version, ids = await add_items(at.store, ONE_ITEM)
            made = await at.lab.experiments.create(TENANT, experiment(version, "hang"))
            ask = StartAsk(RunMode.RETRY_ITEMS, item_ids=(ids[0],))
            starts = [at.lab.experiments.start(TENANT, made.experiment_id, ask) for _ in range(6)]

            started = await asyncio.gather(*starts)

            assert sum(not one.joined for one in started) == 1
            assert len({one.run_id for one in started}) == 1

    asyncio.run(story())


def test_an_experiment_is_started_or_deleted_and_never_half_of_each(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url, schedules=False, works=False) as at:
            version, _ = await add_items(at.store, ONE_ITEM)
            for _ in range(15):
                made = await at.lab.experiments.create(TENANT, experiment(version, "hang"))
                started, deleted = await asyncio.gather(
                    at.lab.experiments.start(TENANT, made.experiment_id),
                    at.lab.experiments.delete(TENANT, made.experiment_id),
                    return_exceptions=True,
                )

                if isinstance(started, Started):
                    assert isinstance(deleted, ExperimentRunning)
                    await at.lab.experiments.kill(TENANT, made.experiment_id)
                else:
                    assert isinstance(started, NotFound)
                    assert deleted is None
            orphans = await at.rows(
                "SELECT id FROM run_log WHERE experiment_id NOT IN (SELECT id FROM experiment)"
            )
            assert orphans == []

    asyncio.run(story())


def test_changes_made_at_the_same_time_are_all_kept(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url, schedules=False, works=False) as at:
            version, _ = await add_items(at.store, ONE_ITEM)
            made = await at.lab.experiments.create(TENANT, experiment(version, "hang"))
            changes: list[dict[str, object]] = [
                {"description": "changed"},
                {"concurrency": 7},
                {"retries": 5},
                {"name": "another name"},
            ]

            await asyncio.gather(
                *(
                    at.lab.experiments.change(TENANT, made.experiment_id, **change)
                    for change in changes
                )
            )

            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            spec = shown.experiment.spec
            assert (spec.description, spec.concurrency, spec.retries, spec.name) == (
                "changed",
                7,
                5,
                "another name",
            )

    asyncio.run(story())


def test_deleting_an_experiment_gives_nothing_back_of_what_it_used_up(sqlite_url: str) -> None:
    settings = STEADY.model_copy(update={"tenant_tokens": 1000})

    async def costly(key: str) -> Output:
        return Output({"output": key}, tokens=1000)

    async def story() -> None:
        context = Context(functions={"costly": costly})
        async with laboratory(sqlite_url, settings, context=context) as at:
            version, _ = await add_items(at.store, ONE_ITEM)
            spec = ExperimentSpec("costly", version, TargetSpec("python", {"function": "costly"}))
            made = await at.run(spec)
            await at.lab.experiments.delete(TENANT, made.experiment_id)

            again = ExperimentSpec("again", version, spec.target)
            with pytest.raises(BudgetExceeded, match="used up 1,000 of 1,000 tokens"):
                await at.lab.experiments.create(TENANT, again)

    asyncio.run(story())


def test_an_item_named_twice_is_one_item(sqlite_url: str) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version, ids = await add_items(at.store, [[{}]])
            made = await at.run(experiment(version, "answer_anything"))
            twice: tuple[ItemId, ...] = (ids[0], ids[0])
            ask = StartAsk(RunMode.RETRY_ITEMS, item_ids=twice)
            again = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            await at.ended(again.run_id)

            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.progress == 1.0

    asyncio.run(story())


def test_a_run_that_ended_before_its_lease_was_taken_is_let_go(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[{}]])
            made = await at.run(experiment(version, "answer_anything"))
            (ended,) = await at.lab.experiments.runs(TENANT, made.experiment_id)
            driver = driver_of(at.store)

            async with asyncio.timeout(30):
                await driver._lock(Drive(ended.run.run_id), driver._execute)

            assert await at.rows("SELECT * FROM lease WHERE owner = 'another'") == []

    asyncio.run(story())


def test_a_run_is_given_up_only_by_a_process_that_may_drive_it(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url, schedules=False, works=False) as at:
            version, _ = await add_items(at.store, ONE_ITEM)
            made, started = await at.lab.experiments.submit(TENANT, experiment(version, "hang"))
            name = runs.lease_name(started.run_id)
            held = await at.store.write(lambda c: leases.take(c, name, "the other one", 60_000))
            assert held is not None
            driver = driver_of(at.store)

            await driver._give_up(started.run_id, "it broke here")
            run = await at.store.read(lambda c: runs.find_run(c, started.run_id))
            assert run is not None
            assert run.status is RunStatus.PENDING

            await at.store.write(lambda c: starting.start_page(c, run, Selection(version), 10))
            await at.store.write(lambda c: leases.release(c, held))
            with driver._feed.watch(made.experiment_id) as watcher:
                await driver._give_up(started.run_id, "it broke here")
                assert await anext(watcher) == RunEnded(
                    made.experiment_id, started.run_id, RunStatus.FAILED
                )
            assert await at.ended(started.run_id) is RunStatus.FAILED
            assert await at.rows("SELECT * FROM lease") == []
            (ended,) = await at.lab.experiments.runs(TENANT, made.experiment_id)
            assert (ended.stats.terminated, ended.stats.items) == (1, 1)

    asyncio.run(story())


class Counting(Store):
    """A store that notes how many open items each write has closed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.closed: list[int] = []

    async def write(self, work: Work[Result], *, urgent: bool = False) -> Result:
        count = sa.text("SELECT count(*) FROM item_run_log WHERE result_state = 'init'")

        def counted(connection: StoreConnection) -> tuple[Result, int]:
            before = connection.execute(count).scalar_one()
            done = work(connection)
            return done, before - connection.execute(count).scalar_one()

        done, closed = await self._store.write(counted, urgent=urgent)
        self.closed.append(closed)
        return done

    async def read(self, work: Work[Result]) -> Result:
        return await self._store.read(work)

    async def close(self) -> None:
        return None


def test_a_run_with_many_items_is_given_up_some_at_a_time(database_url: str) -> None:
    items = 2 * TERMINATE_BATCH + 100

    async def story() -> None:
        async with laboratory(database_url, schedules=False, works=False) as at:
            version, _ = await add_items(at.store, [[{}] for _ in range(items)])
            made, started = await at.lab.experiments.submit(
                TENANT, experiment(version, "answer_anything")
            )
            run = await at.store.read(lambda c: runs.find_run(c, started.run_id))
            assert run is not None
            await at.store.write(lambda c: starting.start_page(c, run, Selection(version), items))
            counting = Counting(at.store)

            await driver_of(counting)._give_up(started.run_id, "it broke here")

            assert await at.ended(started.run_id) is RunStatus.FAILED
            assert sum(counting.closed) == items
            assert max(counting.closed) == TERMINATE_BATCH
            (ended,) = await at.lab.experiments.runs(TENANT, made.experiment_id)
            assert ended.stats.terminated == items
            assert await at.rows("SELECT * FROM lease") == []

    asyncio.run(story())


class Shaky(Store):
    """A store that now and then raises an unexpected error."""

    def __init__(self, store: Store, every: int) -> None:
        self._store = store
        self._every = every
        self._writes = 0
        self.broken = 0

    async def write(self, work: Work[Result], *, urgent: bool = False) -> Result:
        self._writes += 1
        if self._writes % self._every == 0:
            self.broken += 1
            raise RuntimeError("nobody foresaw this")
        return await self._store.write(work)

    async def read(self, work: Work[Result]) -> Result:
        return await self._store.read(work)

    async def close(self) -> None:
        return None


def test_a_run_that_gets_somewhere_between_its_troubles_is_not_given_up(sqlite_url: str) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url, schedules=False) as at:
            version, _ = await add_items(at.store, [[{}] for _ in range(12)])
            # With a budget the driver has a hand in every item.
            budget = Budget(tokens=1_000)
            spec = experiment(version, "answer_anything", concurrency=1, budget=budget)
            _, started = await at.lab.experiments.submit(TENANT, spec)
            shaky = Shaky(at.store, every=7)

            await driver_of(shaky).drive(Drive(started.run_id))

            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            assert shaky.broken > STRIKES

    asyncio.run(story())


def test_a_run_that_ends_while_its_pace_is_asked_for_is_left_without_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, database_url: str
) -> None:
    settle = Pacer.settle
    lost: list[RunId] = []

    async def settle_and_lose(self: Pacer, places: dict[RunId, Workplace]) -> None:
        await settle(self, places)
        if places and not lost:
            lost.extend(places)
            places.clear()

    monkeypatch.setattr(Pacer, "settle", settle_and_lose)

    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, ONE_ITEM)
            _, started = await at.lab.experiments.submit(
                TENANT, experiment(version, "answer_unless_held")
            )
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            assert lost == [started.run_id]

    asyncio.run(story())
    assert "lab_take_failed" not in caplog.text
