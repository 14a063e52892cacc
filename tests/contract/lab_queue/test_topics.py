"""What every queue does with hints, whichever server carries them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from tests.contract.lab_queue.conftest import Place
from tests.servers import RedisProcess, fresh_sqlite

from dragoman.clock import SystemClock
from dragoman.errors import SettingsError
from dragoman.lab.feed import ItemsArchived, RunEnded
from dragoman.lab.model import ExperimentId, ItemId, ItemKey, RunId
from dragoman.lab.queue import HintTopic, ItemOffer, open_queue
from dragoman.lab.states import RunStatus

T = TypeVar("T")
PATIENCE_SECONDS = 60.0
NEWS = RunId("r-news")


async def heard(topic: HintTopic[T], give: Callable[[], None], wanted: T) -> list[T]:
    """Give a hint again and again until it is heard: a listener may not be connected yet."""
    got: list[T] = []

    async def read() -> None:
        while wanted not in got:
            got.extend(await topic.take())

    reading = asyncio.create_task(read())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not reading.done():
                give()
                await asyncio.wait([reading], timeout=0.05)
    finally:
        reading.cancel()
    await reading
    return got


def keys(count: int) -> tuple[ItemKey, ...]:
    return tuple(ItemKey(ItemId(f"i-{'x' * 40}-{number}"), number % 2) for number in range(count))


def test_stops_and_news_reach_the_giver_and_the_other_processes(place: Place) -> None:
    async def story() -> None:
        async with place.queues("one", "two") as (one, two):
            for reader in (one, two):
                await heard(reader.news, lambda: one.news.put(NEWS), NEWS)
                await heard(reader.stops, lambda: one.stops.put(NEWS), NEWS)

    asyncio.run(story())


def test_an_offer_reaches_a_worker_with_every_item_or_the_run_alone(place: Place) -> None:
    run_id = RunId("r-many")
    offered = ItemOffer(run_id, keys(100))

    async def story() -> None:
        async with place.queues("scheduler", "worker") as (scheduler, worker):
            got: set[ItemKey] = set()
            unnamed = False
            scheduler.offers.put(offered)
            async with asyncio.timeout(PATIENCE_SECONDS):
                reading = asyncio.ensure_future(worker.offers.take())
                while got != set(offered.keys) and not unnamed:
                    done, _ = await asyncio.wait([reading], timeout=0.2)
                    if not done:
                        scheduler.offers.put(offered)
                        continue
                    for offer in reading.result():
                        assert offer.run_id == run_id
                        got |= set(offer.keys)
                        unnamed |= not offer.keys
                    reading = asyncio.ensure_future(worker.offers.take())
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    asyncio.run(story())


def test_changes_reach_other_instances_whole_and_not_the_sender(place: Place) -> None:
    archived = ItemsArchived(ExperimentId("e"), RunId("r"), keys(500))
    ended = RunEnded(ExperimentId("e"), RunId("r"), RunStatus.SUCCESS)

    async def story() -> None:
        async with place.queues("driver", "watched") as (driver, watched):
            own = asyncio.ensure_future(driver.changes.take())

            def tell() -> None:
                driver.changes.put(archived)
                driver.changes.put(ended)

            got: Sequence[ItemsArchived | RunEnded] = await heard(watched.changes, tell, ended)
            told = {key for one in got if isinstance(one, ItemsArchived) for key in one.keys}
            assert told == set(archived.keys)
            assert not own.done(), "the sender has told its own watchers already"
            own.cancel()
            await asyncio.gather(own, return_exceptions=True)

    if place.is_shared:
        asyncio.run(story())


def test_redis_restarted_empty_carries_hints_again(
    own_redis: RedisProcess, tmp_path_factory: pytest.TempPathFactory
) -> None:
    database_url = fresh_sqlite(tmp_path_factory.mktemp("database"))
    offer = ItemOffer(RunId("r"), keys(1))

    async def story() -> None:
        async with Place(own_redis.url, database_url).queues("one", "two") as (one, two):
            await heard(two.news, lambda: one.news.put(NEWS), NEWS)
            await heard(two.offers, lambda: one.offers.put(offer), offer)
            own_redis.restart_empty()
            await heard(two.news, lambda: one.news.put(NEWS), NEWS)
            await heard(two.offers, lambda: one.offers.put(offer), offer)

    asyncio.run(story())


def test_while_redis_is_away_a_process_offers_work_to_itself(own_redis: RedisProcess) -> None:
    offer = ItemOffer(RunId("r"), keys(1))

    async def story() -> None:
        own_redis.kill()
        async with Place(own_redis.url, "").queues("one") as (queue,):
            await heard(queue.offers, lambda: queue.offers.put(offer), offer)
            await heard(queue.news, lambda: queue.news.put(NEWS), NEWS)

    asyncio.run(story())


def test_notifications_are_asked_of_postgresql_only(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    database_url = fresh_sqlite(tmp_path_factory.mktemp("database"))
    with pytest.raises(SettingsError, match="needs PostgreSQL"):
        open_queue("database", database_url, "one", SystemClock())
