"""A node's health: every move of the table, and the counting that makes it."""

from __future__ import annotations

from collections import deque

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.ids import AttemptId, JobId
from dragoman.live.fleet import MOVES, HealthEvent, HealthRecord, HealthRules, Thresholds
from dragoman.live.fleet.health import Breaker, failed
from dragoman.live.protocol import ErrorInfo, JobResult, NodeHealth

RULES = HealthRules(
    interval_seconds=15,
    timeout_seconds=45,
    reconnect_grace_seconds=2,
    ready_after=1,
    window=5,
    window_failures=3,
    consecutive_failures=3,
    thresholds=Thresholds(cpu=85, mem=85, gpu=85),
    forget_offline_seconds=3600,
    breaker_failures=0.6,
    breaker_window=10,
)


def rules(**changes: float) -> HealthRules:
    return msgspec.structs.replace(RULES, **changes)


def registered(with_rules: HealthRules = RULES) -> HealthRecord:
    health = HealthRecord(with_rules)
    health.happened(HealthEvent.REGISTERED)
    return health


@pytest.mark.parametrize("state", NodeHealth)
@pytest.mark.parametrize("event", HealthEvent)
def test_only_the_table_s_moves_are_made(state: NodeHealth, event: HealthEvent) -> None:
    health = HealthRecord(RULES)
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


# --- the circuit breaker -------------------------------------------------------------------------


def ready(with_rules: HealthRules = RULES) -> HealthRecord:
    health = registered(with_rules)
    health.beat(True)
    return health


def jobs(health: HealthRecord, ends: str) -> list[bool]:
    """Jobs that succeeded (.) and failed (x); when each changed the node's health."""
    return [health.job_ended(failure=end == "x") for end in ends]


def test_a_node_is_on_trial_when_enough_of_its_last_jobs_failed() -> None:
    health = ready()
    assert jobs(health, "xx.xx.x") == [False] * 7
    assert health.state is NodeHealth.READY
    assert jobs(health, "x") == [True]
    assert (health.state, health.on_trial, health.takes_jobs) == (NodeHealth.DEGRADED, True, True)
    assert health.reason is not None
    assert "6 of its last 8 jobs failed or timed out" in health.reason


def test_good_heartbeats_do_not_end_a_trial_and_a_good_job_does() -> None:
    health = ready()
    jobs(health, "x" * 6)
    assert not health.beat(True)
    assert health.state is NodeHealth.DEGRADED
    assert jobs(health, "xx.") == [False, False, True]
    assert (health.state, health.reason) == (NodeHealth.READY, None)
    assert jobs(health, "x" * 5) == [False] * 5, "what was before the success is forgotten"


def test_failures_far_apart_are_forgiven() -> None:
    health = ready()
    assert not any(jobs(health, "xxxxx.....xxxxx....."))
    assert health.state is NodeHealth.READY


def test_a_node_on_trial_with_bad_heartbeats_gets_no_jobs_until_they_are_good() -> None:
    health = ready()
    jobs(health, "x" * 6)
    assert [health.beat(False, "it came late") for _ in range(3)] == [False, False, True]
    assert (health.on_trial, health.takes_jobs) == (False, False)
    assert health.reason == (
        "too many bad heartbeats, the last because it came late; it gets no jobs until its "
        "heartbeats are good again"
    )
    assert jobs(health, ".") == [False], "a job from before: the heartbeats are still bad"
    assert health.takes_jobs is False
    assert health.beat(True)
    assert health.state is NodeHealth.READY


ATTEMPT = AttemptId("a-1")


def test_a_timeout_that_is_told_twice_counts_once() -> None:
    breaker = Breaker(0.6, 10, ack_seconds=5, run_seconds=30)
    breaker.told(ATTEMPT, now=100)
    assert breaker.is_late(ATTEMPT, now=105)
    assert not breaker.is_late(ATTEMPT, now=106)


def test_a_node_is_late_only_with_what_it_was_told_and_had_time_for() -> None:
    breaker = Breaker(0.6, 10, ack_seconds=5, run_seconds=30)
    assert not breaker.is_late(ATTEMPT, now=100), "it never heard of it"
    breaker.told(ATTEMPT, now=100)
    assert not breaker.is_late(ATTEMPT, now=101), "it heard of it when its time was nearly over"


def test_a_node_that_answered_is_not_late_though_nothing_could_be_stored() -> None:
    breaker = Breaker(0.6, 10, ack_seconds=5, run_seconds=30)
    breaker.told(ATTEMPT, now=100)
    breaker.acknowledged(ATTEMPT, now=100.1)
    breaker.acknowledged(ATTEMPT, now=129)
    assert breaker.is_late(ATTEMPT, now=130), "it ran too long, since it first said that it has it"
    breaker.told(ATTEMPT, now=200)
    breaker.acknowledged(ATTEMPT, now=200.1)
    assert not breaker.is_late(ATTEMPT, now=205), "it is running"
    breaker.told(ATTEMPT, now=300)
    breaker.answered(ATTEMPT)
    assert not breaker.is_late(ATTEMPT, now=330), "it has given its result"


def test_a_node_that_never_answers_is_not_remembered_without_end() -> None:
    breaker = Breaker(0.6, 10, ack_seconds=5, run_seconds=30)
    for number in range(5000):
        breaker.told(AttemptId(f"a{number}"), now=0)
    assert not breaker.is_late(AttemptId("a0"), now=100)
    assert breaker.is_late(AttemptId("a4999"), now=100)


def test_a_breaker_that_is_off_never_trips() -> None:
    health = ready(rules(breaker_failures=0))
    assert not any(jobs(health, "x" * 50))


def test_a_new_connection_and_a_resume_start_over() -> None:
    for event in (HealthEvent.REGISTERED, HealthEvent.RESUME):
        health = ready()
        jobs(health, "x" * 6)
        health.happened(HealthEvent.LOST if event is HealthEvent.REGISTERED else HealthEvent.DRAIN)
        assert health.happened(event)
        assert health.beat(True)
        assert (health.state, health.on_trial) == (NodeHealth.READY, False)


@pytest.mark.parametrize(
    ("result", "counts"),
    [
        (JobResult(JobId("j"), AttemptId("a"), True), False),
        (JobResult(JobId("j"), AttemptId("a"), False), True),
        (JobResult(JobId("j"), AttemptId("a"), False, error=ErrorInfo("CRASHED", "")), True),
        (JobResult(JobId("j"), AttemptId("a"), False, error=ErrorInfo("JOB_CANCELLED", "")), None),
        (JobResult(JobId("j"), AttemptId("a"), False, error=ErrorInfo("PREEMPTED", "")), None),
        (
            JobResult(JobId("j"), AttemptId("a"), False, error=ErrorInfo("BAD_AUDIO", "", False)),
            None,
        ),
    ],
)
def test_only_failures_of_the_node_count_against_it(result: JobResult, counts: bool | None) -> None:
    assert failed(result) is counts
