"""The turns that users see, and what can be asked about each of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from dragoman.lab.filters import (
    LABEL,
    MEASURES,
    OWN_TEXTS,
    REPETITION,
    SCORE,
    AllOf,
    Condition,
    Filter,
    Not,
    OneOf,
    Op,
    fields_of,
)
from dragoman.lab.model import ExperimentId, RunId
from dragoman.lab.repository.tables import (
    dataset_item,
    evaluator_record,
    item_run_log,
    target_record,
    turn_result,
    turn_run_log,
    turn_score,
)

_SHOWN = ("item_id", "repetition", "turn_no", "run_id", "try_no", "status", "target_record_id")
_SHOWN_ERRORS = ("error_code", "error_message")

Numbers = Collection[int] | None
"""The numbers of the evaluators whose scores are meant; None: of all that a turn has.

An experiment as it stands has the scores of its present evaluators; a run has what it was given.
"""


def shown_turns(experiment_id: ExperimentId, run_id: RunId | None) -> sa.Subquery:
    """The turns of an experiment as they stand, or as one of its runs left them."""
    if run_id is None:
        of = turn_result.c
        select = sa.select(*(of[name] for name in (*_SHOWN, *_SHOWN_ERRORS)))
        return select.where(of.experiment_id == experiment_id).subquery("shown")
    logged, items = turn_run_log.c, item_run_log.c
    select = sa.select(*(logged[name] for name in (*_SHOWN, *_SHOWN_ERRORS)))
    last_try = sa.and_(
        items.run_id == logged.run_id,
        items.item_id == logged.item_id,
        items.repetition == logged.repetition,
        items.try_no == logged.try_no,
    )
    return select.join(item_run_log, last_try).where(logged.run_id == run_id).subquery("shown")


def scores_of(shown: sa.Subquery, numbers: Numbers = None) -> sa.FromClause:
    """Shown turns joined with their scores."""
    return shown.join(turn_score, _is_score_of(shown, numbers)).join(
        evaluator_record, evaluator_record.c.id == turn_score.c.evaluator_record_id
    )


def field_of(shown: sa.Subquery, field: str, numbers: Numbers = None) -> sa.ColumnElement[Any]:
    """The value of a field for each shown turn."""
    if field == "item_id":
        item = dataset_item.c
        value = sa.select(sa.func.coalesce(item.content_id, item.id)).where(
            item.id == shown.c.item_id
        )
        return value.correlate(shown).scalar_subquery()
    if field in OWN_TEXTS:
        return shown.c[field]
    if field == REPETITION:
        return sa.cast(shown.c.repetition + 1, sa.Double)
    if field in MEASURES:
        record = target_record.c
        # As filters and cursors have numbers: a database may refuse one where it has whole ones.
        measured = sa.cast(record[field], sa.Double)
        value = sa.select(measured).where(record.id == shown.c.target_record_id)
    else:
        prefix = next(one for one in (SCORE, LABEL) if field.startswith(one))
        record = evaluator_record.c
        value = (
            sa.select(record.score if prefix == SCORE else record.label)
            .join(turn_score, turn_score.c.evaluator_record_id == record.id)
            .where(_is_score_of(shown, numbers), record.name == field.removeprefix(prefix))
        )
    # It needs its own aliases: the same tables may be joined around it.
    return value.correlate(shown).scalar_subquery()


def is_answered_by_sql(field: str) -> bool:
    """Whether the tables have the field as a column."""
    own = (*OWN_TEXTS, REPETITION, *MEASURES)
    return field in own or field.startswith((SCORE, LABEL))


def can_be_asked_in_sql(wanted: Filter) -> bool:
    """Whether databases can tell which rows pass the filter, and all say the same."""
    return all(
        is_answered_by_sql(condition.field) and condition.op is not Op.MATCHES
        for condition in fields_of(wanted)
    )


def matches(shown: sa.Subquery, wanted: Filter, numbers: Numbers = None) -> sa.ColumnElement[bool]:
    """The filter as a condition on shown turns; SQL's own NULL does what missing values should."""
    match wanted:
        case AllOf(parts):
            return sa.and_(sa.true(), *(matches(shown, part, numbers) for part in parts))
        case OneOf(parts):
            return sa.or_(sa.false(), *(matches(shown, part, numbers) for part in parts))
        case Not(part):
            return sa.not_(matches(shown, part, numbers))
        case Condition(field, op, value):
            compared = field_of(shown, field, numbers)
            found: sa.ColumnElement[bool] = _OPERATORS[op](compared, value)
            return found


_OPERATORS: Mapping[Op, Any] = {
    Op.EQUAL: lambda column, value: column == value,
    Op.NOT_EQUAL: lambda column, value: column != value,
    Op.LESS: lambda column, value: column < value,
    Op.AT_MOST: lambda column, value: column <= value,
    Op.MORE: lambda column, value: column > value,
    Op.AT_LEAST: lambda column, value: column >= value,
    # No value is in an empty list, and a missing value is neither in it nor not in it.
    Op.IN: lambda column, value: column.in_(value) if value else column != column,
    Op.NOT_IN: lambda column, value: column.not_in(value) if value else column == column,
    Op.CONTAINS: lambda column, value: _position(column, value) > 0,
    Op.NOT_CONTAINS: lambda column, value: _position(column, value) == 0,
    Op.IS_NULL: lambda column, value: column.is_(None),
    Op.NOT_NULL: lambda column, value: column.is_not(None),
}


class _position(sa.sql.functions.FunctionElement[int]):  # noqa: N801
    """Where a text is found in another, from 1; 0 where it is not."""

    type = sa.Integer()
    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any], value: str) -> None:
        super().__init__(column, sa.literal(value, sa.Text))


@compiles(_position, "sqlite")
@compiles(_position, "mysql")
def _position_by_instr(element: _position, compiler: SQLCompiler, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)})"


@compiles(_position, "postgresql")
def _position_on_postgresql(element: _position, compiler: SQLCompiler, **options: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **options)})"


def is_meant(numbers: Numbers) -> sa.ColumnElement[bool]:
    """Whether a score is one of these evaluators'."""
    return sa.true() if numbers is None else turn_score.c.evaluator_no.in_(sorted(numbers))


def _is_score_of(shown: sa.Subquery, numbers: Numbers) -> sa.ColumnElement[bool]:
    return sa.and_(
        *(
            turn_score.c[name] == shown.c[name]
            for name in ("run_id", "item_id", "repetition", "turn_no", "try_no")
        ),
        is_meant(numbers),
    )
