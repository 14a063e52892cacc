"""The end of a run, and items that join it before that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import ExperimentId, ItemId, ItemKey, Run, RunId, ScoreSummary, Stats
from dragoman.lab.repository.aggregates import Aggregates
from dragoman.lab.repository.archiving import Logged, archive
from dragoman.lab.repository.runs import change_status, find_run
from dragoman.lab.repository.showing import show_queued
from dragoman.lab.repository.spans import Span
from dragoman.lab.repository.starting import Selection, add_rows
from dragoman.lab.repository.statements import (
    among,
    among_keys,
    as_keys,
    as_list,
    insert_new,
    update_many,
)
from dragoman.lab.repository.tables import (
    experiment_aggregate,
    experiment_stats,
    item_result,
    item_run_log,
    run_log,
)
from dragoman.lab.states import (
    ENDED,
    WORKING,
    ItemStatus,
    ResultState,
    RunMode,
    RunStatus,
)
from dragoman.store import StoreConnection

_log = item_run_log.c

_WHOLE = (RunMode.SUBMIT, RunMode.RETRY_ALL)
"""Modes whose runs take every item."""


def join(connection: StoreConnection, run_id: RunId, wanted: Selection) -> bool:
    """Make a run try those of the named items again that have ended; False when the run has ended.

    Every repetition of an item that has ended is tried again.

    The run's row is locked: either the end of the run comes first, and nothing is joined, or the
    items do, and the end has to wait for them.
    """
    run = find_run(connection, run_id, lock=True)
    if run is None or run.status not in WORKING | {RunStatus.PENDING}:
        return False
    named = wanted.named or ()
    _try_again(connection, run, named)
    ahead = not run.start_done and run.mode in _WHOLE
    present = tuple(item for item in named if not (ahead and item > run.start_cursor))
    add_rows(connection, run, msgspec.structs.replace(wanted, named=present), Span("", "", present))
    return True


def _try_again(connection: StoreConnection, run: Run, item_ids: Sequence[ItemId]) -> None:
    ended = connection.execute(
        sa.select(_log.item_id, _log.repetition, _log.status, _log.result_state)
        .where(
            _log.run_id == run.run_id,
            among(_log.item_id, "item_ids"),
            _log.result_state != ResultState.INIT.value,
        )
        .order_by(_log.item_id, _log.repetition)
        .with_for_update(),
        {"item_ids": as_list(item_ids)},
    ).all()
    # Logged results are moved first: a finished try is never lost.
    archive(
        connection,
        run,
        [
            Logged(ItemId(row.item_id), ItemStatus(row.status), row.repetition)
            for row in ended
            if row.result_state == ResultState.LOGGED
        ],
    )
    again = tuple(ItemKey(ItemId(row.item_id), row.repetition) for row in ended)
    if not again:
        return
    these = {"run": run.run_id, "keys": as_keys(again)}
    for statement in _TRY_AGAIN:
        connection.execute(statement, these)
    show_queued(connection, run, Span("", "", tuple({key.item_id for key in again})))


_AGAIN = update_many(item_run_log).where(
    _log.run_id == sa.bindparam("run"), among_keys(_log.item_id, _log.repetition, "keys")
)
_TRY_AGAIN = (
    _AGAIN.values(
        status=ItemStatus.QUEUEING.value,
        result_state=ResultState.INIT.value,
        try_no=_log.try_no + 1,
        lease_token=_log.lease_token + 1,
        lease_owner=None,
        lease_expires_at=None,
    ),
    # By itself: to some databases `try_no` is the new number within one statement, to some the old.
    # A new lineage, so that results of earlier tries are not reused.
    _AGAIN.values(
        first_try_no=_log.try_no,
        lineage=_log.run_id + sa.literal("/") + sa.cast(_log.try_no, sa.String(10)),
    ),
)


def unfinished(connection: StoreConnection, run_id: RunId) -> bool:
    """Whether the run has items that are not archived."""
    for state in (ResultState.INIT, ResultState.LOGGED):
        row = sa.select(_log.item_id).where(_log.run_id == run_id, _log.result_state == state.value)
        if connection.execute(row.limit(1)).first() is not None:
            return True
    return False


def end(
    connection: StoreConnection, run_id: RunId, at_ms: int, *, stays_open: bool = False
) -> RunStatus | None:
    """End the run if all its items are archived; the state it ended in, None if it goes on.

    One that stays open ends only when it was told to finish, or is stopped.
    """
    run = find_run(connection, run_id, lock=True)
    if run is None or run.status not in WORKING | {RunStatus.TERMINATING}:
        return None
    if stays_open and run.status is RunStatus.PROCESSING:
        return None
    killed = run.status is RunStatus.TERMINATING
    if not (run.start_done or killed) or unfinished(connection, run_id):
        return None
    counts = keep_counts(connection, run_id)
    if killed:
        change_status(connection, run, RunStatus.TERMINATED, at_ms=at_ms)
        return RunStatus.TERMINATED
    status, reason = judged(counts)
    of_experiment = judged(item_counts(connection, run.experiment_id))
    change_status(connection, run, status, at_ms=at_ms, reason=reason, of_experiment=of_experiment)
    return status


def keep_counts(connection: StoreConnection, run_id: RunId) -> dict[ItemStatus, int]:
    """Count the items of a run that is about to end, and keep the numbers."""
    counts = run_counts(connection, run_id)
    connection.execute(
        sa.update(experiment_stats)
        .where(experiment_stats.c.run_id == run_id)
        .values(**{status.value: counts.get(status, 0) for status in ItemStatus})
    )
    return counts


def keep_aggregates(connection: StoreConnection, run: Run, found: Aggregates) -> None:
    """Keep the experiment's aggregates as they were when the run ended, unless it was deleted."""
    there = sa.select(run_log.c.id).where(run_log.c.id == run.run_id).with_for_update(read=True)
    if connection.execute(there).scalar() is None:
        return
    row = {
        "run_id": run.run_id,
        "experiment_id": run.experiment_id,
        "tenant": run.tenant,
        "aggregates_json": msgspec.json.encode(found).decode(),
    }
    connection.execute(insert_new(connection.dialect, experiment_aggregate), row)


class _Kept(msgspec.Struct, frozen=True):
    """What is read again of kept aggregates."""

    scores: dict[str, ScoreSummary]


def kept_scores(
    connection: StoreConnection, run_ids: Iterable[RunId]
) -> dict[RunId, dict[str, ScoreSummary]]:
    """The scores that `keep_aggregates` kept at the end of these runs; others are left out."""
    kept = experiment_aggregate.c
    rows = connection.execute(
        sa.select(kept.run_id, kept.aggregates_json).where(
            among(kept.run_id, "run_ids", as_list(run_ids))
        )
    )
    return {
        RunId(row.run_id): msgspec.json.decode(row.aggregates_json, type=_Kept).scores
        for row in rows
    }


def judged(counts: dict[ItemStatus, int]) -> tuple[RunStatus, str | None]:
    """Success when an item succeeded or there are none; failed when no item succeeded."""
    if counts.get(ItemStatus.SUCCESS, 0) or not sum(counts.values()):
        return RunStatus.SUCCESS, None
    return RunStatus.FAILED, "No item succeeded; the rows say why."


def run_counts(connection: StoreConnection, run_id: RunId) -> dict[ItemStatus, int]:
    """How many items of the run are in each state."""
    return _counts(connection, _log.status, _log.run_id == run_id)


def item_counts(connection: StoreConnection, experiment_id: ExperimentId) -> dict[ItemStatus, int]:
    """How many items of the experiment are in each state, as users see them."""
    shown = item_result.c
    return _counts(connection, shown.status, shown.experiment_id == experiment_id)


def run_stats(connection: StoreConnection, run: Run) -> Stats:
    """A run's progress and usage; those of an ended run are stored, not counted again."""
    if run.status in ENDED:
        counts = _kept_counts(connection, run.run_id)
    else:
        counts = run_counts(connection, run.run_id)
    return _stats(connection, counts, experiment_stats.c.run_id == run.run_id)


def experiment_totals(
    connection: StoreConnection, experiment_id: ExperimentId, latest: Run | None = None
) -> Stats:
    """The states of an experiment's items and the usage of all its runs.

    Where its latest run is given and came to every item, the run's own counts are the experiment's:
    a list of experiments that are over counts no items.
    """
    if (
        latest is not None
        and latest.status in ENDED
        and latest.start_done
        and latest.mode in _WHOLE
    ):
        counts = _kept_counts(connection, latest.run_id)
    else:
        counts = item_counts(connection, experiment_id)
    return _stats(connection, counts, experiment_stats.c.experiment_id == experiment_id)


def _kept_counts(connection: StoreConnection, run_id: RunId) -> dict[ItemStatus, int]:
    """What `keep_counts` counted at the end of the run."""
    kept = sa.select(experiment_stats).where(experiment_stats.c.run_id == run_id)
    row = connection.execute(kept).one()
    return {status: getattr(row, status.value) for status in ItemStatus}


def _counts(
    connection: StoreConnection, status: sa.Column[str], condition: sa.ColumnElement[bool]
) -> dict[ItemStatus, int]:
    counted = sa.select(status.label("status"), sa.func.count().label("number"))
    rows = connection.execute(counted.where(condition).group_by(status))
    return {ItemStatus(row.status): row.number for row in rows}


def _stats(
    connection: StoreConnection, counts: dict[ItemStatus, int], used: sa.ColumnElement[bool]
) -> Stats:
    spent = connection.execute(
        sa.select(
            sa.func.coalesce(sa.func.sum(experiment_stats.c.tokens), 0).label("tokens"),
            sa.func.coalesce(sa.func.sum(experiment_stats.c.cost), 0.0).label("cost"),
        ).where(used)
    ).one()
    return Stats(
        **{status.value: count for status, count in counts.items()},
        tokens=int(spent.tokens),
        cost=float(spent.cost),
    )
