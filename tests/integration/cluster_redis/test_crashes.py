"""Processes that die between reading a note and striking it out."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cluster_redis.conftest import OpenPeers
from tests.integration.cluster_redis.notes import CARD, QUICK, ended, take, until
from tests.servers import RedisProcess

from dragoman.ids import InstanceId
from dragoman.live.cluster import ClusterTerms, Drained, NoteDelivery, Posted, RedisPeers

pytestmark = pytest.mark.redis

ROOT = Path(__file__).parents[3]
READER = InstanceId("reader")
SOON_LYING = ClusterTerms(reclaim_idle_ms=50)

StartChild = Callable[[str, str], "subprocess.Popen[str]"]


@pytest.fixture
def start_child(key_prefix: str) -> Iterator[StartChild]:
    """Start `reading_child` or `living_child` as a process; killed at the latest by the end."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, url: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", f"tests.integration.cluster_redis.{program}"),
                *(url, key_prefix, READER),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert _line(process) == "joined"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def take_when_left_lying(peers: RedisPeers, count: int) -> list[NoteDelivery]:
    """Take until so many notes were handed out; they come when they have lain long enough."""
    taken: dict[str, NoteDelivery] = {}
    async with asyncio.timeout(20):
        while len(taken) < count:
            handed: Any = await peers.take(100, in_hand=list(taken))
            taken |= {delivery.entry_id: delivery for delivery in handed.deliveries}
            await asyncio.sleep(0.005)
    return list(taken.values())


def test_what_a_killed_process_had_in_work_is_done_by_its_next_life(
    redis_server: RedisProcess, open_peers: OpenPeers, start_child: StartChild
) -> None:
    async def live() -> None:
        sender = open_peers(redis_server.url, "sender")
        await sender.join(CARD)
        victim = start_child("reading_child", redis_server.url)
        for number in range(3):
            assert await sender.post(READER, ended(number)) == Posted()
        in_work = [await asyncio.to_thread(_line, victim) for _ in range(3)]
        victim.kill()
        victim.wait()

        restarted = open_peers(redis_server.url, READER, SOON_LYING)
        await restarted.join(CARD)
        taken = await take_when_left_lying(restarted, 3)
        assert [(delivery.entry_id, delivery.deliveries) for delivery in taken] == [
            (entry_id, 2) for entry_id in in_work
        ]
        await restarted.take(0, done=in_work)
        assert await take(restarted) == ()
        await restarted.close()
        await sender.close()

    asyncio.run(live())


def test_what_a_live_process_has_in_hand_is_not_taken_from_it(
    redis_server: RedisProcess, open_peers: OpenPeers
) -> None:
    """A note may be in work for many times the idle time, while its process says so."""

    async def live() -> None:
        sender = open_peers(redis_server.url, "sender")
        await sender.join(CARD)
        reader = open_peers(redis_server.url, READER, SOON_LYING)
        await reader.join(CARD)
        await sender.post(READER, ended(1))
        (long,) = await take(reader)
        # Others come and go, each left lying until it is handed out again.
        for number in range(2, 6):
            await sender.post(READER, ended(number))
            seen: list[NoteDelivery] = []
            async with asyncio.timeout(20):
                while [delivery.deliveries for delivery in seen] != [1, 2]:
                    handed: Any = await reader.take(10, in_hand=[long.entry_id])
                    seen += handed.deliveries
                    await asyncio.sleep(0.005)
            assert {delivery.note for delivery in seen} == {ended(number)}
            await reader.take(0, done=[seen[0].entry_id], in_hand=[long.entry_id])
        await reader.close()
        await sender.close()

    asyncio.run(live())


def test_the_inbox_of_a_killed_process_is_drained_by_a_peer(
    redis_server: RedisProcess, open_peers: OpenPeers, start_child: StartChild
) -> None:
    shift_ms = 0

    async def live() -> None:
        nonlocal shift_ms
        peer = open_peers(redis_server.url, "peer", time_shift_ms=lambda: shift_ms)
        await peer.join(CARD)
        victim = start_child("reading_child", redis_server.url)
        for number in range(3):
            await peer.post(READER, ended(number))
        await asyncio.to_thread(_line, victim)
        victim.kill()
        victim.wait()
        shift_ms = 31_000
        assert await peer.take_down(READER) is None
        shift_ms += 15_000
        clean_up = await peer.take_down(READER)
        assert clean_up is not None
        drained = await peer.drain(clean_up)
        assert drained == Drained(tuple(ended(number) for number in range(3)), more=False)
        assert await peer.finish(clean_up)
        await peer.close()

    asyncio.run(live())


def test_a_burial_that_was_broken_off_leaves_one_letter(
    redis_server: RedisProcess, open_peers: OpenPeers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the grave, then the inbox: between the two the note is in both."""
    terms = ClusterTerms(reclaim_idle_ms=5, max_deliveries=1)

    async def live() -> None:
        reader = open_peers(redis_server.url, READER, terms)
        await reader.join(CARD)
        await reader.post(READER, ended(1))
        assert len(await take(reader)) == 1

        async def dies(*_: object) -> None:
            raise asyncio.CancelledError

        ask = reader._tags.ask_instance

        def struck_down(to: InstanceId, name: str, *rest: Any) -> Any:
            return dies() if name == "strike_out" else ask(to, name, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(reader._tags, "ask_instance", struck_down)
            while not await reader.letters():
                try:
                    await reader.take(10)
                except asyncio.CancelledError:
                    break
        (view,) = await reader.instances()
        assert (view.inbox_length, view.dead_letters) == (1, 1)
        handed: Any = await reader.take(0)
        while handed.length:
            handed = await reader.take(10)
        (letter,) = await reader.letters()
        assert letter.deliveries == 2
        await reader.close()

    asyncio.run(live())


def test_a_process_that_was_stopped_drops_its_sockets_before_it_handles_a_note(
    redis_server: RedisProcess, open_peers: OpenPeers, start_child: StartChild
) -> None:
    async def live() -> list[str]:
        peer = open_peers(redis_server.url, "peer", QUICK)
        await peer.join(CARD)
        stopped = start_child("living_child", redis_server.url)
        stopped.send_signal(signal.SIGSTOP)
        assert await peer.post(READER, ended(1)) == Posted()
        stopped_at = time.monotonic()
        await until(
            lambda: time.monotonic() - stopped_at > QUICK.presence_ttl_ms / 1000,
            "others count it as gone",
        )
        views = {view.instance_id: view.alive for view in await peer.instances()}
        assert views[READER] is False
        # The peer was silent as well; it is not to be cleaned up after.
        await peer.renew(CARD)
        # Nobody took it down: only its own pulse can tell it.
        stopped.send_signal(signal.SIGCONT)
        told = [await asyncio.to_thread(_line, stopped) for _ in range(2)]
        await peer.close()
        return told

    assert asyncio.run(live()) == ["fenced paused", "handled EndedNote"]
