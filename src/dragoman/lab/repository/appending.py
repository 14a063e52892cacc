"""Experiments that get items while they run, and those that start by themselves."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.model import ExperimentId, ExperimentSpec, Item, ItemId, Run
from dragoman.lab.repository.spans import Span
from dragoman.lab.repository.starting import Selection, add_rows
from dragoman.lab.repository.statements import among, as_list
from dragoman.lab.repository.tables import dataset_item, experiment, item_result, run_log
from dragoman.lab.states import ENDED
from dragoman.store import StoreConnection

_NEW_ITEMS = sa.insert(dataset_item)


def insert_own_items(
    connection: StoreConnection,
    tenant: TenantId,
    experiment_id: ExperimentId,
    items: Sequence[Item],
) -> None:
    """Store items of an experiment's own, which are in no dataset version."""
    connection.insert(
        _NEW_ITEMS,
        [
            (
                item.item_id,
                tenant,
                None,
                experiment_id,
                len(item.turns),
                msgspec.json.encode(item.turns).decode(),
                item.content_id,
            )
            for item in items
        ],
    )


def add_to_run(
    connection: StoreConnection, run: Run, wanted: Selection, ids: Sequence[ItemId]
) -> None:
    """Queue new items in a run whose row is locked, so that it cannot end before them."""
    named = tuple(ids)
    selection = msgspec.structs.replace(wanted, named=named)
    made = add_rows(connection, run, selection, Span("", "", named))
    connection.execute(
        sa.update(run_log)
        .where(run_log.c.id == run.run_id)
        .values(item_count=run_log.c.item_count + made)
    )


def known_own_items(
    connection: StoreConnection, experiment_id: ExperimentId, shown_ids: Sequence[str]
) -> dict[str, ItemId]:
    """Those of these ids that are items of the experiment's own."""
    rows = connection.execute(
        sa.select(dataset_item.c.id).where(
            among(dataset_item.c.id, "item_ids", as_list(shown_ids)),
            dataset_item.c.experiment_id == experiment_id,
        )
    )
    return {item_id: ItemId(item_id) for item_id in rows.scalars()}


def has_own_items(connection: StoreConnection, experiment_id: ExperimentId) -> bool:
    """Whether the experiment has items of its own."""
    one = sa.select(dataset_item.c.id).where(dataset_item.c.experiment_id == experiment_id).limit(1)
    return connection.execute(one).first() is not None


def has_waiting_items(connection: StoreConnection, experiment_id: ExperimentId) -> bool:
    """Whether the experiment has items of its own that no run has taken yet."""
    own, shown = dataset_item.c, item_result.c
    taken = sa.exists().where(
        shown.experiment_id == experiment_id, shown.item_id == own.id, shown.repetition == 0
    )
    newest_first = (
        sa.select(own.id)
        .where(own.experiment_id == experiment_id, ~taken)
        .order_by(own.id.desc())
        .limit(1)
    )
    return connection.execute(newest_first).first() is not None


# --- experiments that start by themselves ---------------------------------------------------------


class DueStart(msgspec.Struct, frozen=True):
    """An experiment whose time has come."""

    experiment_id: ExperimentId
    tenant: TenantId
    due_ms: int


def due_starts(connection: StoreConnection, now_ms: int, most: int) -> list[DueStart]:
    """Experiments whose time has come and that do not run, the longest due first."""
    rows = connection.execute(
        sa.select(experiment.c.id, experiment.c.tenant, experiment.c.next_run_at_ms)
        .where(
            experiment.c.next_run_at_ms <= now_ms,
            experiment.c.status.in_([status.value for status in sorted(ENDED)]),
        )
        .order_by(experiment.c.next_run_at_ms)
        .limit(most)
    )
    return [
        DueStart(ExperimentId(row.id), TenantId(row.tenant), row.next_run_at_ms) for row in rows
    ]


class PlannedStart(msgspec.Struct, frozen=True):
    """An experiment whose next time is still to come."""

    experiment_id: ExperimentId
    tenant: TenantId
    next_ms: int
    spec: ExperimentSpec


def planned_starts(
    connection: StoreConnection, after_ms: int, last: PlannedStart | None, most: int
) -> list[PlannedStart]:
    """Experiments whose next time is later than this, the soonest first, after the last one."""
    planned = experiment.c
    asked = sa.select(planned.id, planned.tenant, planned.next_run_at_ms, planned.spec_json)
    asked = asked.where(planned.next_run_at_ms > after_ms)
    if last is not None:
        asked = asked.where(
            planned.next_run_at_ms >= last.next_ms,
            sa.or_(
                planned.next_run_at_ms > last.next_ms,
                sa.and_(planned.next_run_at_ms == last.next_ms, planned.id > last.experiment_id),
            ),
        )
    rows = connection.execute(asked.order_by(planned.next_run_at_ms, planned.id).limit(most))
    return [
        PlannedStart(
            ExperimentId(row.id),
            TenantId(row.tenant),
            row.next_run_at_ms,
            msgspec.json.decode(row.spec_json, type=ExperimentSpec),
        )
        for row in rows
    ]


def started_times(
    connection: StoreConnection, experiment_id: ExperimentId, after_ms: int
) -> set[int]:
    """The times later than this for which the experiment has started by itself already."""
    started = run_log.c
    times = sa.select(started.due_at_ms).where(
        started.experiment_id == experiment_id, started.due_at_ms > after_ms
    )
    return set(connection.execute(times).scalars())


def pass_time(connection: StoreConnection, due: DueStart, next_ms: int) -> bool:
    """Move an experiment to its next time; False when another process has done it.

    Each time is passed once, whatever the clocks of the processes say: this one write decides.
    """
    passed = connection.execute(
        sa.update(experiment)
        .where(
            experiment.c.id == due.experiment_id,
            experiment.c.next_run_at_ms == due.due_ms,
        )
        .values(next_run_at_ms=next_ms)
    )
    return passed.rowcount == 1


def set_next_run(
    connection: StoreConnection, experiment_id: ExperimentId, at_ms: int | None
) -> None:
    """Set when the experiment starts by itself; None: not any more."""
    connection.execute(
        sa.update(experiment).where(experiment.c.id == experiment_id).values(next_run_at_ms=at_ms)
    )


def set_reason(connection: StoreConnection, experiment_id: ExperimentId, reason: str) -> None:
    """Tell users why an experiment did not start."""
    connection.execute(
        sa.update(experiment).where(experiment.c.id == experiment_id).values(reason=reason)
    )
