"""Counts that hold over all instances, and let go of what the dead have held."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.cluster.bench import Bench

from dragoman.ids import TenantId
from dragoman.live.cluster import Acquired, Counted, Limited, LimitReached

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


def test_a_tenants_limit_holds_over_all_instances(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")

    assert bench(one.acquire(SESSIONS, ACME, "s-1", 2, TTL_MS)) == Acquired(1)
    assert bench(other.acquire(SESSIONS, ACME, "s-2", 2, TTL_MS)) == Acquired(2)
    assert bench(one.acquire(SESSIONS, ACME, "s-3", 2, TTL_MS)) == LimitReached(2)


@pytest.mark.parametrize("limit", [1, 5, 30])
def test_however_many_ask_at_once_no_more_than_the_limit_are_counted(
    bench: Bench, limit: int
) -> None:
    peers = [bench.joined(f"peer-{number}") for number in range(3)]

    async def rush() -> list[Acquired | LimitReached]:
        return list(
            await asyncio.gather(
                *(
                    peers[number % 3].acquire(IN_FLIGHT, ACME, f"j-{number}", limit, TTL_MS)
                    for number in range(40)
                )
            )
        )

    assert sum(isinstance(answer, Acquired) for answer in bench(rush())) == limit


def test_tenants_and_kinds_are_counted_apart(bench: Bench) -> None:
    one = bench.joined("one")
    bench(one.acquire(SESSIONS, ACME, "s-1", 1, TTL_MS))

    assert bench(one.acquire(SESSIONS, OTHER, "s-1", 1, TTL_MS)) == Acquired(1)
    assert bench(one.acquire(IN_FLIGHT, ACME, "s-1", 1, TTL_MS)) == Acquired(1)


def test_the_same_thing_is_counted_once_from_every_instance(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")

    assert bench(one.acquire(SESSIONS, ACME, "s-1", 1, TTL_MS)) == Acquired(1)
    assert bench(one.acquire(SESSIONS, ACME, "s-1", 1, TTL_MS)) == Acquired(1)
    assert bench(other.acquire(SESSIONS, ACME, "s-1", 1, TTL_MS)) == Acquired(1)


def test_what_is_released_makes_room_and_releasing_twice_does_no_harm(bench: Bench) -> None:
    one = bench.joined("one")
    bench(one.acquire(SESSIONS, ACME, "s-1", 1, TTL_MS))
    bench(one.release(SESSIONS, ACME, "s-1"))
    bench(one.release(SESSIONS, ACME, "s-1"))

    assert bench(one.acquire(SESSIONS, ACME, "s-2", 1, TTL_MS)) == Acquired(1)


def test_what_a_dead_instance_held_counts_no_longer(bench: Bench) -> None:
    one, dead = bench.joined("one"), bench.joined("dead")
    bench(dead.acquire(SESSIONS, ACME, "s-dead", 2, TTL_MS))
    bench(one.acquire(SESSIONS, ACME, "s-1", 2, TTL_MS))
    bench.advance(TTL_MS / 1000 - 1)
    assert bench(one.keep(SESSIONS, ACME, ["s-1"], TTL_MS)) == 2
    bench.advance(1)

    assert bench(one.acquire(SESSIONS, ACME, "s-2", 2, TTL_MS)) == Acquired(2)
    assert bench(one.acquire(SESSIONS, ACME, "s-3", 2, TTL_MS)) == LimitReached(2)


def test_keeping_brings_back_what_was_forgotten_over_the_limit_too(bench: Bench) -> None:
    one = bench.joined("one")

    assert bench(one.keep(SESSIONS, ACME, ["s-1", "s-2", "s-3"], TTL_MS)) == 3
    assert bench(one.acquire(SESSIONS, ACME, "s-4", 2, TTL_MS)) == LimitReached(3)
