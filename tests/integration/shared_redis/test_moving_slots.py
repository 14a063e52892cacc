"""Slots of a Redis Cluster move while they are used: calls wait, and users do not see it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.crc import key_slot
from tests.contract.shared.bench import Bench
from tests.integration.shared_redis.conftest import OpenBench, ledger_of
from tests.servers import RedisCluster, RedisProcess
from tests.servers.programs import wait_until

from dragoman.live.shared import records as r

pytestmark = pytest.mark.redis


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    cluster = RedisCluster(tmp_path / "cluster")
    yield cluster
    cluster.stop()


class Move:
    """A slot on its way from one master to another."""

    def __init__(self, cluster: RedisCluster, slot: int) -> None:
        self._slot = slot
        self._nodes = cluster.nodes
        self._source = next(
            node
            for node in cluster.nodes
            if node.command("CLUSTER", "COUNTKEYSINSLOT", str(slot)) != "0"
        )
        self._target = next(node for node in cluster.nodes if node is not self._source)
        self._source_id, self._target_id = _id(self._source), _id(self._target)

    def begin(self) -> None:
        self._target.command("CLUSTER", "SETSLOT", str(self._slot), "IMPORTING", self._source_id)
        self._source.command("CLUSTER", "SETSLOT", str(self._slot), "MIGRATING", self._target_id)

    def still_here(self) -> list[str]:
        found = self._source.command("CLUSTER", "GETKEYSINSLOT", str(self._slot), "1000")
        return found.split()

    def move(self, *keys: str) -> None:
        for key in keys:
            port = str(self._target.port)
            done = self._source.command("MIGRATE", "127.0.0.1", port, key, "0", "5000")
            assert done == "OK", done

    def finish(self) -> None:
        self.move(*self.still_here())
        for node in (self._target, self._source, *self._nodes):
            node.command("CLUSTER", "SETSLOT", str(self._slot), "NODE", self._target_id)


def _id(node: RedisProcess) -> str:
    return node.command("CLUSTER", "MYID")


def slot_of(bench: Bench, held: r.Holding) -> int:
    prefix = ledger_of(bench).key_prefix
    return key_slot(f"{prefix}:m2:{{s{held.session_id[2:4]}}}:open".encode())


def test_a_call_whose_keys_are_half_moved_waits_for_the_others(
    own_cluster: RedisCluster, open_bench: OpenBench
) -> None:
    bench = open_bench(own_cluster.url, cluster=True)
    held = bench.begin()
    first = bench.utterance(held, 0)
    bench.open(first)
    move = Move(own_cluster, slot_of(bench, held))
    move.begin()
    # The session goes, the job stays: neither server can end the job and deliver it.
    move.move(*(key for key in move.still_here() if ":z:" in key))

    async def close_meanwhile() -> object:
        closing = asyncio.create_task(bench.ledger.close(bench.closing(first.jobs[0], held=held)))
        await asyncio.to_thread(
            wait_until, lambda: ledger_of(bench).caller.waits_for_keys > 0, "a call to wait"
        )
        assert not closing.done()
        await asyncio.to_thread(move.finish)
        return await closing

    closed = bench(close_meanwhile())
    assert isinstance(closed, r.Closed)
    assert closed.seq == 1
    assert bench.session(held).next_seq == 2


def test_a_session_goes_on_where_its_slot_has_moved_to(
    own_cluster: RedisCluster, open_bench: OpenBench
) -> None:
    bench = open_bench(own_cluster.url, cluster=True)
    held = bench.begin()
    bench.open(bench.utterance(held, 0))
    move = Move(own_cluster, slot_of(bench, held))
    move.begin()
    move.finish()
    assert bench.open(bench.utterance(held, 1)).revision == 3
