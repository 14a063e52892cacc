"""What the scheduler remembers of a conversation."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dragoman.ids import NodeId, SessionId
from dragoman.live.dispatch import Route, Routes
from dragoman.live.dispatch.routes import drawn_order, hashed_shard
from dragoman.live.snapshot import PoolShards

HERE, THERE = ("zh", "en"), ("en", "zh")
SHARDS = PoolShards({0: 5, 1: 5, 4: 1})
NODE = NodeId("n")


def test_a_session_keeps_its_shard_until_its_pair_changes() -> None:
    route = Route()
    assert route.shard(HERE, SHARDS) is None
    route.keep_shard(4)
    assert route.shard(HERE, SHARDS) == 4
    assert route.shard(THERE, SHARDS) is None
    assert route.shard(HERE, SHARDS) is None, "a change back begins anew too"


def test_a_shard_that_is_gone_is_not_kept() -> None:
    route = Route()
    route.shard(HERE, SHARDS)
    route.keep_shard(4)
    assert route.shard(HERE, PoolShards({0: 5})) is None
    assert route.shard(HERE, SHARDS) == 4, "it may come back"


def test_affinity_is_bound_by_a_length_cut_and_ends_with_the_sentence_or_its_time() -> None:
    route = Route()
    route.served_by(NODE, now=1.0)
    assert route.affinity(1.0) is None, "a cut binds, not the service"
    assert route.bind(10.0, now=2.0) == NODE
    assert route.affinity(11.9) == NODE
    assert route.affinity(12.0) is None
    route.bind(10.0, now=20.0)
    assert route.unbind() == NODE
    assert route.affinity(20.0) is None


def test_the_last_node_is_avoided_within_the_spread_window() -> None:
    route = Route()
    assert route.to_avoid(30.0, now=0.0) is None
    route.served_by(NODE, now=5.0)
    assert route.to_avoid(30.0, now=34.9) == NODE
    assert route.to_avoid(30.0, now=35.0) is None


def test_routes_not_used_for_longest_make_room() -> None:
    routes = Routes(limit=2)
    first = routes.of(SessionId("a"))
    routes.of(SessionId("b"))
    assert routes.of(SessionId("a")) is first
    routes.of(SessionId("c"))
    assert len(routes) == 2
    assert routes.of(SessionId("a")) is first
    routes.forget(SessionId("a"))
    assert routes.of(SessionId("a")) is not first


@given(st.text(min_size=1))
def test_a_hash_always_falls_on_the_same_shard(key: str) -> None:
    assert hashed_shard(key, SHARDS) == hashed_shard(key, SHARDS)
    assert hashed_shard(key, SHARDS) in SHARDS.cells


def test_hashes_spread_over_the_shards() -> None:
    assert {hashed_shard(f"session {number}", SHARDS) for number in range(50)} == {0, 1, 4}


@given(st.sampled_from(SHARDS.cells), st.integers())
def test_the_other_shards_are_all_tried_once(first: int, seed: int) -> None:
    order = drawn_order(first, SHARDS, Random(seed))
    assert sorted([first, *order]) == list(SHARDS.cells)
