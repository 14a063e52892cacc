"""A real Redis Cluster: one slot a call, whatever is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from redis.crc import key_slot
from tests.integration.cluster_redis.conftest import OpenPeers
from tests.integration.cluster_redis.notes import CARD, ended, take
from tests.servers import RedisCluster

from dragoman.ids import InstanceId, TenantId
from dragoman.live.cluster import ClusterTerms, Limited, Posted
from dragoman.redis_servers import Command, connection

pytestmark = pytest.mark.redis

INSTANCES = 6


def test_all_keys_of_every_call_are_in_one_slot_and_calls_reach_every_server(
    redis_cluster: RedisCluster, open_peers: OpenPeers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: set[tuple[str, ...]] = set()
    ask_server = connection.RedisConnection.ask

    def watched(
        self: connection.RedisConnection,
        commands: Sequence[Command],
        askers: Sequence[connection.ReplyWaiter],
    ) -> None:
        for command in commands:
            if command[0] == "FCALL":
                count = int(command[2])
                calls.add(tuple(bytes(key).decode() for key in command[3 : 3 + count]))  # type: ignore[arg-type]
        ask_server(self, commands, askers)

    monkeypatch.setattr(connection.RedisConnection, "ask", watched)
    terms = ClusterTerms(reclaim_idle_ms=1, max_deliveries=1)

    async def live() -> None:
        peers = [
            open_peers(redis_cluster.url, f"i-{number}", terms, cluster=True)
            for number in range(INSTANCES)
        ]
        for one in peers:
            await one.join(CARD)
        for one in peers:
            for to in peers:
                assert await one.post(to.instance_id, ended(1)) == Posted()
        for one in peers:
            assert len(await take(one)) == INSTANCES
            while len(await one.letters()) < INSTANCES:
                await one.take(10)
            letters = await one.letters()
            assert await one.replay(letters[0].letter_id) == Posted()
            await one.drop([letter.letter_id for letter in letters])
            await one.first_in_window(f"key of {one.instance_id}", 1_000)
            await one.hold(
                Limited.SESSIONS,
                TenantId(one.instance_id),
                used=0,
                wanted=1,
                limit=1,
                ttl_ms=1_000,
            )
        assert all(view.alive for view in await peers[0].instances())
        await peers[1].leave()
        clean_up = await peers[0].take_down(InstanceId("i-1"))
        assert clean_up is not None
        await peers[0].drain(clean_up)
        assert await peers[0].finish(clean_up)
        for one in peers:
            await one.close()

    asyncio.run(live())
    # Six instances, six tenants, six windows, the roster and the dead letters.
    assert len(calls) == 3 * INSTANCES + 2
    for keys in calls:
        assert len({key_slot(key.encode()) for key in keys}) == 1
    owners = {key_slot(keys[0].encode()) * 3 // 16384 for keys in calls}
    assert owners == {0, 1, 2}, "the keys are spread over all servers"
