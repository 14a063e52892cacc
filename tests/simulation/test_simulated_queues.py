"""The simulation against theory: where Erlang's formulas apply, it must say what they say."""

from __future__ import annotations

import math

import pytest

from dragoman.simulation import (
    Exponential,
    Fixed,
    FleetGroup,
    InputKind,
    RunFigures,
    Scenario,
    Traffic,
    TrafficKind,
    erlang_b,
    erlang_c,
    mean_wait,
    servers_for_loss,
    simulate,
)

SEED = 2024
SERVICE_SECONDS = 1.0
RUNS = 6
PATIENT = {
    "scheduler.job_timeout.pending_seconds": 3_000,
    "scheduler.job_timeout.total_seconds": 3_600,
    "scheduler.job_timeout.run_seconds": 300,
    "limits.pending_per_pair": 100_000,
}


def queue(nodes: int, slots: int, load: float, *, waits: bool, jobs: int) -> Scenario:
    """So many servers at a share of what they can serve, long enough for so many jobs."""
    per_second = load * nodes * slots / SERVICE_SECONDS
    return Scenario(
        duration_seconds=20 + jobs / per_second,
        warmup_seconds=20,
        link_ms=Fixed(0),
        fleet=(
            FleetGroup(nodes=nodes, slots=slots, service_ms=Exponential(1000 * SERVICE_SECONDS)),
        ),
        traffic=(
            Traffic(
                kind=TrafficKind.JOBS,
                input=InputKind.TEXT,
                jobs_per_second=per_second,
                waits=waits,
            ),
        ),
        settings=PATIENT if waits else {},
    )


def play(scenario: Scenario) -> list[RunFigures]:
    runs = simulate(scenario, seeds=range(SEED, SEED + RUNS))
    assert not [run.violations for run in runs if run.violations]
    return runs


def agree(values: list[float], theory: float) -> None:
    """Within 2 %, or within three standard errors of the runs."""
    mean = sum(values) / len(values)
    spread = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    error = math.sqrt(spread / len(values))
    assert abs(mean - theory) <= max(0.02 * theory, 3 * error), (
        f"simulated {mean:.5f} with an error of {error:.5f}, theory {theory:.5f}; seeds from {SEED}"
    )


@pytest.mark.parametrize(
    ("nodes", "slots", "load"),
    [(1, 1, 0.5), (3, 4, 0.8), (5, 4, 0.95), (10, 4, 1.2)],
)
def test_a_fleet_that_refuses_at_once_refuses_as_many_as_erlang_b_says(
    nodes: int, slots: int, load: float
) -> None:
    servers = nodes * slots
    runs = play(queue(nodes, slots, load, waits=False, jobs=1_500))
    agree([run.whole.refused_share for run in runs], erlang_b(servers, load * servers))
    assert {reason for run in runs for reason in run.whole.reasons} <= {"NO_CAPACITY"}


@pytest.mark.parametrize(("nodes", "slots", "load"), [(1, 1, 0.6), (5, 1, 0.8), (5, 4, 0.85)])
def test_a_fleet_whose_jobs_wait_has_them_wait_as_long_as_erlang_c_says(
    nodes: int, slots: int, load: float
) -> None:
    servers = nodes * slots
    runs = play(queue(nodes, slots, load, waits=True, jobs=2_500))
    assert all(run.whole.refused == 0 for run in runs)
    expected = 1000 * mean_wait(servers, load * servers, SERVICE_SECONDS)
    agree([run.whole.wait_ms.mean for run in runs], expected)


def test_the_formulas_give_the_values_of_the_tables() -> None:
    assert erlang_b(1, 1.0) == pytest.approx(0.5)
    assert erlang_b(10, 5.0) == pytest.approx(0.018385, rel=1e-4)
    assert erlang_b(100, 100.0) == pytest.approx(0.075700, rel=1e-4)
    assert erlang_c(10, 8.0) == pytest.approx(0.409180, rel=1e-4)
    assert erlang_c(2, 3.0) == 1.0
    assert mean_wait(1, 0.5, 1.0) == pytest.approx(1.0)
    assert mean_wait(1, 1.0, 1.0) == math.inf
    assert servers_for_loss(5.0, 0.02) == 10
