"""The processes that work on items or drive runs, as they last said of themselves."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.model import ExperimentId, RunId
from dragoman.lab.repository.statements import insert_or_update, now_ms, read_now_ms
from dragoman.lab.repository.tables import worker
from dragoman.store import StoreConnection

FORGET_AFTER_MS = 600_000
"""How long a process that went silent is still shown."""


class RunAtWork(msgspec.Struct, frozen=True):
    """What a process does for one run."""

    run_id: RunId
    experiment_id: ExperimentId
    tenant: TenantId
    items: int
    """In progress now."""
    since_ms: int
    """When the oldest of them was begun."""


_doing = msgspec.json.Decoder(tuple[RunAtWork, ...])


class Working(msgspec.Struct, frozen=True):
    """What a process says of itself."""

    owner: str
    """The name under which it holds leases."""
    host: str
    pid: int
    version: str
    schedules: bool
    """Whether it drives runs."""
    mirror: str
    """The kind of columnar copy it keeps or reads; empty: none."""
    is_draining: bool
    """Whether it takes nothing more, and ends when what it has is done."""
    capacity: int
    """Items it works on at once; 0: it only drives runs."""
    items_done: int
    items_per_second: float
    """Lately."""
    doing: tuple[RunAtWork, ...]
    started_at_ms: int


class SeenWorker(msgspec.Struct, frozen=True):
    """A process, and when it last reported."""

    working: Working
    seen_at_ms: int
    silent_ms: int
    """Since then, by the database's clock."""


def report(connection: StoreConnection, said: Working) -> None:
    """Store what a process says of itself; those that went silent long ago are forgotten."""
    row = msgspec.structs.asdict(said)
    row["doing_json"] = msgspec.json.encode(row.pop("doing")).decode()
    row["seen_at_ms"] = read_now_ms(connection)
    changing = [name for name in row if name != "owner"]
    statement = insert_or_update(connection.dialect, worker, ["owner"], changing)
    connection.execute(statement, row)
    connection.execute(sa.delete(worker).where(worker.c.seen_at_ms < now_ms() - FORGET_AFTER_MS))


def forget(connection: StoreConnection, owner: str) -> None:
    """Remove a process that ends in order."""
    connection.execute(sa.delete(worker).where(worker.c.owner == owner))


def seen(connection: StoreConnection) -> list[SeenWorker]:
    """Every process that reported lately, the oldest first."""
    silent = (now_ms() - worker.c.seen_at_ms).label("silent_ms")
    rows = connection.execute(
        sa.select(worker, silent)
        .where(worker.c.seen_at_ms >= now_ms() - FORGET_AFTER_MS)
        .order_by(worker.c.started_at_ms, worker.c.owner)
    )
    return [
        SeenWorker(
            Working(
                owner=row.owner,
                host=row.host,
                pid=row.pid,
                version=row.version,
                schedules=bool(row.schedules),
                mirror=row.mirror,
                is_draining=bool(row.is_draining),
                capacity=row.capacity,
                items_done=row.items_done,
                items_per_second=row.items_per_second,
                doing=_doing.decode(row.doing_json),
                started_at_ms=row.started_at_ms,
            ),
            row.seen_at_ms,
            max(0, int(row.silent_ms)),
        )
        for row in rows
    ]
