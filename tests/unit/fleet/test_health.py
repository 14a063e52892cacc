"""A node's health: every move of the table, and the counting that makes it."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.live.fleet import MOVES, Health, HealthEvent, HealthRules
from dragoman.live.protocol import NodeHealth

RULES = HealthRules(
    interval_seconds=15,
    timeout_seconds=45,
    reconnect_grace_seconds=2,
    ready_after=1,
    window=5,
    window_failures=3,
    consecutive_failures=3,
    resource_threshold_percent=85,
    forget_offline_seconds=3600,
)


def rules(**changes: int) -> HealthRules:
    values = {name: getattr(RULES, name) for name in RULES.__struct_fields__}
    return HealthRules(**{**values, **changes})


def registered(with_rules: HealthRules = RULES) -> Health:
    health = Health(with_rules)
    health.happened(HealthEvent.REGISTERED)
    return health


@pytest.mark.parametrize("state", NodeHealth)
@pytest.mark.parametrize("event", HealthEvent)
def test_only_the_table_s_moves_are_made(state: NodeHealth, event: HealthEvent) -> None:
    health = Health(RULES)
    health.state = state
    moved = health.happened(event)
    assert moved == ((state, event) in MOVES)
    assert health.state is MOVES.get((state, event), state)


def test_every_connected_state_can_drain_and_be_lost() -> None:
    connected = set(NodeHealth) - {NodeHealth.OFFLINE}
    assert {state for state, event in MOVES if event is HealthEvent.LOST} == connected
    drains = {state for state, event in MOVES if event is HealthEvent.DRAIN}
    assert drains == connected - {NodeHealth.DRAINING}


def test_a_node_is_ready_after_so_many_good_heartbeats_in_a_row() -> None:
    health = registered(rules(ready_after=3))
    beats = [True, True, False, True, True]
    assert not any(health.beat(good) for good in beats)
    assert health.beat(True)
    assert health.state is NodeHealth.READY


@pytest.mark.parametrize(
    "beats",
    [
        pytest.param("xxx", id="three in a row"),
        pytest.param("x.x.x", id="three of five"),
        pytest.param("xx..x", id="three of five, apart"),
    ],
)
def test_too_many_bad_heartbeats_degrade_a_node(beats: str) -> None:
    health = registered()
    health.beat(True)
    states = []
    for beat in beats + ".":
        health.beat(beat == ".")
        states.append(health.state)
    ready = [NodeHealth.READY] * (len(beats) - 1)
    assert states == [*ready, NodeHealth.DEGRADED, NodeHealth.READY]


def test_bad_heartbeats_far_apart_are_forgiven() -> None:
    health = registered()
    for beat in ".x...x...x...x.":
        health.beat(beat == ".")
        assert health.state is NodeHealth.READY


def test_a_drained_node_does_not_become_ready_by_beating() -> None:
    health = registered()
    health.happened(HealthEvent.DRAIN)
    assert not health.beat(True)
    health.happened(HealthEvent.RESUME)
    assert health.state is NodeHealth.REGISTERING
    assert health.beat(True)


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 3))
def test_health_follows_from_the_recent_heartbeats(beats: list[bool], ready_after: int) -> None:
    health = registered(rules(ready_after=ready_after))
    state = NodeHealth.REGISTERING
    recent: deque[bool] = deque(maxlen=5)
    row = 0
    for good in beats:
        health.beat(good)
        recent.append(good)
        row = row + 1 if good else 0
        if good and row >= ready_after:
            state = NodeHealth.READY
        elif not good and state is NodeHealth.READY and list(recent).count(False) >= 3:
            state = NodeHealth.DEGRADED
        assert health.state is state


def test_a_heartbeat_is_late_after_one_and_a_half_intervals() -> None:
    assert RULES.late_after_seconds == 22.5
