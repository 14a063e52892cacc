"""News: heard by all others, or by the one it is for, while they listen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.contract.cluster.bench import Bench

from dragoman.ids import AttemptId, JobId, NodeId
from dragoman.live.cluster import (
    AttemptProgress,
    CatalogStale,
    Change,
    Cluster,
    Marked,
    NodeChanged,
    SlotFreed,
)

NODE = NodeId("n-1")

EVERY_KIND: list[Change] = [
    NodeChanged(cell=2, node_id=NODE),
    SlotFreed(slots=2),
    AttemptProgress(JobId("j-1"), AttemptId("a-1"), b"\x00\xff partial"),
    Marked(NODE, "asr-1", "model is gone", 60_000),
    CatalogStale("asr-1", "2.0"),
]


class Ears:
    """What an instance heard."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.heard: asyncio.Queue[Change] = asyncio.Queue()
        self.gaps = 0
        self._ready = asyncio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Ears]:
        listening = asyncio.create_task(self._cluster.listen(self.heard.put_nowait, self._gap))
        try:
            async with asyncio.timeout(20):
                await self._ready.wait()
                yield self
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    def _gap(self) -> None:
        self.gaps += 1
        self._ready.set()


@pytest.mark.parametrize("change", EVERY_KIND, ids=lambda change: type(change).__name__)
def test_news_is_heard_by_every_other_instance(bench: Bench, change: Change) -> None:
    one, two, three = (bench.joined(name) for name in ("one", "two", "three"))

    async def live() -> list[Change]:
        async with Ears(two).open() as second, Ears(three).open() as third:
            await one.publish(change)
            return [await second.heard.get(), await third.heard.get()]

    assert bench(live()) == [change, change]


def test_a_caller_does_not_hear_itself(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")

    async def live() -> Change:
        async with Ears(one).open() as ears:
            await one.publish(EVERY_KIND[0])
            await other.publish(EVERY_KIND[1])
            return await ears.heard.get()

    assert bench(live()) == EVERY_KIND[1]


def test_news_for_one_instance_is_heard_by_that_one_alone(bench: Bench) -> None:
    one, two, three = (bench.joined(name) for name in ("one", "two", "three"))

    async def live() -> list[Change]:
        async with Ears(two).open() as second, Ears(three).open() as third:
            await one.publish(EVERY_KIND[0], to=two.instance_id)
            await one.publish(EVERY_KIND[1], to=three.instance_id)
            return [await second.heard.get(), await third.heard.get()]

    assert bench(live()) == EVERY_KIND[:2]


def test_a_new_listener_is_told_that_it_may_have_missed_something(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")

    async def live() -> None:
        await other.publish(EVERY_KIND[0])
        async with Ears(one).open() as ears:
            assert ears.gaps == 1
            await other.publish(EVERY_KIND[1])
            assert await ears.heard.get() == EVERY_KIND[1]
            assert ears.gaps == 1

    bench(live())


def test_news_without_a_listener_is_no_error(bench: Bench) -> None:
    one = bench.joined("one")

    bench(one.publish(EVERY_KIND[0]))
