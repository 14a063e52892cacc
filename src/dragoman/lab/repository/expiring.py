"""What experiments that never end leave behind: ended runs, and items that came long ago."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import Experiment, ExperimentId, ItemId, RunId
from dragoman.lab.repository import removing
from dragoman.lab.repository.experiments import find_experiment
from dragoman.lab.repository.runs import find_run
from dragoman.lab.repository.statements import among, as_list, delete_many, update_many
from dragoman.lab.repository.tables import (
    annotation,
    dataset_item,
    evaluator_record,
    experiment,
    experiment_aggregate,
    item_result,
    item_run_log,
    run_log,
    target_record,
    turn_result,
    turn_run_log,
    turn_score,
)
from dragoman.lab.repository.usage import keep_usage_of_run
from dragoman.lab.states import ACTIVE, ENDED, ResultState, RunMode
from dragoman.store import StoreConnection

EXPERIMENTS_AT_ONCE = 100


def never_ending(connection: StoreConnection) -> list[ExperimentId]:
    """Experiments that run, or that start by themselves again."""
    active = [status.value for status in sorted(ACTIVE)]
    running = sa.select(run_log.c.experiment_id).where(run_log.c.status.in_(active))
    found = set(connection.execute(running).scalars())
    last_ms, last_id = 0, ""
    while some := connection.execute(
        _PLANNED, {"last_ms": last_ms, "last_id": last_id, "most": EXPERIMENTS_AT_ONCE}
    ).all():
        found |= {row.id for row in some}
        last_ms, last_id = some[-1].next_run_at_ms, some[-1].id
    return [ExperimentId(one) for one in sorted(found)]


_LAST_MS = sa.bindparam("last_ms", type_=sa.BigInteger)
_LAST_ID = sa.bindparam("last_id", type_=sa.String)
_PLANNED = (
    sa.select(experiment.c.id, experiment.c.next_run_at_ms)
    .where(
        experiment.c.next_run_at_ms >= _LAST_MS,
        sa.or_(experiment.c.next_run_at_ms > _LAST_MS, experiment.c.id > _LAST_ID),
    )
    .order_by(experiment.c.next_run_at_ms, experiment.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer))
)


# --- ended runs -----------------------------------------------------------------------------------


def old_runs(connection: StoreConnection, known: Experiment, before_ms: int) -> list[RunId]:
    """Runs that ended before then and of which users see nothing but that they were.

    The latest run stays, and so does one whose results the experiment shows.
    """
    ran = run_log.c
    ended = (
        sa.select(ran.id)
        .where(
            ran.experiment_id == known.experiment_id,
            ran.status.in_([status.value for status in sorted(ENDED)]),
            ran.ended_at_ms < before_ms,
            ran.id != (known.run_id or ""),
        )
        .order_by(ran.created_at_ms)
    )
    found = list(connection.execute(ended).scalars())
    if not found:
        return []
    shown = item_result.c
    of_results = sa.select(shown.run_id, shown.lineage).where(
        shown.experiment_id == known.experiment_id
    )
    kept: set[str] = set()
    for row in connection.execute(of_results.distinct()):
        # A result may reuse the outputs of an earlier run: its lineage begins with that run's id.
        kept |= {row.run_id, row.lineage.partition("/")[0]}
    return [RunId(one) for one in found if one not in kept]


def drop_run(connection: StoreConnection, experiment_id: ExperimentId, run_id: RunId) -> bool:
    """Take an ended run from users' sight; its rows are removed afterwards. False: it is gone.

    What it used up stays counted.
    """
    run = find_run(connection, run_id, lock=True)
    known = find_experiment(connection, experiment_id, lock=True)
    if run is None or known is None or run.status not in ENDED or known.run_id == run_id:
        return False
    keep_usage_of_run(connection, experiment_id, run_id)
    removing.begin(connection, removing.RemovedKind.RUN, run_id)
    connection.execute(sa.delete(run_log).where(run_log.c.id == run_id))
    connection.execute(
        sa.delete(experiment_aggregate).where(experiment_aggregate.c.run_id == run_id)
    )
    return True


# --- items that were added ------------------------------------------------------------------------


class SomeItems(msgspec.Struct, frozen=True):
    """Some of an experiment's own items, in their order: where they end, and which of them go."""

    last: ItemId
    old: list[ItemId]


def old_items(
    connection: StoreConnection, known: Experiment, before_ms: int, after: str, most: int
) -> SomeItems | None:
    """Look through the next of an experiment's own items; None after the last.

    Old is one whose results in the run that is open were all given before then.
    """
    own = dataset_item.c
    page = (
        sa.select(own.id)
        .where(own.experiment_id == known.experiment_id, own.id > after)
        .order_by(own.id)
        .limit(most)
    )
    ids = [ItemId(one) for one in connection.execute(page).scalars()]
    if not ids:
        return None
    run_id = known.run_id or RunId("")
    old = _done_before(connection, run_id, ids, before_ms)
    return SomeItems(ids[-1], [one for one in ids if one in old])


def _done_before(
    connection: StoreConnection, run_id: RunId, ids: Sequence[ItemId], before_ms: int
) -> set[str]:
    asked = {"run": run_id, "item_ids": as_list(ids)}
    given = connection.execute(_LAST_GIVEN, asked).all()
    under_way = set(connection.execute(_UNDER_WAY, asked).scalars())
    return {row.item_id for row in given if row.last_ms < before_ms} - under_way


_LAST_GIVEN = (
    sa.select(turn_run_log.c.item_id, sa.func.max(turn_run_log.c.logged_at_ms).label("last_ms"))
    .where(turn_run_log.c.run_id == sa.bindparam("run"), among(turn_run_log.c.item_id, "item_ids"))
    .group_by(turn_run_log.c.item_id)
)
_UNDER_WAY = sa.select(item_run_log.c.item_id).where(
    item_run_log.c.run_id == sa.bindparam("run"),
    among(item_run_log.c.item_id, "item_ids"),
    item_run_log.c.result_state != ResultState.RESULTED.value,
)


def takes_items(connection: StoreConnection, known: Experiment) -> bool:
    """Whether the experiment waits for items, all in one run that stays open."""
    if known.run_id is None or known.spec.cron is not None:
        return False
    run = find_run(connection, known.run_id)
    return run is not None and run.mode is RunMode.APPEND and run.status in ACTIVE


def remove_own_items(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    run_id: RunId,
    ids: Sequence[ItemId],
    before_ms: int,
) -> int:
    """Remove items with all that came of them; how many. One that is tried again stays.

    The run's row is locked, as by those who try items again.
    """
    run = find_run(connection, run_id, lock=True)
    if run is None:
        return 0
    old = sorted(_done_before(connection, run_id, ids, before_ms))
    if not old:
        return 0
    listed = as_list(old)
    ran = sa.select(run_log.c.id).where(run_log.c.experiment_id == experiment_id)
    for one in list(connection.execute(ran).scalars()):
        in_run = {"run": one, "item_ids": listed}
        for records, used in ((target_record, _OUTPUTS), (evaluator_record, _SCORES)):
            keys = connection.execute(used, in_run).scalars()
            gone = delete_many(records).where(among(records.c.id, "record_ids"))
            connection.execute(gone, {"record_ids": as_list(keys)})
        for table in (turn_score, turn_run_log, item_run_log):
            rows = delete_many(table).where(
                table.c.run_id == sa.bindparam("run"), among(table.c.item_id, "item_ids")
            )
            connection.execute(rows, in_run)
    remove_shown(connection, experiment_id, old)
    own = delete_many(dataset_item).where(
        dataset_item.c.experiment_id == sa.bindparam("experiment"),
        among(dataset_item.c.id, "item_ids"),
    )
    connection.execute(own, {"experiment": experiment_id, "item_ids": listed})
    return len(old)


def remove_shown(
    connection: StoreConnection, experiment_id: ExperimentId, ids: Sequence[str]
) -> None:
    """Remove what users see of some items; the mirror loses it too."""
    these = {"experiment": experiment_id, "item_ids": as_list(ids)}
    # The triggers note for the mirror that a turn changed, and not that one was removed.
    touched = update_many(turn_result).values(try_no=turn_result.c.try_no)
    connection.execute(touched.where(*_of_items(turn_result)), these)
    for table in (turn_result, item_result, annotation):
        connection.execute(delete_many(table).where(*_of_items(table)), these)


def _of_items(table: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        table.c.experiment_id == sa.bindparam("experiment"),
        among(table.c.item_id, "item_ids"),
    )


_OUTPUTS = (
    sa.select(turn_run_log.c.target_record_id)
    .where(
        turn_run_log.c.run_id == sa.bindparam("run"),
        among(turn_run_log.c.item_id, "item_ids"),
        turn_run_log.c.target_record_id.is_not(None),
    )
    .distinct()
)
_SCORES = (
    sa.select(turn_score.c.evaluator_record_id)
    .where(turn_score.c.run_id == sa.bindparam("run"), among(turn_score.c.item_id, "item_ids"))
    .distinct()
)
