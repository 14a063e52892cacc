"""The smallest fleet that meets a goal: a search over the numbers of nodes of each group.

More nodes never make a figure worse, apart from chance, which is why every fleet is tried with
the same seeds. So a fleet that fails rules out every smaller one, and one that passes every
larger one: the search walks along the border between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.errors import DragomanError
from dragoman.simulation.figures import RunFigures
from dragoman.simulation.goals import Goal
from dragoman.simulation.running import Runner
from dragoman.simulation.scenario import Scenario

OnTry = Callable[[Sequence[int], bool], None]
"""Called with each fleet that was tried, and whether it met the goal."""


class NoFleetMeetsIt(DragomanError):
    """Raised when not even the largest fleet that the scenario allows meets the goal."""

    code = "NO_FLEET_MEETS_IT"
    status = 409


@dataclass(frozen=True)
class Plan:
    """The cheapest fleet that meets a goal."""

    scenario: Scenario
    """With the numbers of nodes that were found."""
    runs: tuple[RunFigures, ...]
    fleets_tried: int

    @property
    def nodes(self) -> dict[str, int]:
        return {group.name: group.nodes for group in self.scenario.fleet}


def plan(
    scenario: Scenario,
    goal: Goal,
    *,
    seeds: Sequence[int] = (0,),
    runner: Runner,
    on_try: OnTry | None = None,
) -> Plan:
    """The cheapest fleet that meets the goal; raises NoFleetMeetsIt when there is none."""
    known: dict[tuple[int, ...], list[RunFigures]] = {}

    def meets(nodes: tuple[int, ...]) -> bool:
        if nodes not in known:
            tried = scenario.with_nodes(nodes)
            known[nodes] = runner.run([(tried, seed) for seed in seeds])
            if on_try is not None:
                on_try(nodes, goal.is_met(known[nodes]))
        return goal.is_met(known[nodes])

    bounds = [(group.min_nodes, group.max_nodes) for group in scenario.fleet]
    costs = [group.cost for group in scenario.fleet]
    first = [group.nodes for group in scenario.fleet]
    best = cheapest(meets, bounds, costs, first)
    if best is None:
        allowed = ", ".join(f"{group.max_nodes} x {group.name}" for group in scenario.fleet)
        raise NoFleetMeetsIt(
            f"Not even the largest fleet allowed ({allowed}) meets {goal}. Raise max_nodes, or look"
            " at the report of that fleet: what is short may not be nodes."
        )
    return Plan(scenario.with_nodes(best), tuple(known[best]), len(known))


def cheapest(
    meets: Callable[[tuple[int, ...]], bool],
    bounds: Sequence[tuple[int, int]],
    costs: Sequence[float],
    first: Sequence[int],
) -> tuple[int, ...] | None:
    """The cheapest numbers within the bounds that meet what is asked; None when none do.

    `meets` must hold for every larger fleet where it holds for a smaller one. Of two fleets that
    cost the same, the one with fewer nodes wins, then the first in order.
    """
    search = _Search(meets, bounds, costs)
    start = tuple(
        min(max(count, low), high) for count, (low, high) in zip(first, bounds, strict=True)
    )
    return search.run(start)


class _Search:
    def __init__(
        self,
        meets: Callable[[tuple[int, ...]], bool],
        bounds: Sequence[tuple[int, int]],
        costs: Sequence[float],
    ) -> None:
        self._meets = meets
        self._bounds = bounds
        self._costs = costs
        self._best: tuple[int, ...] | None = None
        self._failed: list[tuple[int, ...]] = []
        self._passed: list[tuple[int, ...]] = []

    def run(self, start: tuple[int, ...]) -> tuple[int, ...] | None:
        above = self._any_that_passes(start)
        if above is None:
            return None
        self._offer(self._pared_down(above))
        # The last group is searched by halving; those before it, number by number.
        order = sorted(range(len(self._bounds)), key=lambda i: (self._costs[i], i))
        self._descend((), order)
        return self._best

    def _any_that_passes(self, start: tuple[int, ...]) -> tuple[int, ...] | None:
        """Double the fleet until it meets the goal."""
        nodes = start
        while not self._check(nodes):
            larger = tuple(
                min(high, max(1, 2 * count))
                for count, (_, high) in zip(nodes, self._bounds, strict=True)
            )
            if larger == nodes:
                return None
            nodes = larger
        return nodes

    def _pared_down(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """Take nodes away from one group after another, the dearest first."""
        for i in sorted(range(len(nodes)), key=lambda i: (-self._costs[i], i)):
            nodes = self._fewest(nodes, i, nodes[i])
        return nodes

    def _fewest(self, nodes: tuple[int, ...], i: int, high: int) -> tuple[int, ...]:
        """The fewest of group i with which the fleet still passes; with `high` of them it does."""
        low = self._bounds[i][0]
        while low < high:
            middle = (low + high) // 2
            if self._check((*nodes[:i], middle, *nodes[i + 1 :])):
                high = middle
            else:
                low = middle + 1
        return (*nodes[:i], high, *nodes[i + 1 :])

    def _descend(self, chosen: tuple[int, ...], order: list[int]) -> None:
        """Try every number of one group after another, as long as it can still be cheaper."""
        i = order[len(chosen)]
        low, high = self._bounds[i]
        is_last = len(chosen) == len(order) - 1
        if is_last:
            most = self._affordable(chosen, order, high)
            if most >= low:
                nodes = self._in_place(chosen, order, most)
                if self._check(nodes):
                    self._offer(self._fewest(nodes, i, most))
            return
        for count in range(low, self._affordable(chosen, order, high) + 1):
            self._descend((*chosen, count), order)

    def _affordable(self, chosen: tuple[int, ...], order: list[int], high: int) -> int:
        """The most of the next group that can still be part of a better fleet than the best."""
        i = order[len(chosen)]
        spent = sum(self._costs[j] * n for j, n in zip(order, chosen, strict=False))
        spent += sum(self._costs[j] * self._bounds[j][0] for j in order[len(chosen) + 1 :])
        assert self._best is not None, "a fleet that passes was found before"
        left = self._cost(self._best) - spent
        if self._costs[i] == 0:
            return high if left >= 0 else -1
        return min(high, int(left / self._costs[i] + 1e-9)) if left >= 0 else -1

    def _in_place(self, chosen: tuple[int, ...], order: list[int], last: int) -> tuple[int, ...]:
        """Numbers in the order of the search, as numbers in the order of the groups."""
        whole = (*chosen, last)
        nodes = [0] * len(order)
        for j, count in zip(order, whole, strict=False):
            nodes[j] = count
        return tuple(nodes)

    def _offer(self, nodes: tuple[int, ...]) -> None:
        if self._best is None or self._rank(nodes) < self._rank(self._best):
            self._best = nodes

    def _rank(self, nodes: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        return round(self._cost(nodes), 9), sum(nodes), nodes

    def _cost(self, nodes: tuple[int, ...]) -> float:
        return sum(cost * count for cost, count in zip(self._costs, nodes, strict=True))

    def _check(self, nodes: tuple[int, ...]) -> bool:
        """Whether a fleet passes, asked only where smaller and larger ones do not tell."""
        if any(_covers(failed, nodes) for failed in self._failed):
            return False
        if any(_covers(nodes, passed) for passed in self._passed):
            return True
        passes = self._meets(nodes)
        (self._passed if passes else self._failed).append(nodes)
        return passes


def _covers(larger: tuple[int, ...], smaller: tuple[int, ...]) -> bool:
    return all(a >= b for a, b in zip(larger, smaller, strict=True))
