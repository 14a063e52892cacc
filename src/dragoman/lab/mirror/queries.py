"""Questions to a mirror as SQL. Values are bound, always; names of columns are numbers of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dragoman.lab.filters import (
    INPUT,
    LABEL,
    MEASURES,
    OUTPUT,
    REPETITION,
    SCORE,
    TEXT,
    AllOf,
    Condition,
    Filter,
    Not,
    OneOf,
    Op,
    looks_at_numbers,
)
from dragoman.lab.mirror.batches import OUTCOME, PASSED, Slots, column_of
from dragoman.lab.mirror.dialects import Dialect, ValueKind
from dragoman.lab.model import EvaluatorSpec, ExperimentId
from dragoman.lab.repository import Place, SortValue

ITEM = ""
"""In the place of a field: the turns and repetitions of an item belong together."""

_OF_EVALUATORS = (SCORE, LABEL, PASSED, OUTCOME)
_OWN = {"status": "status", "item_id": "shown_id", "error_code": "error_code"}
_COMPARISONS = {
    Op.EQUAL: "=",
    Op.NOT_EQUAL: "<>",
    Op.LESS: "<",
    Op.AT_MOST: "<=",
    Op.MORE: ">",
    Op.AT_LEAST: ">=",
}


class Value(msgspec.Struct, frozen=True):
    """A bound value with its type."""

    kind: ValueKind
    value: Any


class Query(msgspec.Struct, frozen=True):
    """A statement and the values that are bound in it, in order."""

    text: str
    values: tuple[Value, ...]


class Mirrored(msgspec.Struct, frozen=True):
    """An experiment to ask about, with its present evaluators and their numbers."""

    experiment_id: ExperimentId
    evaluators: Sequence[EvaluatorSpec]
    numbers: Mapping[str, int]


class Questions:
    """Asks about one experiment; one object makes one query."""

    def __init__(self, dialect: Dialect, asked: Mirrored, slots: Slots) -> None:
        self._dialect = dialect
        self._numbers = asked.numbers
        self._slots = slots
        self._values: list[Value] = []
        self._of_experiment = f"experiment_id = {self._bind(ValueKind.TEXT, asked.experiment_id)}"

    def select(self, columns: Sequence[str], where: Sequence[str] = (), rest: str = "") -> Query:
        """A query over the turns of the experiment that meet every condition."""
        conditions = " AND ".join((self._of_experiment, *where))
        text = f"SELECT {', '.join(columns)} FROM {self._dialect.turns} WHERE {conditions} {rest}"
        return Query(text, tuple(self._values))

    def page(
        self, wanted: Filter, keys: Sequence[SortValue], after: Place | None, most: int
    ) -> Query:
        """The places of rows in an order: item, repetition, turn, what they are sorted by."""
        values = [self.column(key.field, is_text=key.is_text) for key in keys]
        where = [self.condition(wanted)]
        if after is not None:
            where.append(self._is_behind(keys, values, after))
        order: list[str] = []
        for key, value in zip(keys, values, strict=True):
            order += [f"{value} IS NULL", f"{value} {'DESC' if key.descending else 'ASC'}"]
        order += ["item_id", "repetition", "turn_no"]
        columns = ["item_id", "repetition", "turn_no", *values]
        named = [f"{column} AS c{number}" for number, column in enumerate(columns)]
        return self.select(
            named, where, f"ORDER BY {', '.join(order)} LIMIT {self._bind(ValueKind.INTEGER, most)}"
        )

    def column(self, field: str, *, is_text: bool) -> str:
        """The column of a field; where the experiment has no such field, nothing."""
        if field in _OWN and is_text:
            return _OWN[field]
        if field == REPETITION and not is_text:
            return "(repetition + 1)"
        if field in MEASURES and not is_text:
            return field
        prefix = next((one for one in _OF_EVALUATORS if field.startswith(one)), None)
        if prefix is not None:
            field = f"{prefix}{self._numbers.get(field.removeprefix(prefix))}"
        return self.numbered(field, is_text=is_text)

    def fraction(self, field: str) -> str:
        """The number that a field has, with a fraction also where it is a whole one."""
        return self._dialect.number_of.format(value=self.column(field, is_text=False))

    def numbered(self, field: str, *, is_text: bool) -> str:
        """The column of a field as the mirror calls it: evaluators by their numbers."""
        slot = self._slots.find(field, is_text=is_text)
        if slot is None:
            return self._dialect.no_text if is_text else self._dialect.no_number
        return column_of(slot, is_text=is_text)

    def condition(self, wanted: Filter) -> str:
        """The filter as a condition; the database's own NULL does what missing values should."""
        match wanted:
            case AllOf(()):
                return "(1 = 1)"
            case OneOf(()):
                return "(1 = 0)"
            case AllOf(parts):
                return f"({' AND '.join(self.condition(part) for part in parts)})"
            case OneOf(parts):
                return f"({' OR '.join(self.condition(part) for part in parts)})"
            case Not(part):
                return f"(NOT {self.condition(part)})"
            case Condition():
                return self._compared(wanted)

    def _compared(self, condition: Condition) -> str:
        if condition.field == TEXT:
            return self._any_text(condition)
        typed = looks_at_numbers(condition)
        if typed is None:
            number, text = (
                self.column(condition.field, is_text=is_text) for is_text in (False, True)
            )
            missing = f"({number} IS NULL AND {text} IS NULL)"
            if condition.op is Op.IS_NULL:
                return missing
            if condition.op is Op.NOT_NULL:
                return f"(NOT {missing})"
            holds = "1 = 0" if condition.op is Op.IN else "1 = 1"
            return f"(CASE WHEN {missing} THEN NULL ELSE {holds} END)"
        value = self.column(condition.field, is_text=not typed)
        return self._holds(value, condition.op, condition.value, is_number=typed)

    def _holds(self, column: str, op: Op, value: Any, *, is_number: bool) -> str:
        if op in (Op.IS_NULL, Op.NOT_NULL):
            return f"({column} IS {'NOT ' if op is Op.NOT_NULL else ''}NULL)"
        if op in (Op.IN, Op.NOT_IN):
            if not value:
                return f"({column} {'<>' if op is Op.IN else '='} {column})"
            listed = self._bind(ValueKind.NUMBERS if is_number else ValueKind.TEXTS, value)
            found = self._dialect.is_in.format(value=column, list=listed)
            return found if op is Op.IN else f"(NOT {found})"
        bound = self._bind(ValueKind.NUMBER if is_number else ValueKind.TEXT, value)
        if op is Op.MATCHES:
            return self._dialect.matches.format(value=column, pattern=bound)
        if op in (Op.CONTAINS, Op.NOT_CONTAINS):
            found = self._dialect.contains.format(value=column, part=bound)
            return found if op is Op.CONTAINS else f"(NOT {found})"
        return f"({column} {_COMPARISONS[op]} {bound})"

    def _any_text(self, condition: Condition) -> str:
        """A condition that any text of the input or the output may meet."""
        columns = [
            column_of(slot, is_text=True)
            for (field, is_text), slot in self._slots.known.items()
            if is_text and field.startswith((INPUT, OUTPUT))
        ]
        if not columns:
            columns = [self._dialect.no_text]
        missing = f"({' AND '.join(f'{column} IS NULL' for column in columns)})"
        if condition.op is Op.IS_NULL:
            return missing
        if condition.op is Op.NOT_NULL:
            return f"(NOT {missing})"
        negated = condition.op is Op.NOT_CONTAINS
        op = Op.CONTAINS if negated else condition.op
        each = [self._holds(column, op, condition.value, is_number=False) for column in columns]
        found = f"({' OR '.join(f'coalesce({one}, 1 = 0)' for one in each)})"
        return f"(CASE WHEN {missing} THEN NULL ELSE {f'(NOT {found})' if negated else found} END)"

    def _is_behind(self, keys: Sequence[SortValue], columns: Sequence[str], place: Place) -> str:
        item = self._bind(ValueKind.TEXT, place.item_id)
        repetition = self._bind(ValueKind.INTEGER, place.repetition)
        turn = self._bind(ValueKind.INTEGER, place.turn_no)
        condition = (
            f"(item_id > {item} OR (item_id = {item} AND (repetition > {repetition} OR "
            f"(repetition = {repetition} AND turn_no > {turn}))))"
        )
        for key, column, reached in reversed(list(zip(keys, columns, place.keys, strict=True))):
            if reached is None:  # the last ones: only rows without a value are left
                condition = f"({column} IS NULL AND {condition})"
                continue
            bound = self._bind(ValueKind.TEXT if key.is_text else ValueKind.NUMBER, reached)
            further = f"{column} {'<' if key.descending else '>'} {bound}"
            condition = (
                f"(coalesce({further}, 1 = 0) OR {column} IS NULL OR "
                f"(coalesce({column} = {bound}, 1 = 0) AND {condition}))"
            )
        return condition

    def _bind(self, kind: ValueKind, value: Any) -> str:
        self._values.append(Value(kind, value))
        return self._dialect.parameter[kind].format(number=len(self._values))

    def is_one_of(self, field: str, values: Sequence[tuple[float | None, str | None]]) -> str:
        """The condition that a field has one of these, each a number, a text, or nothing."""
        number, text = (self.column(field, is_text=is_text) for is_text in (False, True))
        numbers = [one for one, _ in values if one is not None]
        texts = [other for one, other in values if one is None and other is not None]
        parts = []
        if numbers:
            parts.append(self._holds(number, Op.IN, numbers, is_number=True))
        if texts:
            found = self._holds(text, Op.IN, texts, is_number=False)
            parts.append(f"({number} IS NULL AND {found})")
        if (None, None) in values:
            parts.append(f"({number} IS NULL AND {text} IS NULL)")
        return f"({' OR '.join(parts) or '1 = 0'})"

    def unit(self, field: str) -> str:
        """What names the unit of a row: its item, or what it has in a field.

        A row without a value there is one with its item alone.
        """
        if field == ITEM:
            return "item_id"
        number, text = (self.column(field, is_text=is_text) for is_text in (False, True))
        written = self._dialect.text_of.format(value=number)
        return f"coalesce('t' || {text}, 'n' || {written}, 'i' || item_id)"

    def number(self, value: float) -> str:
        """A number of ours, bound."""
        return self._bind(ValueKind.NUMBER, value)

    def numbers(self, values: Sequence[float]) -> str:
        """Numbers of ours, bound as one list."""
        return self._bind(ValueKind.NUMBERS, list(values))

    def text(self, value: str) -> str:
        """A text, bound."""
        return self._bind(ValueKind.TEXT, value)
