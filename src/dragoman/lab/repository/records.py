"""Stored outputs and scores: their ids say where a result belongs, so that it is made only once."""

from __future__ import annotations

import msgspec

from dragoman.lab.model import ItemId, RecordId, RunId


def lineage_from(run_id: RunId, try_no: int) -> str:
    """The line of results that begins with this try: later tries may reuse what is in it."""
    return f"{run_id}/{try_no}"


def target_record_id(lineage: str, item_id: ItemId, turn_no: int) -> RecordId:
    """The one output of a turn in a line of results."""
    return RecordId(f"{lineage}/{item_id}/{turn_no}")


def evaluator_record_id(lineage: str, item_id: ItemId, turn_no: int, evaluator_no: int) -> RecordId:
    """The one score that an evaluator gave to that output."""
    return RecordId(f"{lineage}/{item_id}/{turn_no}/{evaluator_no}")


def failure_record_id(
    run_id: RunId, item_id: ItemId, turn_no: int, evaluator_no: int, try_no: int
) -> RecordId:
    """A failure of an evaluator: there may be one in every try, and none is ever reused."""
    return RecordId(f"{run_id}/{item_id}/{turn_no}/{evaluator_no}/{try_no}")


def statistics_of(text: str | None) -> tuple[float, ...] | None:
    """The statistics of a stored score."""
    return None if text is None else msgspec.json.decode(text, type=tuple[float, ...])
