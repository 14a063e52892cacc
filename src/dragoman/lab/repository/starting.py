"""The start of a run: its rows, made inside the database, a page at a time."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import ItemId, Run, VersionId
from dragoman.lab.repository.records import first_output_id, lineage_from
from dragoman.lab.repository.showing import show_queued
from dragoman.lab.repository.spans import Span
from dragoman.lab.repository.statements import insert_new, numbers_below
from dragoman.lab.repository.tables import (
    dataset_item,
    item_result,
    item_run_log,
    run_log,
    target_record,
)
from dragoman.lab.states import ItemStatus, ResultState
from dragoman.store import StoreConnection

FIRST_TRY = 1

_COLUMNS = [
    *("run_id", "item_id", "repetition", "status", "result_state", "try_no", "first_try_no"),
    *("archived_try_no", "lineage", "lease_token"),
]


class Selection(msgspec.Struct, frozen=True):
    """Which items a run takes, of those that its experiment has."""

    version_id: VersionId | None
    unfinished_only: bool = False
    """Leave out items that succeeded before, and reuse what the others left."""
    named: tuple[ItemId, ...] | None = None
    """Only these; None: all."""
    most: int | None = None
    """No more than this many; None: no limit."""
    repetitions: int = 1
    """How often each of them is tried."""
    with_outputs: bool = False
    """Only repetitions whose first turn has an output, which is reused."""


def start_page(connection: StoreConnection, run: Run, selection: Selection, size: int) -> bool:
    """Make the rows of the next page of items, about `size`; True when the start is done.

    How far it got is stored with the rows, so that any process can go on from there.
    """
    here = connection.execute(_POSITION, {"run_id": run.run_id}).one()
    if here.start_done:
        return True
    room = max(1, size // selection.repetitions)
    if selection.most is not None:
        room = min(room, selection.most - here.item_count // selection.repetitions)
    span = _next_span(connection, run, selection, here.start_cursor, room)
    made = add_rows(connection, run, selection, span) if span is not None else 0
    done = span is None
    connection.execute(
        sa.update(run_log)
        .where(run_log.c.id == run.run_id)
        .values(
            start_cursor=here.start_cursor if span is None else span.last,
            start_done=done,
            item_count=run_log.c.item_count + made,
        )
    )
    return done


def add_rows(connection: StoreConnection, run: Run, selection: Selection, span: Span) -> int:
    """Queue the items of the span that the run does not have yet; how many there were."""
    made = 0
    for source in _sources(run, selection):
        chosen = _chosen(run, selection, source, counted=connection.dialect == "mysql").where(
            *span.covers(dataset_item.c.id)
        )
        insert = insert_new(connection.dialect, item_run_log, _COLUMNS, chosen)
        made += connection.execute(insert).rowcount
    if made:
        show_queued(connection, run, span)
    return made


def _sources(run: Run, selection: Selection) -> list[sa.ColumnElement[bool]]:
    """Where a run's items come from: the dataset's version, and items added to the experiment.

    Each has an index, which one condition for both would not use. The first so many items are those
    of the dataset.
    """
    own = dataset_item.c.experiment_id == run.experiment_id
    if selection.version_id is None:
        return [own]
    of_version = dataset_item.c.version_id == selection.version_id
    return [of_version] if selection.most is not None else [of_version, own]


_POSITION = (
    sa.select(run_log.c.start_cursor, run_log.c.start_done, run_log.c.item_count)
    .where(run_log.c.id == sa.bindparam("run_id"))
    .with_for_update()
)
"""Locked first, as by items that join the run: both make rows, and each counts its own."""


def _next_span(
    connection: StoreConnection, run: Run, selection: Selection, cursor: str, size: int
) -> Span | None:
    """The next items to look at, taken or not; None after the last."""
    if size <= 0:
        return None
    if selection.named is not None:
        ahead = sorted(item_id for item_id in selection.named if item_id > cursor)[:size]
        return Span(cursor, ahead[-1], tuple(ahead)) if ahead else None
    lasts = []
    for source in _sources(run, selection):
        ids = (
            sa.select(dataset_item.c.id)
            .where(source, dataset_item.c.id > cursor)
            .order_by(dataset_item.c.id)
            .limit(size)
            .subquery()
        )
        lasts.append(connection.execute(sa.select(sa.func.max(ids.c.id))).scalar())
    # Up to the nearest, so that there are no more than so many of each source.
    last = min((one for one in lasts if one is not None), default=None)
    return None if last is None else Span(cursor, last)


def _chosen(
    run: Run, selection: Selection, source_of: sa.ColumnElement[bool], *, counted: bool
) -> sa.Select[tuple[object, ...]]:
    """The rows to make; with `counted`, without those that are there already.

    An INSERT of MySQL says of a row that is there already that it made it.
    """
    lineage: sa.ColumnElement[str] = sa.literal(lineage_from(run.run_id, FIRST_TRY))
    source: sa.FromClause = dataset_item
    repetition: sa.ColumnElement[int] = sa.literal(0)
    if selection.repetitions > 1:
        repeated = numbers_below(selection.repetitions)
        source = source.join(repeated, sa.true())
        repetition = repeated.c.number
    wanted = [source_of]
    if counted:
        there = item_run_log.alias("there").c
        same = (there.item_id == dataset_item.c.id, there.repetition == repetition)
        wanted.append(~sa.exists().where(there.run_id == run.run_id, *same))
    earlier = sa.and_(
        item_result.c.experiment_id == run.experiment_id,
        item_result.c.item_id == dataset_item.c.id,
        item_result.c.repetition == repetition,
    )
    if selection.unfinished_only:
        source = source.outerjoin(item_result, earlier)
        lineage = sa.func.coalesce(item_result.c.lineage, lineage)
        wanted.append(sa.func.coalesce(item_result.c.status, "") != ItemStatus.SUCCESS)
    elif selection.with_outputs:
        source = source.join(item_result, earlier)
        lineage = item_result.c.lineage
        first = first_output_id(lineage, item_result.c.item_id, item_result.c.repetition)
        wanted.append(sa.exists().where(target_record.c.id == first))
    return (
        sa.select(
            sa.literal(run.run_id),
            dataset_item.c.id,
            repetition,
            sa.literal(ItemStatus.QUEUEING.value),
            sa.literal(ResultState.INIT.value),
            sa.literal(FIRST_TRY),
            sa.literal(FIRST_TRY),
            sa.literal(0),
            lineage,
            sa.literal(0),
        )
        .select_from(source)
        .where(*wanted)
    )
