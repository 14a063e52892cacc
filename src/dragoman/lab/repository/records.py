"""Stored outputs and scores: their ids say where a result belongs, so that it is made only once."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import ItemKey, RecordId, RunId


def lineage_from(run_id: RunId, try_no: int) -> str:
    """The line of results that begins with this try: later tries may reuse what is in it."""
    return f"{run_id}/{try_no}"


def target_record_id(lineage: str, key: ItemKey, turn_no: int) -> RecordId:
    """The one output of a turn in a line of results."""
    return RecordId(f"{lineage}/{_named(key)}/{turn_no}")


def first_output_id(
    lineage: sa.ColumnElement[str], item_id: sa.ColumnElement[str], repetition: sa.Column[int]
) -> sa.ColumnElement[str]:
    """The id of the output of an item's first turn, as SQL."""
    number = sa.literal("#") + sa.cast(repetition, sa.String(10))
    named = item_id + sa.case((repetition == 0, sa.literal("")), else_=number)
    return lineage + sa.literal("/") + named + sa.literal("/0")


def evaluator_record_id(lineage: str, key: ItemKey, turn_no: int, evaluator_no: int) -> RecordId:
    """The one score that an evaluator gave to that output."""
    return RecordId(f"{lineage}/{_named(key)}/{turn_no}/{evaluator_no}")


def failure_record_id(
    run_id: RunId, key: ItemKey, turn_no: int, evaluator_no: int, try_no: int
) -> RecordId:
    """A failure of an evaluator: there may be one in every try, and none is ever reused."""
    return RecordId(f"{run_id}/{_named(key)}/{turn_no}/{evaluator_no}/{try_no}")


def statistics_of(text: str | None) -> tuple[float, ...] | None:
    """The statistics of a stored score."""
    return None if text is None else msgspec.json.decode(text, type=tuple[float, ...])


def _named(key: ItemKey) -> str:
    """The first repetition goes by the item alone, as everything did before there were others."""
    return f"{key.item_id}#{key.repetition}" if key.repetition else key.item_id
