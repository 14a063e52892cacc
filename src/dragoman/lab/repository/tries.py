"""Every try of an item: what the target answered each time, and what went wrong."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import Experiment, ItemId, ItemKey
from dragoman.lab.repository.datasets import known_items
from dragoman.lab.repository.tables import item_result, run_log, target_record, turn_run_log
from dragoman.store import StoreConnection

MOST_TRIES = 1_000


class Try(msgspec.Struct, frozen=True):
    """One try of a turn."""

    run_id: str
    mode: str
    """The mode of the run that made it."""
    turn: int
    number: int
    """The try's number in its run, from 1."""
    status: str
    error_code: str | None
    error_message: str | None
    latency_ms: float | None
    tokens: int | None
    cost: float | None
    cached: bool
    logged_at_ms: int


def find_key(
    connection: StoreConnection, experiment: Experiment, shown_id: str, repetition: int
) -> ItemKey | None:
    """The repetition of the item that users know by this id; None where there is no such row."""
    version_id = experiment.spec.dataset_version_id
    known = {} if version_id is None else known_items(connection, version_id, [shown_id])
    # An item that was invoked is in no version, and goes by its own id.
    key = ItemKey(known.get(shown_id, ItemId(shown_id)), repetition - 1)
    of = item_result.c
    there = sa.select(of.item_id).where(
        of.experiment_id == experiment.experiment_id,
        of.item_id == key.item_id,
        of.repetition == key.repetition,
    )
    return None if connection.execute(there).first() is None else key


def tries_of(connection: StoreConnection, experiment: Experiment, key: ItemKey) -> list[Try]:
    """The tries of one repetition of an item in every run, the latest first."""
    of, record = turn_run_log.c, target_record.c
    rows = connection.execute(
        sa.select(
            *(of.run_id, of.turn_no, of.try_no, of.status, of.error_code, of.error_message),
            *(of.logged_at_ms, run_log.c.mode),
            *(record.latency_ms, record.tokens, record.cost, record.cached),
        )
        .join(run_log, run_log.c.id == of.run_id)
        .outerjoin(target_record, record.id == of.target_record_id)
        .where(
            run_log.c.experiment_id == experiment.experiment_id,
            of.item_id == key.item_id,
            of.repetition == key.repetition,
        )
        .order_by(of.logged_at_ms.desc(), of.run_id, of.try_no.desc(), of.turn_no)
        .limit(MOST_TRIES)
    )
    return [
        Try(
            run_id=row.run_id,
            mode=row.mode,
            turn=row.turn_no,
            number=row.try_no,
            status=row.status,
            error_code=row.error_code,
            error_message=row.error_message,
            latency_ms=row.latency_ms,
            tokens=row.tokens,
            cost=row.cost,
            cached=bool(row.cached),
            logged_at_ms=row.logged_at_ms,
        )
        for row in rows
    ]
