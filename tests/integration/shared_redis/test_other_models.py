"""An instance does not start beside another data model, and takes over what that kept of nodes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
import redis
from tests.contract.shared.bench import HERE, Bench
from tests.integration.shared_redis.conftest import OpenBench, ledger_of
from tests.servers import PATIENT_MS, RedisProcess

from dragoman.errors import CannotStart
from dragoman.ids import ConnectionId, InstanceId, NodeId
from dragoman.live.cluster import Card, RedisPeers
from dragoman.live.ledger import HolderConflict, NodeRegistered, Owner, Registration
from dragoman.live.shared import records as r

pytestmark = pytest.mark.redis

EPOCH = 7
SLOTS = 3
FOR_EVER = -1


class FirstModel:
    """A Redis as the first data model left it: its keys name no version."""

    def __init__(self, bench: Bench, server: redis.Redis) -> None:
        self.bench = bench
        self.server = server
        self.prefix = ledger_of(bench).key_prefix

    def instance(self, name: str, *, standing: str = "up", seconds: float = 60) -> None:
        now, _ = self.server.time()
        self.server.hset(f"{self.prefix}:{{instances}}:known", name, "life-1")
        record: dict[Any, Any] = {"standing": standing, "until_ms": int((now + seconds) * 1000)}
        self.server.hset(f"{self.prefix}:{{i:{name}}}:record", mapping=record)

    def node(self, name: str, index: int, *, holder: str = "", drained: bool = False) -> None:
        entry = msgspec.msgpack.encode((0, holder, "i-old", "c-old", EPOCH))
        self.server.hset(f"{self.prefix}:{{directory}}:entries", name, entry)
        flags = 4 + 1 + 2 * drained
        record = struct.pack(">HHHBBddd", 0, SLOTS, 1, flags, 0, EPOCH, 0.0, 0.0)
        self.server.setrange(f"{self.prefix}:{{c0}}:board", 32 * (index + 1), record)
        seats: dict[Any, Any] = {f"n{name}": index, f"i{index}": "[]", f"f{index}": b"facts"}
        self.server.hset(f"{self.prefix}:{{c0}}:seats", mapping=seats)

    def start(self) -> None:
        self.bench(self.bench.ledger.start())

    def keys(self) -> dict[bytes, Any]:
        return {
            key: self.server.dump(key)
            for key in self.server.scan_iter(f"{self.prefix}:*")
            if b":m2:" not in key
        }


@pytest.fixture
def before(own_redis: RedisProcess, open_bench: OpenBench) -> Iterator[FirstModel]:
    with redis.Redis.from_url(own_redis.url) as server:
        yield FirstModel(open_bench(own_redis.url), server)


@pytest.mark.parametrize("name", ["old", "old {instance}/1"])
def test_an_instance_does_not_start_while_one_of_another_model_is_present(
    before: FirstModel, name: str
) -> None:
    if "{" in name:
        before.server.hset(f"{before.prefix}:{{instances}}:known", name, "life-1")
        now, _ = before.server.time()
        record: dict[Any, Any] = {"standing": "up", "until_ms": (now + 60) * 1000}
        before.server.hset(f"{before.prefix}:{{i:old %7Binstance%7D/1}}:record", mapping=record)
    else:
        before.instance(name)
    with pytest.raises(CannotStart, match=f"present: {name}. .*drain and stop"):
        before.start()


@pytest.mark.parametrize("model", ["m1", "m3", "m9"])
def test_an_instance_does_not_start_beside_a_later_model(before: FirstModel, model: str) -> None:
    before.prefix = f"{before.prefix}:{model}"
    before.instance("newer")
    with pytest.raises(CannotStart):
        before.start()


def test_an_instance_that_left_or_lapsed_is_not_present(before: FirstModel) -> None:
    before.instance("left", standing="left")
    before.instance("down", standing="down")
    before.instance("lapsed", seconds=-1)
    before.start()


def test_instances_of_the_same_model_start_beside_each_other(
    before: FirstModel, own_redis: RedisProcess
) -> None:
    async def join() -> None:
        peers = RedisPeers(
            own_redis.url, HERE, Random(1), key_prefix=before.prefix, timeout_ms=PATIENT_MS
        )
        await peers.join(Card("http://here", 0))
        await peers.close()

    before.bench(join())
    before.start()


def test_drains_and_ownership_are_copied_and_the_old_keys_stay(before: FirstModel) -> None:
    before.node("n-free", 0)
    before.node("n-drained", 1, holder="key-1", drained=True)
    old = before.keys()
    before.start()
    assert before.keys() == old
    ledger = before.bench.ledger
    cell = before.bench(ledger.read_cell(0))
    assert cell is not None
    seats = {seat.node_id: seat for seat in cell.seats}
    assert {name: seat.drained for name, seat in seats.items()} == {
        NodeId("n-free"): False,
        NodeId("n-drained"): True,
    }
    for seat in seats.values():
        assert (seat.online, seat.held, seat.slots, seat.facts) == (False, 0, SLOTS, b"facts")
    strange = Registration(
        NodeId("n-drained"), HERE, ConnectionId("c"), holder="key-2", exclusive=True
    )
    assert before.bench(ledger.register(strange)) == HolderConflict()
    owned = msgspec.structs.replace(strange, holder="key-1")
    registered = before.bench(ledger.register(owned))
    assert isinstance(registered, NodeRegistered)
    assert registered.owner.epoch > EPOCH
    # A drained node that comes back is drained, and nothing is granted on it.
    node = before.bench.join("n-drained")
    assert node.placed.drained
    assert before.bench.try_reserve(node) == r.Full()


def test_a_node_that_registered_meanwhile_is_left_as_it_is(before: FirstModel) -> None:
    before.node("n-1", 0, holder="key-1")
    node = before.bench.join("n-1")
    before.start()
    entry = before.bench(before.bench.ledger.lookup(NodeId("n-1")))
    assert entry is not None
    assert (entry.owner, entry.holder) == (node.owner, "")
    assert before.bench.seat(node).online


def test_nodes_are_copied_once(before: FirstModel) -> None:
    before.node("n-1", 0)
    before.start()
    entry = before.bench(before.bench.ledger.lookup(NodeId("n-1")))
    assert entry is not None
    assert entry.owner == Owner(InstanceId(""), ConnectionId(""), EPOCH)
    before.bench(before.bench.ledger.forget(NodeId("n-1"), EPOCH))
    before.start()
    assert before.bench(before.bench.ledger.lookup(NodeId("n-1"))) is None


def test_a_forgotten_node_does_not_come_back_after_any_time(before: FirstModel) -> None:
    before.start()
    mark = f"{before.prefix}:m2:{{directory}}:copied"
    assert before.server.pttl(mark) == FOR_EVER
    # As an earlier version left it.
    before.server.pexpire(mark, 60_000)
    before.start()
    assert before.server.pttl(mark) == FOR_EVER


def test_a_copy_that_was_cut_off_is_finished_at_the_next_start(before: FirstModel) -> None:
    before.node("n-1", 0, drained=True)
    before.node("n-2", 1, drained=True)
    before.start()
    before.server.delete(f"{before.prefix}:m2:{{directory}}:copied")
    before.server.delete(f"{before.prefix}:m2:{{c0}}:board", f"{before.prefix}:m2:{{c0}}:seats")
    before.start()
    cell = before.bench(before.bench.ledger.read_cell(0))
    assert cell is not None
    assert [seat.drained for seat in cell.seats] == [True, True]
