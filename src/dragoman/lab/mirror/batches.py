"""What is written to a mirror: wide rows of turns, long rows of scores.

A wide row has what rows are filtered, sorted and grouped by in columns of their own, and the row as
users see it whole. Users name their columns and scores as they like, so the columns are numbered:
`slot` says which number a field of an experiment has. A field keeps its number for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dragoman.lab.filters import ANNOTATION, INPUT, LABEL, OUTPUT, SCORE
from dragoman.lab.model import ExperimentId, ItemId
from dragoman.lab.outcomes import Outcome, outcome_of_score
from dragoman.lab.repository import FAIL, PASS, PASSING_SCORE, Copied, WholeTurn, typed
from dragoman.lab.states import ITEM_ENDED

PASSED, OUTCOME, STATISTIC = "passed.", "outcome.", "statistic."
"""Fields that only aggregates ask for; the name of the score follows."""

OUTCOMES = tuple(Outcome)
"""Outcomes are kept as their places here: numbers are counted faster than words."""

TURNS_IN_A_BATCH = 1 << 20
"""At most this many turns in one batch, so that the number of a row says which batch it is of."""

Field = tuple[str, bool]
"""The name of a field, and whether the slot holds its text (else its number)."""

_encode = msgspec.json.Encoder().encode


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
    """Larger in later batches: of two rows of a turn, the larger counts."""
    shown_id: str
    status: str
    error_code: str | None
    error_message: str | None
    latency_ms: float | None
    tokens: int | None
    cost: float | None
    row_json: str
    numbers: Mapping[int, float]
    texts: Mapping[int, str]


class ScoreRow(msgspec.Struct, frozen=True):
    """What one evaluator said of a turn."""

    experiment_id: ExperimentId
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
    turns: list[TurnRow] = []
    scores: list[ScoreRow] = []
    items: dict[ExperimentId, list[ItemId]] = {}
    """Whose earlier rows are replaced."""
    deleted: list[ExperimentId] = []
    slots: dict[ExperimentId, dict[Field, int]] = {}
    """New ones."""

    def add(self, copied: Copied, item_ids: Sequence[ItemId], slots: Slots) -> None:
        """Add turns of some items of an experiment."""
        self.items.setdefault(copied.experiment_id, []).extend(item_ids)
        for turn in copied.turns:
            row_no = self.flush_no * TURNS_IN_A_BATCH + len(self.turns)
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
    for name, noted in turn.annotations.items():
        put(ANNOTATION + name, noted.score, noted.label)
    has_ended = row.status in ITEM_ENDED
    for evaluator in copied.evaluators:
        cell = row.scores.get(evaluator.name)
        if cell is not None:
            put(SCORE + evaluator.name, cell.score, None)
            put(LABEL + evaluator.name, None, cell.label)
            if cell.score is not None:
                put(PASSED + evaluator.name, float(_passes(cell.score, cell.label)), None)
        if has_ended:
            outcome = outcome_of_score(
                row.error_code,
                answered=turn.answered,
                judged=cell is not None,
                score_error_code=None if cell is None else cell.error_code,
            )
            put(OUTCOME + evaluator.name, float(OUTCOMES.index(outcome)), None)
            if cell is not None and cell.error_code is None:
                for place, value in enumerate(turn.statistics.get(evaluator.name, ())):
                    put(f"{STATISTIC}{place}.{evaluator.name}", value, None)
    return TurnRow(
        copied.experiment_id,
        turn.item_id,
        turn.repetition,
        row.turn,
        row_no,
        row.item_id,
        row.status.value,
        row.error_code,
        row.error_message,
        row.latency_ms,
        row.tokens,
        row.cost,
        _encode(row).decode(),
        numbers,
        texts,
    )


def _passes(score: float, label: str | None) -> bool:
    if label in (PASS, FAIL):
        return label == PASS
    return score >= PASSING_SCORE


def _score_rows(copied: Copied, turn: WholeTurn, row_no: int) -> list[ScoreRow]:
    return [
        ScoreRow(
            copied.experiment_id,
            name,
            turn.item_id,
            turn.repetition,
            turn.row.turn,
            row_no,
            cell.score,
            cell.label,
            cell.reason,
            cell.error_code,
            cell.error_message,
            turn.statistics.get(name, ()),
        )
        for name, cell in turn.row.scores.items()
    ]


def as_columns(rows: Sequence[Any], kind: type[msgspec.Struct]) -> dict[str, list[Any]]:
    """Rows as columns, without the numbered ones."""
    names = [name for name in kind.__struct_fields__ if name not in ("numbers", "texts")]
    return {name: [getattr(row, name) for row in rows] for name in names}
