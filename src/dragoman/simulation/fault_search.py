"""A search for the faults that hurt most: schedules from a seed, and the shortest that breaks.

A schedule breaks when the scheduler does not keep what it always promises, no slot sold twice and
one end for everything that was asked for, or when a goal that the user stated is not met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from dragoman.simulation.figures import RunFigures
from dragoman.simulation.goals import Goal
from dragoman.simulation.running import Runner
from dragoman.simulation.scenario import Fault, FaultKind, Scenario

OnSchedule = Callable[[int, float], None]
"""Called with how many schedules were played, and how bad the worst of them was."""

_BATCH = 8
"""Schedules that are drawn before the next ones learn from them; the same on every machine."""
_MUTATED_SHARE = 0.5
_SHORTEST_SECONDS = 1.0
_BROKEN_LAW = 1_000.0
_SHRINK_ROUNDS = 20


@dataclass(frozen=True)
class Schedule:
    """Faults, the seed they were played with, and what came of it."""

    faults: tuple[Fault, ...]
    seed: int
    figures: RunFigures
    badness: float
    """Above 0 when something was broken; otherwise how near it was, from -1 to 0."""

    @property
    def is_broken(self) -> bool:
        return self.badness >= 0


@dataclass(frozen=True)
class FaultSearch:
    """The worst that was found."""

    worst: Schedule
    """The shortest that breaks a promise; the one that came nearest, when none does."""
    schedules: int
    """How many were played until one broke, or in all."""
    played: int
    """With those that made it shorter."""
    broken: tuple[str, ...]
    """What the worst schedule breaks."""


def find_faults(
    scenario: Scenario,
    goal: Goal | None = None,
    *,
    most_faults: int = 3,
    schedules: int = 200,
    seed: int = 0,
    runner: Runner,
    on_schedule: OnSchedule | None = None,
) -> FaultSearch:
    """Look for the worst schedule of at most so many faults."""
    return _Search(scenario, goal or Goal(), most_faults, seed, runner).run(schedules, on_schedule)


class _Search:
    def __init__(
        self, scenario: Scenario, goal: Goal, most_faults: int, seed: int, runner: Runner
    ) -> None:
        self._scenario = scenario
        self._goal = goal
        self._most_faults = most_faults
        self._seed = seed
        self._runner = runner
        self._random = Random(f"{seed}/fault search")
        self._draws = list(_kinds(scenario))
        self._played = 0

    def run(self, schedules: int, on_schedule: OnSchedule | None) -> FaultSearch:
        worst: Schedule | None = None
        tried = 0
        while tried < schedules:
            drawn = [
                (self._draw(worst) if tried + i else (), self._seed + tried + i)
                for i in range(min(_BATCH, schedules - tried))
            ]
            for schedule in self._play(drawn):
                tried += 1
                if worst is None or schedule.badness > worst.badness:
                    worst = schedule
                if worst.is_broken:
                    break
            assert worst is not None, "a batch has schedules"
            if on_schedule is not None:
                on_schedule(tried, worst.badness)
            if worst.is_broken:
                worst = self._shrunk(worst)
                break
        assert worst is not None, "at least one schedule is played"
        return FaultSearch(worst, tried, self._played, tuple(self._what_broke(worst.figures)))

    # --- drawing ---------------------------------------------------------------------------------

    def _draw(self, worst: Schedule | None) -> tuple[Fault, ...]:
        """A new schedule, or the worst one changed a little."""
        random = self._random
        if worst is None or not worst.faults or random.random() >= _MUTATED_SHARE:
            count = random.randint(1, self._most_faults)
            return _in_order(self._draw_fault() for _ in range(count))
        faults = list(worst.faults)
        changed = random.randrange(len(faults))
        if len(faults) < self._most_faults and random.random() < 0.5:
            faults.append(self._draw_fault())
        else:
            faults[changed] = self._draw_fault()
        return _in_order(faults)

    def _draw_fault(self) -> Fault:
        random, scenario = self._random, self._scenario
        kind, group, most_nodes = random.choice(self._draws)
        first, last = scenario.warmup_seconds, scenario.duration_seconds * 0.9
        longest = max(_SHORTEST_SECONDS * 2, scenario.duration_seconds / 3)
        seconds = _SHORTEST_SECONDS * (longest / _SHORTEST_SECONDS) ** random.random()
        fault = Fault(
            kind=kind,
            at_seconds=round(first + (last - first) * random.random(), 1),
            for_seconds=round(seconds, 1),
            group=group,
            nodes=random.randint(1, most_nodes),
        )
        factor = float(random.choice((2, 5, 20)))
        return replace(fault, factor=factor) if kind is FaultKind.SLOW else fault

    # --- playing ---------------------------------------------------------------------------------

    def _play(self, drawn: Sequence[tuple[tuple[Fault, ...], int]]) -> list[Schedule]:
        runs = [(self._scenario.with_faults(faults), seed) for faults, seed in drawn]
        self._played += len(runs)
        figures = self._runner.run(runs)
        return [
            Schedule(faults, seed, run, self._badness(run))
            for (faults, seed), run in zip(drawn, figures, strict=True)
        ]

    def _badness(self, run: RunFigures) -> float:
        if run.violations_total:
            return _BROKEN_LAW + run.violations_total
        if not self._goal.clauses:
            # Nothing was stated: a schedule that refuses more comes nearer to breaking something.
            return run.whole.refused_share - 1.0
        if self._goal.is_met([run]):
            return min(self._goal.excess([run]), -1e-9)
        return max(self._goal.excess([run]), 0.0)

    def _what_broke(self, run: RunFigures) -> list[str]:
        stated = [
            f"{clause}: it was {clause.value([run]):.6g}" for clause in self._goal.broken([run])
        ]
        return [*run.violations[:5], *stated]

    # --- shrinking -------------------------------------------------------------------------------

    def _shrunk(self, schedule: Schedule) -> Schedule:
        """The shortest schedule found that still breaks, played with the same seed."""
        for _ in range(_SHRINK_ROUNDS):
            drawn = [(faults, schedule.seed) for faults in _simpler(schedule.faults)]
            if not drawn:
                return schedule
            broken = [played for played in self._play(drawn) if played.is_broken]
            if not broken:
                return schedule
            schedule = broken[0]
        return schedule


def _simpler(faults: tuple[Fault, ...]) -> Iterator[tuple[Fault, ...]]:
    """Schedules with one thing less, those with fewer faults first."""
    for i in range(len(faults)):
        yield (*faults[:i], *faults[i + 1 :])
    for i, fault in enumerate(faults):
        if fault.nodes > 1:
            yield (*faults[:i], replace(fault, nodes=fault.nodes // 2), *faults[i + 1 :])
        if fault.for_seconds >= 2 * _SHORTEST_SECONDS:
            shorter = replace(fault, for_seconds=round(fault.for_seconds / 2, 1))
            yield (*faults[:i], shorter, *faults[i + 1 :])


def _kinds(scenario: Scenario) -> Iterator[tuple[FaultKind, str | None, int]]:
    """What can go wrong in this scenario: the kind, whose nodes, and how many at most."""
    for group in scenario.fleet:
        if not group.nodes:
            continue
        few = max(1, group.nodes // 4)
        for kind in (FaultKind.NODE, FaultKind.LINK, FaultKind.SLOW, FaultKind.LYING):
            yield kind, group.name, few
        if len(scenario.fleet) > 1:
            yield FaultKind.GROUP, group.name, 1
    if scenario.instances > 1:
        yield FaultKind.INSTANCE, None, 1
        yield FaultKind.REDIS, None, 1


def _in_order(faults: Iterator[Fault] | Sequence[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(faults, key=lambda fault: (fault.at_seconds, fault.kind.value)))
