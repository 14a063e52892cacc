"""Faults in simulations: what each kind does, and that a search finds defects that need them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from dragoman.live.dispatch import cells
from dragoman.live.dispatch.cells import Cell
from dragoman.live.dispatch.job import Leaving
from dragoman.live.dispatch.pending import PendingQueue
from dragoman.live.ledger import Beat, Heartbeat, NotSeated, Stale
from dragoman.simulation import (
    Exponential,
    Fault,
    FaultKind,
    FaultSearch,
    FleetGroup,
    InputKind,
    RunFigures,
    Runner,
    Scenario,
    Traffic,
    TrafficKind,
    find_faults,
    read_goal,
    simulate_once,
)
from dragoman.testing import BRISK as TESTING_CLUSTER

SEED = 100
BRISK = {
    "scheduler.job_timeout.ack_seconds": 1,
    "scheduler.job_timeout.run_seconds": 4,
    "scheduler.job_timeout.cancel_grace_seconds": 1,
    "scheduler.node_health.heartbeat_interval_seconds": 1,
    "scheduler.node_health.heartbeat_timeout_seconds": 3,
    "scheduler.node_health.reconnect_grace_seconds": 0.5,
    "scheduler.task_binding.lease_seconds": 5,
    "scheduler.task_binding.reserved_ttl_seconds": 5,
    "scheduler.job_retention_seconds": 5,
}
CALM = Scenario(
    duration_seconds=40,
    warmup_seconds=2,
    fleet=(FleetGroup(nodes=8, slots=2, service_ms=Exponential(300)),),
    traffic=(
        Traffic(
            sessions=40,
            input=InputKind.TEXT,
            utterance_ms=Exponential(500),
            pause_ms=Exponential(1000),
        ),
    ),
    settings=BRISK,
)


def played(fault: Fault | None = None, instances: int = 1) -> RunFigures:
    scenario = CALM.with_faults([fault] if fault else [])
    scenario = Scenario(**{**vars(scenario), "instances": instances})
    return simulate_once(scenario, SEED)


def test_without_faults_everything_is_served_at_the_first_attempt() -> None:
    run = played()
    assert run.whole.refused == 0
    assert run.whole.attempts == 1.0
    assert run.violations == []
    assert run.faults == []


@pytest.mark.parametrize("kind", [FaultKind.NODE, FaultKind.LINK, FaultKind.LYING])
def test_work_of_nodes_that_fail_goes_elsewhere(kind: FaultKind) -> None:
    run = played(Fault(kind=kind, at_seconds=10, for_seconds=10, nodes=3))
    assert run.whole.attempts > 1.0
    assert run.whole.refused_share < 0.02
    assert run.violations == []
    assert len(run.faults) == 1


def test_slow_nodes_make_the_slowest_results_slower() -> None:
    run = played(Fault(kind=FaultKind.SLOW, at_seconds=5, for_seconds=30, nodes=4, factor=3))
    assert run.whole.total_ms.p99 > 1.5 * played().whole.total_ms.p99
    assert run.violations == []


def test_a_group_that_is_gone_leaves_its_work_without_a_node() -> None:
    run = played(Fault(kind=FaultKind.GROUP, at_seconds=10, for_seconds=25, group="nodes"))
    assert run.whole.refused_share > 0.2
    assert run.violations == []
    assert "was refused first" in run.bottleneck


@pytest.mark.parametrize("kind", [FaultKind.INSTANCE, FaultKind.REDIS])
def test_what_instances_share_may_fail_and_every_utterance_still_has_its_end(
    kind: FaultKind,
) -> None:
    run = played(Fault(kind=kind, at_seconds=10, for_seconds=5), instances=2)
    assert run.violations == []
    assert run.whole.served > 800
    assert run.whole.refused_share < 0.2


@pytest.mark.parametrize("seed", [57, 58, 59])
def test_jobs_that_were_being_opened_when_redis_stopped_end_when_it_is_back(seed: int) -> None:
    """Stored late, with a claim that had run out, they were driven twice and ended for neither."""
    scenario = replace(
        CALM,
        instances=2,
        fleet=(replace(CALM.fleet[0], languages=("en", "es", "fr")),),
        traffic=(
            replace(CALM.traffic[0], tgt_langs=("es", "fr"), sessions=20),
            Traffic(name="jobs", kind=TrafficKind.JOBS, jobs_per_second=5, waits=True),
        ),
        settings={**BRISK, **TESTING_CLUSTER},
    )
    fault = Fault(kind=FaultKind.REDIS, at_seconds=24.5, for_seconds=7)
    run = simulate_once(scenario.with_faults([fault]), seed)
    assert run.violations == []


# --- defects that are planted, and found -------------------------------------------------------


def search(promise: str | None, scenario: Scenario = CALM) -> FaultSearch:
    goal = read_goal(promise) if promise else None
    with Runner() as runner:
        return find_faults(scenario, goal, schedules=1_000, seed=SEED, runner=runner)


def check_found(
    found: FaultSearch,
    monkeypatch: pytest.MonkeyPatch,
    promise: str | None,
    scenario: Scenario = CALM,
) -> None:
    """It broke, only with faults, in a schedule that plays again, and only in the broken copy."""
    assert found.broken, f"{found.schedules} schedules found nothing"
    assert found.schedules < 1_000
    worst = found.worst
    assert worst.faults, "it took a fault"
    again = simulate_once(scenario.with_faults(worst.faults), worst.seed)
    assert again == worst.figures
    monkeypatch.undo()
    sound = simulate_once(scenario.with_faults(worst.faults), worst.seed)
    assert sound.violations == []
    if promise:
        assert read_goal(promise).is_met([sound])


def test_a_slot_that_is_freed_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    free_leaving = Cell.free_leaving

    def frees_twice(self: Cell, left: Leaving, freed: cells.Freeing, now_ms: int) -> None:
        free_leaving(self, left, freed, now_ms)
        left.seat.slots += 1

    monkeypatch.setattr(Cell, "free_leaving", frees_twice)
    found = search(None)
    assert "was given a job while all its slots were taken" in found.broken[0]
    check_found(found, monkeypatch, None)


def test_a_wake_up_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wake: Callable[[PendingQueue, float], None] = PendingQueue.wake

    def forgets(self: PendingQueue, slots: float = inf) -> None:
        # The periodic look stays; what comes with a freed slot is lost.
        if slots == inf:
            wake(self, slots)

    monkeypatch.setattr(PendingQueue, "wake", forgets)
    # So few that hardly any has to wait while all nodes are there.
    few = replace(CALM, traffic=(replace(CALM.traffic[0], sessions=30),))
    promise = "wait_p99 < 800ms"
    check_found(search(promise, few), monkeypatch, promise, few)


def test_a_lease_that_is_not_renewed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    beat = Cell.beat

    def does_not_renew(self: Cell, heartbeat: Heartbeat, now_ms: int) -> Beat | Stale | NotSeated:
        seat = self.seats.get(heartbeat.node_id)
        until_ms = seat.alive_until_ms if seat is not None else 0
        answer = beat(self, heartbeat, now_ms)
        if seat is not None and heartbeat.epoch > 1:
            seat.alive_until_ms = until_ms  # of nodes that came back, the lease just runs out
        return answer

    monkeypatch.setattr(Cell, "beat", does_not_renew)
    promise = "wait_p99 < 1s"
    check_found(search(promise), monkeypatch, promise)
