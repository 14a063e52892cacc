"""The queue inside one process: hints arrive once, in order."""

from __future__ import annotations

import asyncio

from dragoman.lab.model import ItemId, ItemKey, RunId
from dragoman.lab.queue import InProcessQueue, ItemOffer
from dragoman.lab.queue.in_process import UNREAD_HINTS_MAX


def test_hints_arrive_in_order_and_each_once() -> None:
    async def story() -> None:
        queue = InProcessQueue()
        for name in ("a", "b", "a"):
            queue.news.put(RunId(name))

        assert list(await queue.news.take()) == ["a", "b"]

    asyncio.run(story())


def test_a_reader_waits_for_the_next_hint() -> None:
    async def story() -> None:
        queue = InProcessQueue()
        offer = ItemOffer(RunId("r"), (ItemKey(ItemId("i")),))
        reading = asyncio.create_task(queue.offers.take())
        await asyncio.sleep(0)
        assert not reading.done()

        queue.offers.put(offer)

        assert list(await reading) == [offer]

    asyncio.run(story())


def test_hints_that_no_part_of_the_process_reads_are_not_kept_for_ever() -> None:
    async def story() -> None:
        queue = InProcessQueue()
        for number in range(3 * UNREAD_HINTS_MAX):
            queue.stops.put(RunId(f"r-{number}"))

        kept = list(await queue.stops.take())

        assert len(kept) == UNREAD_HINTS_MAX
        assert kept[-1] == f"r-{3 * UNREAD_HINTS_MAX - 1}"

    asyncio.run(story())
