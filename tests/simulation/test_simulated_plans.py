"""Plans: on fleets whose optimum is known from Erlang's formulas, the search must find it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from dragoman.simulation import (
    Exponential,
    Fixed,
    FleetGroup,
    InputKind,
    NoFleetMeetsIt,
    Runner,
    Scenario,
    Traffic,
    TrafficKind,
    erlang_b,
    erlang_c,
    plan,
    read_goal,
    servers_for_loss,
)

SEEDS = (31, 32)
SERVICE_MS = 1_000.0
JOBS = 1_500
PATIENT = {
    "scheduler.job_timeout.pending_seconds": 3_000,
    "scheduler.job_timeout.total_seconds": 3_600,
    "scheduler.job_timeout.run_seconds": 300,
    "limits.pending_per_pair": 100_000,
}


def group(
    name: str, *, slots: int = 1, cost: float = 1.0, to: str = "es", most: int = 40
) -> FleetGroup:
    return FleetGroup(
        name=name,
        nodes=1,
        slots=slots,
        cost=cost,
        languages=("en", to),
        service_ms=Exponential(SERVICE_MS),
        max_nodes=most,
    )


def jobs(erlangs: float, to: str = "es", *, waits: bool = False) -> Traffic:
    return Traffic(
        name=f"to-{to}",
        kind=TrafficKind.JOBS,
        tgt_langs=(to,),
        input=InputKind.TEXT,
        jobs_per_second=erlangs,
        waits=waits,
    )


def optimum(fleet: Sequence[FleetGroup], traffic: Sequence[Traffic], goal: str) -> dict[str, int]:
    total = sum(one.jobs_per_second for one in traffic)
    waits = any(one.waits for one in traffic)
    scenario = Scenario(
        duration_seconds=15 + JOBS / total,
        warmup_seconds=15,
        link_ms=Fixed(0),
        fleet=tuple(fleet),
        traffic=tuple(traffic),
        settings=PATIENT if waits else {},
    )
    with Runner() as runner:
        return plan(scenario, read_goal(goal), seeds=SEEDS, runner=runner).nodes


def loss_goal(servers: int, erlangs: float) -> str:
    """A bound halfway between what so many servers refuse, and what one less does."""
    between = math.sqrt(erlang_b(servers, erlangs) * erlang_b(servers - 1, erlangs))
    return f"refused < {100 * between:.4f}%"


def test_nodes_with_one_slot_are_as_many_as_erlang_b_asks_for() -> None:
    assert servers_for_loss(3.0, 0.08) == 6
    assert optimum([group("a")], [jobs(3.0)], loss_goal(6, 3.0)) == {"a": 6}


def test_nodes_with_several_slots_are_rounded_up() -> None:
    # Four servers are wanted, three slots a node: two nodes, and one is clearly too few.
    assert erlang_b(3, 1.5) > 0.1 > 0.01 > erlang_b(6, 1.5)
    assert optimum([group("a", slots=3)], [jobs(1.5)], "refused < 3%") == {"a": 2}


def test_of_two_groups_the_cheaper_way_to_the_same_slots_is_chosen() -> None:
    # Six slots: three large nodes at 1.5 each cost less than six small ones at 1.
    fleet = [group("small", cost=1.0), group("large", slots=2, cost=1.5)]
    assert optimum(fleet, [jobs(3.0)], loss_goal(6, 3.0)) == {"small": 0, "large": 3}


def test_groups_for_different_pairs_are_each_as_large_as_their_pair_needs() -> None:
    fleet = [group("spanish", to="es", most=8), group("french", to="fr", most=8)]
    traffic = [jobs(2.0, "es"), jobs(2.0, "fr")]
    # Of eight nodes, four for each pair refuse the least; three and five come next.
    evenly, unevenly = erlang_b(4, 2.0), (erlang_b(3, 2.0) + erlang_b(5, 2.0)) / 2
    goal = f"refused < {50 * (evenly + unevenly):.4f}%"
    assert optimum(fleet, traffic, goal) == {"spanish": 4, "french": 4}


def test_a_goal_for_waiting_asks_for_as_many_as_erlang_c_does() -> None:
    def waits_longer_than_a_second(servers: int, erlangs: float) -> float:
        return erlang_c(servers, erlangs) * math.exp(erlangs - servers)

    # Less than one in a hundred may wait for a second: theory says four servers, not three.
    assert waits_longer_than_a_second(4, 1.2) < 0.004
    assert waits_longer_than_a_second(3, 1.2) > 0.018
    assert optimum([group("a")], [jobs(1.2, waits=True)], "wait_p99 < 1s") == {"a": 4}


def test_when_no_fleet_meets_the_goal_that_is_said() -> None:
    with pytest.raises(NoFleetMeetsIt, match="2 x a"):
        optimum([group("a", most=2)], [jobs(8.0)], "refused < 1%")
