"""How nodes are chosen, against what queueing theory says of 20 nodes with 4 slots each."""

from __future__ import annotations

import pytest
from tests.simulation.strategies import NODES, SLOTS, erlang_b, measure

from dragoman.live.ledger import Strategy

HALF_SLOW = (1.0,) * (NODES // 2) + (2.0,) * (NODES // 2)


@pytest.mark.parametrize(
    ("load", "arrivals", "within"), [(0.70, 12_000, 0.001), (0.85, 24_000, 0.004)]
)
def test_random_refuses_no_more_than_one_big_pool_would(
    load: float, arrivals: int, within: float
) -> None:
    measured = measure(Strategy.RANDOM, load=load, arrivals=arrivals)
    best_possible = erlang_b(NODES * SLOTS, load * NODES * SLOTS)
    assert measured.refused_share == pytest.approx(best_possible, abs=within)


def test_no_strategy_refuses_while_a_slot_is_free() -> None:
    refused = {
        strategy: measure(strategy, load=0.95, arrivals=3_000).refused for strategy in Strategy
    }
    assert len(set(refused.values())) == 1, f"the same arrivals, another number refused: {refused}"
    assert refused[Strategy.RANDOM] > 0


def test_slow_nodes_cost_least_when_the_choice_knows_of_them() -> None:
    mean = {
        strategy: measure(strategy, load=0.7, arrivals=5_000, paces=HALF_SLOW).mean
        for strategy in Strategy
    }
    assert mean[Strategy.LATENCY_WEIGHTED] < mean[Strategy.LEAST_LOADED] <= mean[Strategy.RANDOM]
    assert mean[Strategy.LATENCY_WEIGHTED] < mean[Strategy.POWER_OF_TWO]
