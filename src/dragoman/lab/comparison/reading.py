"""Reading what a run has for each turn: scores, statistics, measures, or why there is none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.comparison.compared import MEASURES
from dragoman.lab.comparison.finding import Contestant
from dragoman.lab.evaluators import Fingerprint
from dragoman.lab.filters import EVERYTHING, Filter
from dragoman.lab.mirror import searcher
from dragoman.lab.model import JsonValue, RunId
from dragoman.lab.outcomes import Outcome, outcome_of, outcome_of_score
from dragoman.lab.repository import pairing, runs
from dragoman.lab.states import ITEM_ENDED, ItemStatus
from dragoman.store import Connection

Unit = pairing.Unit

UNFINISHED = "unfinished"
FAILURES = "failures"

MAX_TURNS = 250_000
"""A comparison holds about 2 kB for each turn of each run."""

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


def read_run(
    connection: Connection,
    contestant: Contestant,
    *,
    with_statistics: Collection[str],
    wanted: Filter = EVERYTHING,
    only: Collection[Unit] | None = None,
    cluster: str | None = None,
) -> Seen:
    """Read one run: `only` some turns, or with a filter those that pass it in this run."""
    which = (contestant.experiment.experiment_id, contestant.run_id)
    passing = only
    if wanted != EVERYTHING:
        passing = pairing.units_that_pass(
            connection, *which, wanted, contestant.numbers, searcher()
        )
    seen = Seen(contestant)
    turns: dict[pairing.Place, pairing.TurnTaken] = {}
    for turn in pairing.turns_taken(connection, *which, cluster):
        if passing is None or turn.unit in passing:
            turns[turn.place] = turn
            _add_turn(seen, turn)
            if len(turns) > MAX_TURNS:
                raise InvalidMessage(
                    f"{contestant.label.name!r} has more than {MAX_TURNS:,} turns, repetitions "
                    "included, which is the most that is compared at once; use a filter."
                )
    names = [one.name for one in contestant.evaluators]
    seen.scores = {name: Series() for name in names}
    judged: dict[str, set[pairing.Place]] = {name: set() for name in names}
    for score in pairing.scores_taken(
        connection, *which, contestant.numbers, sorted(with_statistics)
    ):
        of = turns.get(score.place)
        if of is None or score.name not in judged or of.status not in _ENDED:
            continue
        judged[score.name].add(score.place)
        seen.scored_in[score.name].add(score.run_id)
        if score.score is not None:
            seen.scores[score.name].add(of.unit, score.score, score.statistics)
        else:
            why = outcome_of_score(
                of.error_code,
                answered=of.answered,
                judged=True,
                score_error_code=score.error_code or _NO_SCORE,
            )
            seen.reasons.setdefault(score.name, {})[of.unit] = why
    for name in names:
        reasons = seen.reasons.setdefault(name, {})
        for place, turn in turns.items():
            if place not in judged[name]:
                reasons.setdefault(turn.unit, _why_not_judged(turn))
    return seen


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
    elif outcome is Outcome.TARGET_FAILED:
        seen.measures[FAILURES].add(unit, 1.0)


def _why_not_judged(turn: pairing.TurnTaken) -> str:
    if turn.status not in _ENDED:
        return UNFINISHED
    if turn.status == ItemStatus.TERMINATED.value:
        return Outcome.INFRASTRUCTURE
    return outcome_of_score(turn.error_code, answered=turn.answered, judged=False)


def fingerprints_in(connection: Connection, run_id: str) -> dict[str, Fingerprint] | None:
    """What the scores of a run depend on; None of a run from before that was kept."""
    text = runs.fingerprints_of(connection, RunId(run_id))
    return None if text is None else msgspec.json.decode(text, type=dict[str, Fingerprint])
