"""Counts that hold over all instances, and let go of what the dead have held."""

from __future__ import annotations

import asyncio

from tests.contract.cluster.bench import Bench

from dragoman.ids import TenantId
from dragoman.live.cluster import Block, Cluster, Counted, Limited

ACME, OTHER = TenantId("acme"), TenantId("other {tenant}")
SESSIONS, IN_FLIGHT = Limited.SESSIONS, Limited.IN_FLIGHT
TTL_MS = 45_000


def test_only_the_first_of_all_instances_is_first_in_a_window(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")

    assert bench(one.first_in_window("asr-1/2.0", 5_000))
    assert not bench(other.first_in_window("asr-1/2.0", 5_000))
    assert bench(other.first_in_window("asr-1/2.1", 5_000))
    bench.advance(6)
    assert bench(other.first_in_window("asr-1/2.0", 5_000))


def test_a_window_counts_what_all_instances_do(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")

    counted = [bench(peer.count_in_window("n-1", 3, 10_000)) for peer in (one, other, one, other)]

    assert [(answer.allowed, answer.count) for answer in counted] == [
        (True, 1),
        (True, 2),
        (True, 3),
        (False, 4),
    ]
    assert all(0 < answer.resets_in_ms <= 10_000 for answer in counted)


def test_a_window_begins_with_the_first_and_ends_whatever_is_counted_in_it(bench: Bench) -> None:
    one = bench.joined("one")
    bench(one.count_in_window("n-1", 1, 10_000))
    bench.advance(6)
    assert not bench(one.count_in_window("n-1", 1, 10_000)).allowed
    bench.advance(4)

    counted = bench(one.count_in_window("n-1", 1, 10_000))

    assert counted == Counted(True, 1, 10_000)


def test_the_two_kinds_of_window_do_not_meet(bench: Bench) -> None:
    one = bench.joined("one")
    bench(one.count_in_window("n-1", 1, 10_000))

    assert bench(one.first_in_window("n-1", 10_000))


def hold(bench: Bench, peers: Cluster, used: int, wanted: int, limit: int = 10) -> Block:
    return bench(peers.hold(SESSIONS, ACME, used=used, wanted=wanted, limit=limit, ttl_ms=TTL_MS))


def test_blocks_of_all_instances_are_no_more_than_the_limit(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")

    assert hold(bench, one, 0, 7) == Block(7, 7)
    assert hold(bench, other, 0, 7) == Block(3, 10)
    assert hold(bench, other, 3, 4) == Block(3, 10)
    # What one gives back, the other may have.
    assert hold(bench, one, 2, 5) == Block(5, 8)
    assert hold(bench, other, 3, 7) == Block(5, 10)


def test_a_rush_of_all_instances_gets_no_more_than_the_limit(bench: Bench) -> None:
    peers = [bench.joined(name) for name in ("one", "two", "three")]

    async def rush() -> list[Block]:
        return list(
            await asyncio.gather(
                *(
                    peers[number % 3].hold(
                        IN_FLIGHT, ACME, used=0, wanted=number, limit=20, ttl_ms=TTL_MS
                    )
                    for number in range(30)
                )
            )
        )

    answers = bench(rush())
    assert max(answer.held for answer in answers) <= 20
    last = [
        bench(peer.hold(IN_FLIGHT, ACME, used=0, wanted=20, limit=20, ttl_ms=TTL_MS))
        for peer in peers
    ]
    assert sum(answer.size for answer in last) == 20


def test_what_is_used_counts_whatever_the_limit(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    hold(bench, one, 0, 8)

    assert hold(bench, other, 6, 9) == Block(6, 14)
    assert hold(bench, one, 8, 9) == Block(8, 14)


def test_tenants_and_kinds_are_counted_apart(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    hold(bench, one, 0, 10)

    for what, tenant in ((SESSIONS, OTHER), (IN_FLIGHT, ACME)):
        answer = bench(other.hold(what, tenant, used=0, wanted=10, limit=10, ttl_ms=TTL_MS))
        assert answer == Block(10, 10)


def test_a_block_that_is_asked_for_again_counts_once(bench: Bench) -> None:
    one = bench.joined("one")

    assert hold(bench, one, 1, 4) == Block(4, 4)
    assert hold(bench, one, 1, 4) == Block(4, 4)
    assert hold(bench, one, 0, 0) == Block(0, 0)


def test_the_block_of_an_instance_that_died_is_free_again(bench: Bench) -> None:
    dead, one = bench.joined("dead"), bench.joined("one")
    hold(bench, dead, 10, 10)
    assert hold(bench, one, 0, 4) == Block(0, 10)
    bench.advance(TTL_MS / 1000 - 1)
    assert hold(bench, one, 0, 4) == Block(0, 10)
    bench.advance(1)

    assert hold(bench, one, 0, 4) == Block(4, 4)
