"""The cluster in memory can be made to fail in every way a cluster on Redis does."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.cluster.bench import CARD, ended
from tests.contract.cluster.virtual import make_hub

from dragoman.errors import DependencyDown
from dragoman.ids import InstanceId
from dragoman.live.cluster import Change, Handed, MemoryPeers, Posted, SlotFreed
from dragoman.testing import run_virtual

NEWS = SlotFreed(1)
ONE, OTHER = InstanceId("one"), InstanceId("other")


async def length(peers: MemoryPeers) -> int:
    handed = await peers.take(0)
    assert isinstance(handed, Handed)
    return handed.length


def test_a_cluster_that_is_down_answers_nothing_and_says_so_to_listeners_when_it_is_back() -> None:
    async def live() -> None:
        hub = make_hub()
        one, other = hub.peers(ONE), hub.peers(OTHER)
        await one.join(CARD)
        heard: list[Change] = []
        gaps: list[float] = []
        loop = asyncio.get_running_loop()
        listening = asyncio.create_task(one.listen(heard.append, lambda: gaps.append(loop.time())))
        await asyncio.sleep(1)
        hub.go_down()
        for operation in (
            one.renew(CARD),
            one.post(ONE, ended(1)),
            one.take(10),
            one.receive(10, 1),
            other.publish(NEWS),
            one.instances(),
            one.first_in_window("key", 1),
        ):
            with pytest.raises(DependencyDown):
                await operation
        hub.come_back()
        await other.publish(NEWS)
        assert (len(gaps), heard) == (2, [NEWS])
        listening.cancel()

    run_virtual(live, seed=1)


def test_a_paused_instance_gets_its_answers_when_it_goes_on_and_hears_nothing_meanwhile() -> None:
    async def live() -> None:
        hub = make_hub()
        one, other = hub.peers(ONE), hub.peers(OTHER)
        await one.join(CARD)
        heard: list[Change] = []
        listening = asyncio.create_task(one.listen(heard.append, lambda: None))
        await asyncio.sleep(1)
        hub.faults.pause(ONE)
        renewing = asyncio.create_task(one.renew(CARD))
        await other.publish(NEWS)
        await asyncio.sleep(100)
        assert not renewing.done()
        hub.faults.resume(ONE)
        await renewing
        assert heard == []
        listening.cancel()

    run_virtual(live, seed=2)


def test_an_answer_that_is_lost_does_not_undo_what_was_done() -> None:
    async def live() -> None:
        hub = make_hub()
        one = hub.peers(ONE)
        await one.join(CARD)
        hub.faults.lost_answers = 1.0
        with pytest.raises(DependencyDown):
            await one.post(ONE, ended(1))
        hub.faults.lost_answers = 0.0
        assert await length(one) == 1

    run_virtual(live, seed=3)


def test_notes_and_news_can_be_lost_or_late() -> None:
    async def live() -> None:
        hub = make_hub()
        one, other = hub.peers(ONE), hub.peers(OTHER)
        await one.join(CARD)
        heard: list[Change] = []
        listening = asyncio.create_task(one.listen(heard.append, lambda: None))
        await asyncio.sleep(1)
        hub.faults.lost_notes = hub.faults.lost_changes = 1.0
        assert await other.post(ONE, ended(1)) == Posted()
        await other.publish(NEWS)
        await asyncio.sleep(1)
        assert (await length(one), heard) == (0, [])

        hub.faults.lost_notes = hub.faults.lost_changes = 0.0
        hub.faults.late_seconds = 2.0
        await other.post(ONE, ended(1))
        await other.publish(NEWS)
        assert (await length(one), heard) == (0, [])
        await asyncio.sleep(2)
        assert (await length(one), heard) == (1, [NEWS])
        listening.cancel()

    run_virtual(live, seed=4)
