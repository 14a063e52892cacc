"""Redis stops, forgets, cuts connections: refusals are typed and in time, and life goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio.connection import AbstractConnection
from tests.integration.cluster_redis.conftest import OpenPeers
from tests.integration.cluster_redis.notes import CARD, ended, take, until, until_it_answers
from tests.servers import RedisProcess

from dragoman.errors import DependencyDown
from dragoman.ids import InstanceId, TenantId
from dragoman.live.cluster import (
    Block,
    Burial,
    Change,
    Handed,
    Limited,
    Posted,
    Renewed,
    SlotFreed,
)

pytestmark = pytest.mark.redis

TIMEOUT_MS = 3_000
"""Longer than a busy machine stands still."""
ONE = InstanceId("one")
ACME = TenantId("acme")
SESSIONS = Limited.SESSIONS


def test_a_redis_that_stands_still_is_reported_in_time(
    own_redis: RedisProcess, open_peers: OpenPeers
) -> None:
    async def live() -> None:
        one = open_peers(own_redis.url, ONE, timeout_ms=TIMEOUT_MS)
        await one.join(CARD)
        own_redis.pause()
        async with asyncio.timeout(10 * TIMEOUT_MS / 1000):
            answers = await asyncio.gather(
                one.renew(CARD),
                one.post(ONE, ended(1)),
                one.take(10),
                one.receive(10, 10),
                one.publish(SlotFreed(1)),
                one.first_in_window("key", 1_000),
                return_exceptions=True,
            )
        assert all(isinstance(answer, DependencyDown) for answer in answers)
        own_redis.resume()
        assert await until_it_answers(lambda: one.renew(CARD)) == Renewed()
        await one.close()

    asyncio.run(live())


def test_after_a_restart_without_data_everybody_is_there_again_with_the_next_renewal(
    own_redis: RedisProcess, open_peers: OpenPeers
) -> None:
    async def live() -> None:
        one = open_peers(own_redis.url, ONE, timeout_ms=TIMEOUT_MS)
        other = open_peers(own_redis.url, "other", timeout_ms=TIMEOUT_MS)
        await one.join(CARD)
        await other.join(CARD)
        await other.post(ONE, ended(1))
        (in_work,) = await take(one)
        await one.hold(SESSIONS, ACME, used=0, wanted=1, limit=1, ttl_ms=45_000)

        own_redis.restart_empty()

        # Reading an inbox that is gone is no error, and neither is striking out what was in it.
        answer = await until_it_answers(lambda: one.take(10, done=[in_work.entry_id]))
        assert answer == Handed()
        assert await until_it_answers(lambda: other.renew(CARD)) == Renewed(revived=True)
        assert await one.renew(CARD) == Renewed(revived=True)
        assert [view.alive for view in await other.instances()] == [True, True]
        assert await other.post(ONE, ended(2)) == Posted()
        received = await one.receive(10, 10)
        assert [delivery.note for delivery in received.deliveries] == [ended(2)]
        asked = {"wanted": 1, "limit": 1, "ttl_ms": 45_000}
        assert await one.hold(SESSIONS, ACME, used=1, **asked) == Block(1, 1)
        assert await other.hold(SESSIONS, ACME, used=0, **asked) == Block(0, 1)
        await one.close()
        await other.close()

    asyncio.run(live())


def test_functions_that_were_flushed_are_loaded_again(
    own_redis: RedisProcess, open_peers: OpenPeers
) -> None:
    async def live() -> None:
        one = open_peers(own_redis.url, ONE)
        await one.join(CARD)
        own_redis.command("FUNCTION", "FLUSH")
        assert await one.renew(CARD) == Renewed()
        answers = await asyncio.gather(*(one.post(ONE, ended(number)) for number in range(20)))
        assert answers == [Posted()] * 20
        own_redis.command("FUNCTION", "FLUSH")
        assert len(await take(one)) == 20
        await one.close()

    asyncio.run(live())


def test_a_wait_for_notes_keeps_no_other_request_waiting(
    own_redis: RedisProcess, open_peers: OpenPeers
) -> None:
    """A wait that lasts does not hold a connection that other calls need."""

    async def live() -> None:
        # Waits end by themselves only after half of this.
        one = open_peers(own_redis.url, ONE, timeout_ms=60_000)
        await one.join(CARD)
        waiting = asyncio.create_task(one.receive(10, 60))
        await until(
            lambda: "blocked_clients:1" in own_redis.command("INFO", "clients").split(),
            "somebody waits at the server",
        )
        for number in range(300):
            assert await one.first_in_window(f"key-{number}", 1_000)
        assert not waiting.done(), "every other call was answered while it waited"
        await one.post(ONE, ended(1))
        await waiting
        await one.close()

    asyncio.run(live())


def test_many_calls_at_once_share_a_few_connections(
    own_redis: RedisProcess, open_peers: OpenPeers
) -> None:
    async def live() -> None:
        one = open_peers(own_redis.url, ONE)
        await one.join(CARD)
        answers = await asyncio.gather(*(one.post(ONE, ended(number)) for number in range(2_000)))
        assert answers == [Posted()] * 2_000
        info = dict(
            line.split(":") for line in own_redis.command("INFO", "clients").split() if ":" in line
        )
        assert int(info["connected_clients"]) <= 8
        await one.close()

    asyncio.run(live())


def test_a_listener_that_lost_its_connection_is_told_of_the_gap_and_listens_again(
    own_redis: RedisProcess, open_peers: OpenPeers, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Change] = []
    connections: list[AbstractConnection] = []
    gaps = 0

    def on_gap() -> None:
        nonlocal gaps
        gaps += 1

    def news(number: int) -> SlotFreed:
        return SlotFreed(number)

    async def live() -> None:
        one = open_peers(own_redis.url, ONE, timeout_ms=TIMEOUT_MS)
        other = open_peers(own_redis.url, "other", timeout_ms=TIMEOUT_MS)
        make_connection = one._servers.own_connection

        async def watched() -> AbstractConnection:
            connections.append(await make_connection())
            return connections[-1]

        monkeypatch.setattr(one._servers, "own_connection", watched)
        listening = asyncio.create_task(one.listen(heard.append, on_gap))
        await until(lambda: gaps == 1, "it listens")
        await other.publish(news(1))
        await until(lambda: len(heard) == 1, "the first news is heard")

        own_redis.command("CLIENT", "KILL", "TYPE", "pubsub")
        await other.publish(news(2))
        await until(lambda: gaps == 2, "it listens again")
        await other.publish(news(3))
        await until(lambda: len(heard) == 2, "news is heard again")

        own_redis.restart_empty()
        await until(lambda: gaps == 3, "it listens to the new one")
        await until_it_answers(lambda: other.publish(news(4)))
        await until(lambda: len(heard) == 3, "the new one's news is heard")

        own_redis.pause()
        # A connection on which nothing is answered is given up, however open it looks.
        tried = len(connections)
        await until(lambda: len(connections) > tried, "the silent connection is given up")
        own_redis.resume()
        await until(lambda: gaps == 4, "it listens after the silence")
        assert heard == [news(1), news(3), news(4)]
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await one.close()
        await other.close()

    asyncio.run(live())


def test_a_note_of_an_unknown_kind_becomes_a_dead_letter(
    redis_server: RedisProcess, open_peers: OpenPeers, key_prefix: str
) -> None:
    """During a rolling upgrade a newer instance may write what an older one cannot read."""

    async def live() -> None:
        one = open_peers(redis_server.url, ONE)
        await one.join(CARD)
        redis_server.command("XADD", f"{key_prefix}:m2:{{i:one}}:inbox", "*", "note", "gibberish")
        await one.post(ONE, ended(1))
        handed = await one.take(10)
        assert isinstance(handed, Handed)
        assert [delivery.note for delivery in handed.deliveries] == [ended(1)]
        assert (handed.buried, handed.length) == (1, 1)
        (letter,) = await one.letters()
        assert (letter.reason, letter.written) == (Burial.UNREADABLE, b"gibberish")
        await one.close()

    asyncio.run(live())


def test_nothing_is_kept_for_ever(
    redis_server: RedisProcess, open_peers: OpenPeers, key_prefix: str
) -> None:
    async def live() -> None:
        one = open_peers(redis_server.url, ONE)
        await one.join(CARD)
        await one.post(ONE, ended(1))
        redis_server.command("XADD", f"{key_prefix}:m2:{{i:one}}:inbox", "*", "note", "gibberish")
        await one.take(10)
        await one.first_in_window("key", 5_000)
        await one.count_in_window("key", 3, 5_000)
        for what in Limited:
            await one.hold(what, ACME, used=0, wanted=1, limit=3, ttl_ms=45_000)
        await one.close()

    asyncio.run(live())
    keys = redis_server.command("KEYS", f"{key_prefix}:*").split("\n")
    assert len(keys) == 10
    for key in keys:
        assert int(redis_server.command("PTTL", key)) > 0, f"{key} has no time to live"


def test_waiting_is_no_busy_loop_while_an_old_note_is_still_in_work(
    own_redis: RedisProcess, open_peers: OpenPeers
) -> None:
    async def live() -> None:
        crashed = open_peers(own_redis.url, ONE)
        await crashed.join(CARD)
        await crashed.post(ONE, ended(1))
        assert len(await take(crashed)) == 1
        await crashed.close()

        restarted = open_peers(own_redis.url, ONE, timeout_ms=60_000)
        await restarted.join(CARD)
        assert await take(restarted) == ()
        waiting = asyncio.create_task(restarted.receive(10, 60))
        await until(
            lambda: "blocked_clients:1" in own_redis.command("INFO", "clients").split(),
            "it waits at the server",
        )
        await restarted.post(ONE, ended(2))
        received = await waiting
        assert [delivery.note for delivery in received.deliveries] == [ended(2)]
        await restarted.close()

    asyncio.run(live())


def test_a_name_on_the_roster_without_a_record_is_struck_by_the_next_look(
    redis_server: RedisProcess, open_peers: OpenPeers, key_prefix: str
) -> None:
    """A process died between its first and its second step."""

    async def live() -> None:
        one = open_peers(redis_server.url, ONE)
        await one.join(CARD)
        redis_server.command("HSET", f"{key_prefix}:m2:{{instances}}:known", "ghost", "life-0")
        views = {view.instance_id: view.alive for view in await one.instances()}
        assert views == {"ghost": False, "one": True}
        assert await one.take_down(InstanceId("ghost")) is None
        assert [view.instance_id for view in await one.instances()] == ["one"]
        await one.close()

    asyncio.run(live())


def test_an_instance_stays_present_and_works_off_its_notes_while_redis_is_full(
    own_redis: RedisProcess, open_peers: OpenPeers
) -> None:
    async def live() -> None:
        peer = open_peers(own_redis.url, "peer")
        late = open_peers(own_redis.url, "late")
        await peer.join(CARD)
        await peer.post(peer.instance_id, ended(1))
        own_redis.command("CONFIG", "SET", "maxmemory", "1")
        assert await peer.renew(CARD) == Renewed(revived=False)
        handed: Any = await peer.take(1)
        assert [delivery.note for delivery in handed.deliveries] == [ended(1)]
        handed = await peer.take(1, done=[handed.deliveries[0].entry_id])
        assert handed.length == 0
        for asked in (late.join(CARD), peer.post(peer.instance_id, ended(2))):
            with pytest.raises(DependencyDown, match="no memory left"):
                await asked
        await peer.leave()
        await peer.close()
        await late.close()

    asyncio.run(live())
