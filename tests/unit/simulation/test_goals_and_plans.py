"""Goals in words, and the search for the cheapest fleet that meets one."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from dragoman.errors import SettingsError
from dragoman.simulation import Clause, Goal, read_goal
from dragoman.simulation.planning import cheapest

SEED = 11


def test_a_goal_is_read_with_its_units() -> None:
    goal = read_goal("p99 < 1.5s and refused <= 0.1%, busy >= 20 %")
    assert goal == Goal(
        (Clause("p99", "<", 1500), Clause("refused", "<=", 0.1), Clause("busy", ">=", 20))
    )
    assert str(goal) == "p99 < 1500ms and refused <= 0.1% and busy >= 20%"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not a figure and its bound"),
        ("fast", "'fast' is not a figure and its bound"),
        ("p99 < 5ms and", "is not a figure and its bound"),
        ("p98 < 5ms", "did you mean `p99`?|did you mean `p95`?"),
        ("p99 < 5", "`p99` needs a unit: 5ms or 5s"),
        ("p99 < 5%", "`p99` is in ms, not in %"),
        ("refused < 1", "`refused` needs a unit: 1%"),
        ("attempts < 1%", "`attempts` is a plain number"),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        read_goal(text)


def test_the_cheapest_fleet_is_found_wherever_the_border_lies() -> None:
    random = Random(SEED)
    for _ in range(300):
        groups = random.randint(1, 3)
        bounds = [(random.randint(0, 2), random.randint(3, 9)) for _ in range(groups)]
        costs = [random.choice((0.5, 1.0, 2.0, 3.0)) for _ in range(groups)]
        strengths = [random.randint(1, 5) for _ in range(groups)]
        needed = random.randint(1, 40)

        def meets(
            nodes: tuple[int, ...], strengths: list[int] = strengths, needed: int = needed
        ) -> bool:
            return sum(n * strength for n, strength in zip(nodes, strengths, strict=True)) >= needed

        found = cheapest(meets, bounds, costs, [low for low, _ in bounds])
        every = itertools.product(*(range(low, high + 1) for low, high in bounds))
        passing = [
            sum(n * cost for n, cost in zip(nodes, costs, strict=True))
            for nodes in every
            if meets(nodes)
        ]
        if not passing:
            assert found is None
            continue
        assert found is not None, f"seed {SEED}"
        assert meets(found), f"seed {SEED}"
        assert sum(n * cost for n, cost in zip(found, costs, strict=True)) == pytest.approx(
            min(passing)
        )


def test_a_search_for_one_group_tries_few_fleets() -> None:
    tried: list[int] = []

    def meets(nodes: tuple[int, ...]) -> bool:
        tried.append(nodes[0])
        return nodes[0] >= 137

    assert cheapest(meets, [(0, 1000)], [1.0], [10]) == (137,)
    assert len(tried) <= 16
