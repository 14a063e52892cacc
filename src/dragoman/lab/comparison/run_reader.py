"""Reading what a run has for each turn: scores, statistics, measures, or why there is none."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.comparison.compared import MEASURES
from dragoman.lab.comparison.finding import Contestant
from dragoman.lab.evaluators import Fingerprint
from dragoman.lab.filters import EVERYTHING, Filter
from dragoman.lab.mirror import searcher
from dragoman.lab.model import JsonValue, RunId
from dragoman.lab.repository import pairing, runs
from dragoman.lab.states import ITEM_ENDED, ItemStatus
from dragoman.lab.turn_outcomes import TurnOutcomeKind, outcome_of, outcome_of_score
from dragoman.store import Store, StoreConnection

Unit = pairing.Unit

UNFINISHED = "unfinished"
FAILURES = "failures"

MAX_TURNS = 500_000
"""Of all runs together: a comparison holds about 2 kB for each."""

_ENDED = frozenset(status.value for status in ITEM_ENDED)


@dataclass(slots=True)
class Series:
    """The values of one figure by turn, added up over repetitions."""

    sums: dict[Unit, float] = field(default_factory=dict)
    counts: dict[Unit, int] = field(default_factory=dict)
    statistics: dict[Unit, list[float]] = field(default_factory=dict)
    """Of scores that have a corpus score: what it is computed from, added up as well."""

    def add(self, unit: Unit, value: float, statistics: Collection[float] | None = None) -> None:
        self.sums[unit] = self.sums.get(unit, 0.0) + value
        self.counts[unit] = self.counts.get(unit, 0) + 1
        if statistics is not None:
            before = self.statistics.get(unit)
            self.statistics[unit] = (
                list(statistics)
                if before is None
                else [one + other for one, other in zip(before, statistics, strict=True)]
            )

    def value(self, unit: Unit) -> float | None:
        """The mean of the turn's repetitions."""
        count = self.counts.get(unit)
        return None if count is None else self.sums[unit] / count


@dataclass(slots=True)
class Seen:
    """Everything of one run that a comparison needs, by turn."""

    contestant: Contestant
    item_ids: dict[Unit, str] = field(default_factory=dict)
    """The item's row in this run's dataset version."""
    scores: dict[str, Series] = field(default_factory=dict)
    measures: dict[str, Series] = field(
        default_factory=lambda: {name: Series() for name in (*MEASURES, FAILURES)}
    )
    reasons: dict[str, dict[Unit, str]] = field(default_factory=dict)
    """Why a turn has no value of a score: an outcome, or that it has not ended."""
    unmeasured: dict[Unit, str] = field(default_factory=dict)
    """The same of what targets report."""
    errors: dict[Unit, str] = field(default_factory=dict)
    clusters: dict[Unit, JsonValue] = field(default_factory=dict)
    scored_in: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The runs in which each score was given."""

    @property
    def has_conversations(self) -> bool:
        """Whether an item has several turns, which are then not independent of each other."""
        return any(turn for _, turn in self.item_ids)


class RunReader:
    """Adds up a run that is read page by page."""

    def __init__(self, contestant: Contestant, passing: Collection[Unit] | None) -> None:
        """`passing` are the turns that count; None: all of them."""
        names = [one.name for one in contestant.evaluators]
        self.seen = Seen(contestant, scores={name: Series() for name in names})
        self.seen.reasons = {name: {} for name in names}
        self.turns = 0
        """How many repetitions of turns there are."""
        self._passing = passing

    def add(self, page: pairing.PageTaken) -> None:
        seen, passing = self.seen, self._passing
        turns = {turn.place: turn for turn in page.turns if passing is None or turn.unit in passing}
        self.turns += len(turns)
        for turn in turns.values():
            _add_turn(seen, turn)
        judged: set[tuple[str, pairing.Place]] = set()
        for score in page.scores:
            of = turns.get(score.place)
            if of is not None and score.name in seen.scores and of.status in _ENDED:
                judged.add((score.name, score.place))
                _add_score(seen, of, score)
        for name, reasons in seen.reasons.items():
            for place, turn in turns.items():
                if (name, place) not in judged:
                    reasons.setdefault(turn.unit, _why_not_judged(turn))


async def read_run(
    store: Store,
    contestant: Contestant,
    *,
    with_statistics: Collection[str],
    most: int,
    wanted: Filter = EVERYTHING,
    only: Collection[Unit] | None = None,
    cluster: str | None = None,
) -> RunReader:
    """Read one run: `only` some turns, or with a filter those that pass it in this run.

    It is read and added up page by page, so that no one waits for a whole run; more than `most`
    turns are refused.
    """
    which = (contestant.experiment.experiment_id, contestant.run_id)
    numbers = contestant.numbers
    passing = only
    if wanted != EVERYTHING:
        passing = await store.read(
            lambda c: pairing.units_that_pass(c, *which, wanted, numbers, searcher())
        )
    reader = RunReader(contestant, passing)
    after: str | None = ""
    while after is not None:
        page = await store.read(
            partial(
                pairing.page_taken,
                experiment_id=which[0],
                run_id=which[1],
                numbers=numbers,
                after=after,
                with_statistics=sorted(with_statistics),
                cluster=cluster,
            )
        )
        await asyncio.to_thread(reader.add, page)
        if reader.turns > most:
            raise InvalidMessage(
                f"The runs have more than {MAX_TURNS:,} turns, repetitions included, which is the "
                "most that is compared at once; use a filter, or compare fewer runs."
            )
        after = page.after
    return reader


_NO_SCORE = "EVALUATOR_ERROR"
"""An evaluator may give a label and no score: there is nothing to compare then."""


def _add_turn(seen: Seen, turn: pairing.TurnTaken) -> None:
    unit = turn.unit
    seen.item_ids.setdefault(unit, turn.item_id)
    seen.clusters.setdefault(unit, turn.cluster)
    if turn.error_code is not None:
        seen.errors.setdefault(unit, turn.error_code)
    seen.unmeasured.setdefault(unit, _why_not_judged(turn))
    if turn.status not in _ENDED:
        return
    for name in MEASURES:
        value = getattr(turn, name)
        if value is not None:
            seen.measures[name].add(unit, float(value))
    outcome = outcome_of(turn.error_code, answered=turn.answered)
    if turn.answered:
        seen.measures[FAILURES].add(unit, 0.0)
    elif outcome is TurnOutcomeKind.TARGET_FAILED:
        seen.measures[FAILURES].add(unit, 1.0)


def _add_score(seen: Seen, turn: pairing.TurnTaken, score: pairing.ScoreTaken) -> None:
    seen.scored_in[score.name].add(score.run_id)
    if score.score is not None:
        seen.scores[score.name].add(turn.unit, score.score, score.statistics)
        return
    seen.reasons[score.name][turn.unit] = outcome_of_score(
        turn.error_code,
        answered=turn.answered,
        judged=True,
        score_error_code=score.error_code or _NO_SCORE,
    )


def _why_not_judged(turn: pairing.TurnTaken) -> str:
    if turn.status not in _ENDED:
        return UNFINISHED
    if turn.status == ItemStatus.TERMINATED.value:
        return TurnOutcomeKind.INFRASTRUCTURE
    return outcome_of_score(turn.error_code, answered=turn.answered, judged=False)


def fingerprints_in(connection: StoreConnection, run_id: str) -> dict[str, Fingerprint] | None:
    """What the scores of a run depend on; None of a run from before that was kept."""
    text = runs.fingerprints_of(connection, RunId(run_id))
    return None if text is None else msgspec.json.decode(text, type=dict[str, Fingerprint])
