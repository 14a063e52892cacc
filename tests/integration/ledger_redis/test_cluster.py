"""A real Redis Cluster: one slot a call, and slots that move while they are in use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from redis.crc import key_slot
from tests.integration.ledger_redis.conftest import OpenLedger
from tests.integration.ledger_redis.fleet import ask, claim, granted_or_none, held, join
from tests.servers import RedisCluster, RedisProcess

from dragoman.live.ledger import Claimed, Full, Granted
from dragoman.redis_servers import Command, connection

pytestmark = pytest.mark.redis


def test_all_keys_of_every_call_are_in_one_slot(
    redis_cluster: RedisCluster,
    open_ledger: OpenLedger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[str, ...]] = []
    ask_server = connection.Connection.ask

    def watched(
        self: connection.Connection,
        commands: Sequence[Command],
        askers: Sequence[connection.Asker],
    ) -> None:
        for command in commands:
            count = int(command[2])
            calls.append(tuple(bytes(key).decode() for key in command[3 : 3 + count]))  # type: ignore[arg-type]
        ask_server(self, commands, askers)

    monkeypatch.setattr(connection.Connection, "ask", watched)

    async def live() -> None:
        ledger = open_ledger(redis_cluster.url, cluster=True)
        for number in range(3):
            await join(ledger, f"n-{number}", 2)
        claimed = await ledger.claim(claim())
        assert isinstance(claimed, Claimed)
        assert isinstance(await ledger.reserve(ask(0, job_id=claimed.job_id)), Granted)
        await ledger.due_attempts(range(5), 10)
        await ledger.due_jobs(range(256), 10)
        assert (await ledger.size())["seats"] == 3
        await ledger.close()

    asyncio.run(live())
    assert len(set(calls)) > 256
    for keys in calls:
        assert len({key_slot(key.encode()) for key in keys}) == 1
    sample = {keys[0] for keys in calls[:20]}
    for key in sample:
        answer = redis_cluster.nodes[0].command("CLUSTER", "KEYSLOT", key)
        assert int(answer) == key_slot(key.encode())


def _move_slot(slot: int, source: RedisProcess, target: RedisProcess) -> None:
    source_id, target_id = source.command("CLUSTER", "MYID"), target.command("CLUSTER", "MYID")
    target.command("CLUSTER", "SETSLOT", str(slot), "IMPORTING", source_id)
    source.command("CLUSTER", "SETSLOT", str(slot), "MIGRATING", target_id)
    while keys := source.command("CLUSTER", "GETKEYSINSLOT", str(slot), "1"):
        source.command("MIGRATE", "127.0.0.1", str(target.port), keys, "0", "1000")
    for node in (target, source):
        node.command("CLUSTER", "SETSLOT", str(slot), "NODE", target_id)


def test_a_slot_that_moves_while_it_is_used_is_never_oversold(
    redis_cluster: RedisCluster, open_ledger: OpenLedger, key_prefix: str
) -> None:
    slot = key_slot(f"{key_prefix}:{{c0}}:board".encode())
    moved = asyncio.Event()

    async def ask_on(granted: set[str]) -> None:
        ledger = open_ledger(redis_cluster.url, cluster=True)
        while not moved.is_set():
            wanted = ask(0)
            if await granted_or_none(ledger, wanted):
                granted.add(wanted.attempt_id)
            await asyncio.sleep(0.001)
        await ledger.close()

    async def live() -> None:
        ledger = open_ledger(redis_cluster.url, cluster=True)
        for number in range(10):
            await join(ledger, f"n-{number}", 50)
        source = next(
            node
            for node in redis_cluster.nodes
            if node.command("CLUSTER", "COUNTKEYSINSLOT", str(slot)) != "0"
        )
        target = next(node for node in redis_cluster.nodes if node is not source)
        granted: set[str] = set()
        askers = [asyncio.create_task(ask_on(granted)) for _ in range(2)]
        try:
            await asyncio.to_thread(_move_slot, slot, source, target)
        finally:
            moved.set()
            await asyncio.gather(*askers)
        # Every ledger finds the slot at its new place.
        while len(granted) < 600:
            wanted = ask(0)
            answer = await ledger.reserve(wanted)
            if isinstance(answer, Full):
                break
            assert isinstance(answer, Granted)
            granted.add(wanted.attempt_id)
        # An ask whose outcome is unknown may hold a slot too, but no node has more than its own.
        counts = await held(ledger, 0)
        assert all(count <= 50 for count in counts.values())
        assert len(granted) <= sum(counts.values()) == 500
        await ledger.close()
        await asyncio.to_thread(_move_slot, slot, target, source)

    asyncio.run(live())
