"""Aggregates of turns that are read one by one: of groups, and of clusters that a column names.

What a column of the input holds is asked of the columnar mirror. Without one every row is read.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import fsum

import msgspec

from dragoman.lab.filters import MEASURES, NAMED, OWN_TEXTS, REPETITION, Filter
from dragoman.lab.model import EvaluatorSpec, ExperimentId, ItemKey, RunId
from dragoman.lab.repository.aggregates import (
    FEW_VALUES,
    NO_CODE,
    Aggregate,
    Aggregates,
    Cause,
    Failures,
    Group,
    Outcomes,
    Spread,
    aggregate_of,
    grouped,
    score_aggregate,
    spread_of,
    verdict_of,
)
from dragoman.lab.repository.by_hand import Search, turn_passes, value_of
from dragoman.lab.repository.certainty import Together
from dragoman.lab.repository.corpus_sums import CorpusSums
from dragoman.lab.repository.fields import Numbers
from dragoman.lab.repository.repeating import Repeated, Try, repeated
from dragoman.lab.repository.result_rows import WholeTurn, every_turn
from dragoman.lab.states import ITEM_ENDED, ItemStatus
from dragoman.lab.turn_outcomes import TurnOutcomeKind, outcome_of_score
from dragoman.store import StoreConnection

MAX_GROUPS = 50
"""The most frequent values have groups, the others are counted."""

Value = tuple[float | None, str | None]
"""What a turn has in a field, as a number and as text."""


def field_to_group_by(name: str) -> str:
    """The field that a user means: a column of the input, unless the name says otherwise."""
    own = (*OWN_TEXTS, REPETITION)
    return name if name in own or name.startswith(NAMED) else f"input.{name}"


class Passing:
    """The turns of an experiment, or of one of its runs, that pass a filter."""

    def __init__(
        self,
        connection: StoreConnection,
        experiment_id: ExperimentId,
        run_id: RunId | None,
        wanted: Filter,
        search: Search,
        numbers: Numbers = None,
    ) -> None:
        self._which = (connection, experiment_id, run_id, numbers)
        self._wanted = wanted
        self._search = search

    def __iter__(self) -> Iterator[WholeTurn]:
        for turns in every_turn(*self._which):
            for turn in turns:
                if turn_passes(turn, self._wanted, self._search):
                    yield turn


class Added:
    """Turns that are added up; items of one value in the field `cluster` belong together."""

    def __init__(
        self, evaluators: Sequence[EvaluatorSpec], repetitions: int, cluster: str | None = None
    ) -> None:
        self._evaluators = evaluators
        self._repetitions = repetitions
        self._cluster = cluster
        self._several = repetitions > 1 or cluster is not None
        self._measures = {name: _Series() for name in MEASURES}
        self._scores = {one.name: _Series() for one in evaluators}
        self._verdicts = {one.name: _Series() for one in evaluators}
        self._outcomes = {one.name: Counter[TurnOutcomeKind]() for one in evaluators}
        self._sums: dict[str, CorpusSums] = {}
        self._tries: dict[str, list[Try]] = {one.name: [] for one in evaluators}
        self._ended: set[ItemKey] = set()
        self._failed: dict[str, set[ItemKey]] = defaultdict(set)
        self._samples: dict[str, str | None] = {}

    def add(self, turn: WholeTurn) -> None:
        row, unit = turn.row, self._unit(turn)
        self._several = self._several or row.turn > 0
        for name, series in self._measures.items():
            measured = getattr(row, name)
            if measured is not None:
                series.add(float(measured), unit)
        if row.status not in ITEM_ENDED:  # what is not over counts nowhere yet
            return
        self._ended.add(turn.key)
        if row.status is not ItemStatus.SUCCESS:
            code = row.error_code or NO_CODE
            self._failed[code].add(turn.key)
            # The first turn of an item that failed says why; the ones after it only follow.
            self._samples.setdefault(code, row.error_message)
        for one in self._evaluators:
            self._judge(one.name, turn, unit)
        for judged in turn.judged.values():
            if judged.cell.error_code is None and judged.statistics:
                sums = self._sums.get(judged.name)
                if sums is None:
                    # Turns come item by item; those of a cluster are anywhere.
                    sums = self._sums[judged.name] = CorpusSums(in_order=self._cluster is None)
                sums.add(unit, judged.statistics)

    def _unit(self, turn: WholeTurn) -> tuple[object, ...]:
        if self._cluster is not None:
            named = value_of(turn, self._cluster)
            if named != (None, None):
                return named
        return (turn.key.item_id,)

    def _judge(self, name: str, turn: WholeTurn, unit: tuple[object, ...]) -> None:
        cell = turn.row.scores.get(name)
        outcome = outcome_of_score(
            turn.row.error_code,
            answered=turn.answered,
            judged=cell is not None,
            score_error_code=None if cell is None else cell.error_code,
        )
        self._outcomes[name][outcome] += 1
        if cell is None or cell.score is None:
            return
        verdict = verdict_of(cell.label)
        self._scores[name].add(cell.score, unit)
        if verdict is not None:
            self._verdicts[name].add(float(verdict), unit)
        if self._repetitions > 1:
            self._tries[name].append((turn.key.item_id, turn.row.turn, cell.score, verdict))

    def aggregates(self) -> Aggregates:
        return Aggregates(
            scores={one.name: self._score(one) for one in self._evaluators},
            latency_ms=aggregate_of(self._measures["latency_ms"].spread(self._several)),
            tokens=aggregate_of(self._measures["tokens"].spread(self._several)),
            cost=aggregate_of(self._measures["cost"].spread(self._several)),
            failures=self._failures(),
        )

    def _score(self, evaluator: EvaluatorSpec) -> Aggregate:
        name = evaluator.name
        found, verdicts = self._outcomes[name], self._verdicts[name]
        told: Repeated | None = None
        if self._tries[name]:
            told = repeated(sorted(self._tries[name], key=lambda one: one[:2]), self._repetitions)
        return score_aggregate(
            self._scores[name].spread(self._several, verdicts),
            evaluator,
            Outcomes(**{outcome.value: found[outcome] for outcome in TurnOutcomeKind}),
            None if name not in self._sums else self._sums[name].told(evaluator),
            told,
        )

    def _failures(self) -> Failures:
        failing = set().union(*self._failed.values()) if self._failed else set()
        counted = sorted((-len(keys), code) for code, keys in self._failed.items())
        return Failures(
            items=len(failing),
            share=len(failing) / len(self._ended) if self._ended else 0.0,
            causes=tuple(Cause(code, -number, self._samples[code]) for number, code in counted),
        )


class _Series:
    """Values, and what those of each unit add up to."""

    def __init__(self) -> None:
        self.values = array("d")
        self._sums: dict[tuple[object, ...], float] = {}
        self._sizes: Counter[tuple[object, ...]] = Counter()

    def add(self, value: float, unit: tuple[object, ...]) -> None:
        self.values.append(value)
        self._sums[unit] = self._sums.get(unit, 0.0) + value
        self._sizes[unit] += 1

    def spread(self, several: bool, verdicts: _Series | None = None) -> Spread:
        found = spread_of(sorted(self.values), self.together() if several else None)
        if len(self.values) > FEW_VALUES:
            found = msgspec.structs.replace(found, values=None)
        if verdicts is not None:
            found = msgspec.structs.replace(
                found,
                verdicts=len(verdicts.values),
                passing=round(sum(verdicts.values)),
                verdicts_together=verdicts.together() if several else None,
            )
        return found

    def together(self) -> Together:
        units = [(self._sums[unit], size) for unit, size in self._sizes.items()]
        count = len(self.values)
        mean = fsum(self.values) / count if count else 0.0
        return Together(
            units=len(units),
            squares=fsum((total - size * mean) ** 2 for total, size in units),
            sums=units if 0 < len(units) <= FEW_VALUES else None,
            size_squares=fsum(size**2 for _, size in units),
        )


def aggregates_by_hand(
    turns: Iterable[WholeTurn],
    evaluators: Sequence[EvaluatorSpec],
    repetitions: int,
    cluster: str | None,
) -> Aggregates:
    """The aggregates of turns."""
    added = Added(evaluators, repetitions, cluster)
    for turn in turns:
        added.add(turn)
    return added.aggregates()


def with_groups(
    whole: Aggregates,
    turns: Iterable[WholeTurn],
    field: str,
    evaluators: Sequence[EvaluatorSpec],
    repetitions: int,
    cluster: str | None,
) -> Aggregates:
    """Aggregates with those of the most frequent values of a field; the turns are read twice."""
    counts = Counter(value_of(turn, field) for turn in turns)
    values = sorted(counts.items(), key=_most_frequent_first)
    groups = {value: Added(evaluators, repetitions, cluster) for value, _ in values[:MAX_GROUPS]}
    for turn in turns:
        added = groups.get(value_of(turn, field))
        if added is not None:
            added.add(turn)
    return grouped(
        whole,
        (
            Group(number if number is not None else text, counts[number, text], added.aggregates())
            for (number, text), added in groups.items()
        ),
        max(0, len(values) - MAX_GROUPS),
    )


def _most_frequent_first(group: tuple[Value, int]) -> tuple[object, ...]:
    (number, text), rows = group
    return -rows, number is None, number or 0, text is None, text or ""
