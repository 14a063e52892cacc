"""Slots of a Redis Cluster move while they are used: calls wait, and users do not see it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import redis
from redis.crc import key_slot
from tests.contract.shared.bench import Bench
from tests.integration.shared_redis.conftest import OpenBench, ledger_of
from tests.servers import RedisCluster, RedisProcess
from tests.servers.programs import wait_until

from dragoman.ids import JOB_SHARDS
from dragoman.live.protocol import Outcome
from dragoman.live.shared import records as r

pytestmark = pytest.mark.redis

SIDE_BY_SIDE = 8


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    cluster = RedisCluster(tmp_path / "cluster")
    yield cluster
    cluster.stop()


class Move:
    """A slot on its way from one master to another."""

    def __init__(self, cluster: RedisCluster, slot: int, owner: RedisProcess | None = None) -> None:
        self._slot = slot
        self._nodes = cluster.nodes
        self._source = owner or next(
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


def test_every_slot_moves_under_load_and_no_job_sees_it(
    own_cluster: RedisCluster, open_bench: OpenBench
) -> None:
    """Each master gives the slots of shards and cells to the next, while jobs come and go."""
    bench = open_bench(own_cluster.url, cluster=True)
    node = bench.join("n-1", slots=SIDE_BY_SIDE)
    prefix = ledger_of(bench).key_prefix
    tags = [f"s{number:02x}" for number in range(JOB_SHARDS)] + ["c0", "directory"]
    slots = sorted({key_slot(f"{prefix}:m2:{{{tag}}}:x".encode()) for tag in tags})

    answers: list[tuple[object, ...]] = []

    def move_all(stop: Event) -> int:
        with Masters(own_cluster) as masters:
            for moved, slot in enumerate(slots):
                # However busy the machine is, jobs come and go between the slots.
                wait_until(lambda: stop.is_set() or len(answers) >= moved, "more jobs")  # noqa: B023
                if stop.is_set():
                    return moved
                masters.hand_on(slot)
        return len(slots)

    async def one(number: int) -> tuple[object, ...]:
        job = bench.new_job()
        ask = bench.ask(node, attempt_id=job.attempt_id, job_id=job.job_id)
        opened, granted = await asyncio.gather(
            bench.ledger.open(bench.opening(job)), bench.ledger.reserve(ask)
        )
        again = await bench.ledger.open(bench.opening(job)) if number % 5 == 0 else opened
        freed, closed = await asyncio.gather(
            bench.ledger.finish(0, job.attempt_id, node.sender, r.Finish(Outcome.SUCCESS)),
            bench.ledger.close(bench.closing(job)),
        )
        return opened, again, granted, freed, closed

    async def live() -> int:
        stop = Event()
        moving = asyncio.create_task(asyncio.to_thread(move_all, stop))
        try:
            while not moving.done():
                batch = range(len(answers), len(answers) + SIDE_BY_SIDE)
                answers.extend(await asyncio.gather(*map(one, batch)))
                await asyncio.sleep(0.02)
        finally:
            stop.set()
        return await moving

    moved = bench(live())
    assert moved == len(slots)
    for opened, again, granted, freed, closed in answers:
        assert isinstance(opened, r.Opened)
        assert isinstance(again, r.Opened)
        assert isinstance(granted, r.Granted)
        assert isinstance(freed, r.FreedSlot)
        assert isinstance(closed, r.Closed), "a job ends once"
    assert bench.held(node) == 0
    size = bench(bench.ledger.size())
    assert (size["open"], size["held"], size["jobs"]) == (0, 0, len(answers))


class Masters:
    """The masters of a cluster, as an operator sees them who moves slots between them."""

    def __init__(self, cluster: RedisCluster) -> None:
        # Its commands are not typed.
        self._clients: list[Any] = [redis.Redis.from_url(node.url) for node in cluster.nodes]
        self._ids = [client.execute_command("CLUSTER MYID").decode() for client in self._clients]
        self._ports = [node.port for node in cluster.nodes]
        self._owners: dict[int, int] = {}
        for first, last, master, *_ in self._clients[0].execute_command("CLUSTER SLOTS"):
            for slot in range(first, last + 1):
                self._owners[slot] = self._ports.index(master[1])

    def __enter__(self) -> Masters:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()

    def hand_on(self, slot: int) -> None:
        """Move a slot with all its keys to the next master."""
        at = self._owners[slot]
        to = self._owners[slot] = (at + 1) % len(self._clients)
        source, target = self._clients[at], self._clients[to]
        target.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", self._ids[at])
        source.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", self._ids[to])
        while keys := source.execute_command("CLUSTER GETKEYSINSLOT", slot, 50):
            source.execute_command(
                "MIGRATE", "127.0.0.1", self._ports[to], "", 0, 5_000, "KEYS", *keys
            )
        for client in (target, source, *self._clients):
            client.execute_command("CLUSTER SETSLOT", slot, "NODE", self._ids[to])
