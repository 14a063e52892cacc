"""What is written to a mirror: wide rows of turns, long rows of scores.

A wide row has what rows are filtered, sorted, grouped and aggregated by in columns of their own.
Users name their columns as they like, so the columns are numbered: `slot` says which number a field
of an experiment has. A field keeps its number for good. What evaluators said goes by their numbers,
not their names: when another evaluator takes a name over, the rows stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dragoman.lab.filters import ANNOTATION, INPUT, LABEL, OUTPUT, SCORE
from dragoman.lab.model import ExperimentId, ItemId
from dragoman.lab.repository import Copied, WholeTurn, typed, verdict_of
from dragoman.lab.states import ITEM_ENDED
from dragoman.lab.turn_outcomes import TurnOutcomeKind, outcome_of_score

PASSED, OUTCOME, STATISTIC = "passed.", "outcome.", "statistic."
"""Fields that only aggregates ask for; the number of the evaluator follows."""

OUTCOMES = tuple(TurnOutcomeKind)
"""Outcomes are kept as their places here: numbers are counted faster than words."""

Field = tuple[str, bool]
"""The name of a field, and whether the slot holds its text (else its number)."""


class Slots:
    """Which column holds which field of an experiment."""

    def __init__(self, known: Mapping[Field, int] | None = None) -> None:
        self.known: dict[Field, int] = dict(known or {})
        self.added: dict[Field, int] = {}

    def find(self, field: str, *, is_text: bool) -> int | None:
        return self.known.get((field, is_text))

    def of(self, field: str, *, is_text: bool) -> int:
        """The column of a field, which gets the next free one when it is new."""
        wanted = (field, is_text)
        slot = self.known.get(wanted)
        if slot is None:
            slot = sum(1 for _, other in self.known if other is is_text)
            self.known[wanted] = self.added[wanted] = slot
        return slot

    def settled(self) -> None:
        self.added = {}


def column_of(slot: int, *, is_text: bool) -> str:
    """The name of a column."""
    return f"text_{slot}" if is_text else f"number_{slot}"


class TurnRow(msgspec.Struct, frozen=True):
    """One turn."""

    experiment_id: ExperimentId
    item_id: ItemId
    repetition: int
    turn_no: int
    row_no: int
    """Of two rows of a turn, the larger counts: later rows have larger ones, none has it again."""
    shown_id: str
    status: str
    error_code: str | None
    error_message: str | None
    latency_ms: float | None
    tokens: int | None
    cost: float | None
    outcome: int | None
    """Of the turn, for evaluators that left nothing of it; None until it has ended."""
    numbers: Mapping[int, float]
    texts: Mapping[int, str]


class ScoreRow(msgspec.Struct, frozen=True):
    """What one evaluator said of a turn."""

    experiment_id: ExperimentId
    evaluator_no: int
    name: str
    item_id: ItemId
    repetition: int
    turn_no: int
    row_no: int
    score: float | None
    label: str | None
    reason: str | None
    error_code: str | None
    error_message: str | None
    statistics: tuple[float, ...]


class Batch(msgspec.Struct):
    """Changes that are written together."""

    flush_no: int
    first_row_no: int = 0
    turns: list[TurnRow] = []
    scores: list[ScoreRow] = []
    items: dict[ExperimentId, list[ItemId]] = {}
    """Whose earlier rows are replaced."""
    deleted: list[ExperimentId] = []
    slots: dict[ExperimentId, dict[Field, int]] = {}
    """New ones."""

    def removed(self) -> dict[ExperimentId, list[ItemId]]:
        """Items that have no rows any more."""
        left = {(row.experiment_id, row.item_id) for row in self.turns}
        gone = {
            experiment_id: [one for one in item_ids if (experiment_id, one) not in left]
            for experiment_id, item_ids in self.items.items()
        }
        return {experiment_id: items for experiment_id, items in gone.items() if items}

    def add(self, copied: Copied, item_ids: Sequence[ItemId], slots: Slots) -> None:
        """Add turns of some items of an experiment."""
        self.items.setdefault(copied.experiment_id, []).extend(item_ids)
        for turn in copied.turns:
            row_no = self.first_row_no + len(self.turns)
            self.turns.append(_turn_row(copied, turn, row_no, slots))
            self.scores += _score_rows(copied, turn, row_no)
        if slots.added:
            self.slots.setdefault(copied.experiment_id, {}).update(slots.added)


def _turn_row(copied: Copied, turn: WholeTurn, row_no: int, slots: Slots) -> TurnRow:
    row = turn.row
    numbers: dict[int, float] = {}
    texts: dict[int, str] = {}

    def put(field: str, number: float | None, text: str | None) -> None:
        if number is not None:
            numbers[slots.of(field, is_text=False)] = number
        if text is not None:
            texts[slots.of(field, is_text=True)] = text

    for prefix, values in ((INPUT, row.input), (OUTPUT, row.output)):
        for name, value in values.items():
            put(prefix + name, *typed(value))
    for name, said in row.annotated.items():
        put(ANNOTATION + name, said.score, said.text)
    outcome = None
    if row.status in ITEM_ENDED:  # what is not over counts nowhere yet
        outcome = _outcome(turn, judged=False)
        for number, judged in turn.judged.items():
            cell = judged.cell
            put(f"{SCORE}{number}", cell.score, None)
            put(f"{LABEL}{number}", None, cell.label)
            passes = verdict_of(cell.label)
            if cell.score is not None and passes is not None:
                put(f"{PASSED}{number}", float(passes), None)
            found = _outcome(turn, judged=True, score_error_code=cell.error_code)
            put(f"{OUTCOME}{number}", float(found), None)
            if cell.error_code is None:
                for place, value in enumerate(judged.statistics or ()):
                    put(f"{STATISTIC}{place}.{number}", value, None)
    return TurnRow(
        copied.experiment_id,
        turn.key.item_id,
        turn.key.repetition,
        row.turn,
        row_no,
        row.item_id,
        row.status.value,
        row.error_code,
        row.error_message,
        row.latency_ms,
        row.tokens,
        row.cost,
        outcome,
        numbers,
        texts,
    )


def _outcome(turn: WholeTurn, *, judged: bool, score_error_code: str | None = None) -> int:
    outcome = outcome_of_score(
        turn.row.error_code,
        answered=turn.answered,
        judged=judged,
        score_error_code=score_error_code,
    )
    return OUTCOMES.index(outcome)


def _score_rows(copied: Copied, turn: WholeTurn, row_no: int) -> list[ScoreRow]:
    return [
        ScoreRow(
            copied.experiment_id,
            number,
            judged.name,
            turn.key.item_id,
            turn.key.repetition,
            turn.row.turn,
            row_no,
            judged.cell.score,
            judged.cell.label,
            judged.cell.reason,
            judged.cell.error_code,
            judged.cell.error_message,
            judged.statistics or (),
        )
        for number, judged in turn.judged.items()
    ]


def as_columns(rows: Sequence[Any], kind: type[msgspec.Struct]) -> dict[str, list[Any]]:
    """Rows as columns, without the numbered ones."""
    names = [name for name in kind.__struct_fields__ if name not in ("numbers", "texts")]
    return {name: [getattr(row, name) for row in rows] for name in names}
