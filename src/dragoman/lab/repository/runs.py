"""Stored runs: started, found, killed and ended, each step guarded by the run's own row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.model import EvaluatorSpec, ExperimentId, ItemId, Run, RunId
from dragoman.lab.owners import is_gone
from dragoman.lab.repository.statements import among, as_list, insert_new, now_ms
from dragoman.lab.repository.tables import (
    experiment,
    experiment_stats,
    lease,
    quota,
    run_log,
)
from dragoman.lab.states import ACTIVE, WORKING, RunMode, RunStatus, sources
from dragoman.store import StoreConnection

NEW_RUN_MS = 30_000
"""How long a program's new run may be without a driver before it counts as abandoned."""

_COLUMNS = [column for column in run_log.c if column.name not in ("fingerprints_json", "due_at_ms")]
"""Everything but what is read seldom: by those who compare runs, and after a clock was wrong."""

_RUN = sa.select(*_COLUMNS).where(run_log.c.id == sa.bindparam("run"))
_RUN_LOCKED = _RUN.with_for_update()


def lease_name(run_id: RunId) -> str:
    """The lease of the run's driver."""
    return f"run/{run_id}"


def insert_run(
    connection: StoreConnection,
    run: Run,
    fingerprints_json: str | None = None,
    due_ms: int | None = None,
) -> None:
    """Store a new run, and set its experiment to pending again.

    `fingerprints_json` says what the scores of its evaluators depend on, `due_ms` for which time
    it starts by itself.
    """
    connection.execute(
        sa.insert(run_log),
        {
            "id": run.run_id,
            "tenant": run.tenant,
            "experiment_id": run.experiment_id,
            "mode": run.mode.value,
            "status": run.status.value,
            "reason": run.reason,
            "item_ids_json": msgspec.json.encode(run.item_ids).decode(),
            "trial_items": run.trial_items,
            "start_cursor": run.start_cursor,
            "start_done": run.start_done,
            "item_count": run.items,
            "embedded": run.embedded,
            "evaluators_json": msgspec.json.encode(run.evaluators).decode(),
            "let_finish": run.let_finish,
            "fingerprints_json": fingerprints_json,
            "created_at_ms": run.created_at_ms,
            "started_at_ms": run.started_at_ms,
            "ended_at_ms": run.ended_at_ms,
            "due_at_ms": due_ms,
        },
    )
    connection.execute(
        sa.insert(experiment_stats),
        {
            "run_id": run.run_id,
            "experiment_id": run.experiment_id,
            "tenant": run.tenant,
            **dict.fromkeys(("queueing", "processing", "success", "fail", "terminated"), 0),
            "tokens": 0,
            "cost": 0.0,
        },
    )
    connection.execute(
        sa.update(experiment)
        .where(experiment.c.id == run.experiment_id)
        .values(
            run_id=run.run_id,
            status=run.status.value,
            reason=None,
            started_at_ms=None,
            ended_at_ms=None,
        )
    )


def find_run(connection: StoreConnection, run_id: RunId, *, lock: bool = False) -> Run | None:
    """The run; with `lock`, no other transaction changes it until this one ends."""
    row = connection.execute(_RUN_LOCKED if lock else _RUN, {"run": run_id}).first()
    return None if row is None else _run(row)


def fingerprints_of(connection: StoreConnection, run_id: RunId) -> str | None:
    """What the scores of a run depend on, as JSON; None of a run from before it was kept."""
    kept = sa.select(run_log.c.fingerprints_json).where(run_log.c.id == run_id)
    text: str | None = connection.execute(kept).scalar()
    return text


def runs_of(connection: StoreConnection, experiment_id: ExperimentId) -> list[Run]:
    """Every run of an experiment, the latest first."""
    rows = connection.execute(
        sa.select(*_COLUMNS)
        .where(run_log.c.experiment_id == experiment_id)
        .order_by(run_log.c.created_at_ms.desc(), run_log.c.id)
    )
    return [_run(row) for row in rows]


class Orphan(msgspec.Struct, frozen=True):
    """A run that has not ended and that no process drives."""

    run_id: RunId
    of_a_program: bool
    """Whether a program started it, whose functions may not be known here."""


def orphans(connection: StoreConnection, most: int) -> list[Orphan]:
    """Runs that have not ended and that no process drives: new ones, and those of a dead process.

    The new run of a program is left to it for as long as a lease lasts.
    """
    rows = connection.execute(
        sa.select(run_log.c.id, run_log.c.embedded, run_log.c.status, lease.c.owner)
        .select_from(_with_lease())
        .where(run_log.c.status.in_([status.value for status in sorted(ACTIVE)]))
        .where(sa.or_(_is_lapsed(), among(sa.func.coalesce(lease.c.owner, ""), "gone")))
        .order_by(run_log.c.created_at_ms)
        .limit(most),
        {"gone": as_list(_gone_drivers(connection))},
    )
    return [
        Orphan(
            RunId(row.id),
            of_a_program=bool(row.embedded) and row.status != RunStatus.TERMINATING.value,
        )
        for row in rows
    ]


def _with_lease() -> sa.FromClause:
    return run_log.outerjoin(lease, lease.c.name == sa.literal("run/") + run_log.c.id)


def _is_lapsed() -> sa.ColumnElement[bool]:
    """Whether no process drives the run now.

    A program takes the lease of its run a moment after it has started it.
    """
    undriven = sa.case(
        (run_log.c.embedded, run_log.c.created_at_ms + NEW_RUN_MS), else_=sa.literal(0)
    )
    return sa.func.coalesce(lease.c.expires_at, undriven) <= now_ms()


def _gone_drivers(connection: StoreConnection) -> list[str]:
    """Processes of this machine that drove runs and have ended."""
    owners = connection.execute(sa.select(lease.c.owner).distinct()).scalars()
    return [owner for owner in owners if is_gone(owner)]


def statuses_of(connection: StoreConnection, run_ids: Collection[RunId]) -> dict[RunId, RunStatus]:
    """How these runs stand."""
    rows = connection.execute(
        sa.select(run_log.c.id, run_log.c.status).where(run_log.c.id.in_(sorted(run_ids)))
    )
    return {RunId(row.id): RunStatus(row.status) for row in rows}


def working_runs(connection: StoreConnection) -> list[RunId]:
    """The runs whose items any worker may carry out, the oldest first."""
    rows = connection.execute(
        sa.select(run_log.c.id)
        .where(
            run_log.c.status.in_([status.value for status in sorted(WORKING)]),
            sa.not_(run_log.c.embedded),
        )
        .order_by(run_log.c.created_at_ms)
    )
    return [RunId(run_id) for run_id in rows.scalars()]


def count_active_by_status(connection: StoreConnection) -> dict[RunStatus, int]:
    """How many runs are in each state that is not an end, over all tenants.

    There are few of these; of ended runs there are as many as were ever made.
    """
    counted = (
        sa.select(run_log.c.status, sa.func.count().label("runs"))
        .where(run_log.c.status.in_([status.value for status in sorted(ACTIVE)]))
        .group_by(run_log.c.status)
    )
    return {RunStatus(row.status): row.runs for row in connection.execute(counted)}


def active_runs(connection: StoreConnection, tenant: TenantId) -> int:
    """How many runs of the tenant have not ended; blocks other starts until this is over."""
    nothing = {"tenant": tenant}
    connection.execute(insert_new(connection.dialect, quota), nothing)
    connection.execute(sa.select(quota.c.tenant).where(quota.c.tenant == tenant).with_for_update())
    return count_active(connection, tenant)


def count_active(connection: StoreConnection, tenant: TenantId) -> int:
    """How many runs of the tenant have not ended."""
    lapsed = sa.or_(_is_lapsed(), among(sa.func.coalesce(lease.c.owner, ""), "gone"))
    active = (
        sa.select(sa.func.count())
        .select_from(_with_lease())
        .where(
            run_log.c.status.in_([status.value for status in sorted(ACTIVE)]),
            run_log.c.tenant == tenant,
            # Runs of killed programs do not count.
            sa.not_(sa.and_(run_log.c.embedded, lapsed)),
        )
    )
    gone = {"gone": as_list(_gone_drivers(connection))}
    return int(connection.execute(active, gone).scalar_one())


def change_status(
    connection: StoreConnection,
    run: Run,
    status: RunStatus,
    *,
    at_ms: int,
    reason: str | None = None,
    stop_code: str | None = None,
    of_experiment: tuple[RunStatus, str | None] | None = None,
) -> bool:
    """Move the run and its experiment to another state; False when the table has no such step.

    `stop_code`: the code of the items that a run that is stopped does not come to.
    `of_experiment`: its status and reason where they are not those of its last run, which may
    have had only some of the items.
    """
    times: dict[str, Any] = {}
    if status is RunStatus.PROCESSING:
        times = {"started_at_ms": at_ms}
    elif status not in ACTIVE:
        times = {"ended_at_ms": at_ms}
    said: dict[str, str | None] = {} if reason is None else {"reason": reason}
    stepped = connection.execute(
        sa.update(run_log)
        .where(
            run_log.c.id == run.run_id,
            run_log.c.status.in_([source.value for source in sorted(sources(status))]),
        )
        .values(
            status=status.value,
            **times,
            **said,
            **({} if stop_code is None else {"stop_code": stop_code}),
        )
    )
    if stepped.rowcount == 0:
        return False
    if of_experiment is not None:
        said = {"reason": of_experiment[1]}
    shown = status if of_experiment is None else of_experiment[0]
    connection.execute(
        sa.update(experiment)
        .where(experiment.c.id == run.experiment_id, experiment.c.run_id == run.run_id)
        .values(status=shown.value, **times, **said)
    )
    return True


def set_let_finish(connection: StoreConnection, run_id: RunId, let_finish: bool) -> None:
    """Set whether workers may finish the items they hold when the run is terminated."""
    connection.execute(
        sa.update(run_log).where(run_log.c.id == run_id).values(let_finish=let_finish)
    )


def _run(row: sa.Row[Any]) -> Run:
    return Run(
        run_id=RunId(row.id),
        experiment_id=ExperimentId(row.experiment_id),
        tenant=TenantId(row.tenant),
        mode=RunMode(row.mode),
        status=RunStatus(row.status),
        reason=row.reason,
        item_ids=_item_ids(row.item_ids_json),
        trial_items=row.trial_items,
        start_cursor=row.start_cursor,
        start_done=row.start_done,
        items=row.item_count,
        embedded=row.embedded,
        created_at_ms=row.created_at_ms,
        started_at_ms=row.started_at_ms,
        ended_at_ms=row.ended_at_ms,
        let_finish=row.let_finish,
        stop_code=row.stop_code,
        evaluators=None
        if row.evaluators_json is None
        else msgspec.json.decode(row.evaluators_json, type=tuple[EvaluatorSpec, ...] | None),
    )


def _item_ids(text: str) -> tuple[ItemId, ...]:
    named: Sequence[str] = msgspec.json.decode(text, type=list[str])
    return tuple(ItemId(item_id) for item_id in named)
