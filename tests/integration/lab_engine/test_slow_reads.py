"""Leases are renewed whatever else the database is asked by the same process."""

from __future__ import annotations

import asyncio
import time

import pytest
import sqlalchemy as sa
from tests.integration.lab_engine.laboratory import (
    HELD,
    TENANT,
    add_items,
    experiment,
    laboratory,
    until,
)
from tests.integration.lab_engine.targets import noted, touch

from dragoman.lab.model import JsonValue
from dragoman.lab.states import RunStatus
from dragoman.store import Connection, Store

READS_AT_ONCE = 4
"""As many as a store carries out at once."""

SLOW_SECONDS = 5.0


def read_slowly(connection: Connection) -> None:
    """Keep one of the store's connections for long, but no processor: the machine stays quick."""
    if connection.dialect == "sqlite":  # read in a thread
        connection.execute(sa.text("SELECT count(*) FROM item_run_log")).all()
        time.sleep(SLOW_SECONDS)
    else:
        sleep = "pg_sleep" if connection.dialect == "postgresql" else "sleep"
        connection.execute(sa.text(f"SELECT {sleep}({SLOW_SECONDS})")).all()


async def keep_reading(store: Store, enough: asyncio.Event) -> None:
    while not enough.is_set():
        await store.read(read_slowly)


@pytest.mark.parametrize("column", ["item_run_log", "lease"])
def test_slow_reads_do_not_cost_a_lease(database_url: str, calls: str, column: str) -> None:
    expires = {
        "item_run_log": "SELECT max(lease_expires_at) FROM item_run_log",
        "lease": "SELECT max(expires_at) FROM lease",
    }[column]

    async def story() -> None:
        async with laboratory(database_url, HELD) as at:
            case: dict[str, JsonValue] = {"key": "k", "calls": calls, "hold": True}
            version, _ = await add_items(at.store, [[case]] * 4)
            spec = experiment(version, "answer_unless_held", {"good": "judge_unless_held"})
            _, started = await at.lab.experiments.submit(TENANT, spec)
            await until(lambda: _judging(calls))

            enough = asyncio.Event()
            reads = [
                asyncio.create_task(keep_reading(at.store, enough)) for _ in range(READS_AT_ONCE)
            ]
            # By writes, which the slow reads do not hold up either.
            first = await at.store.write(lambda c: c.execute(sa.text(expires)).scalar_one())
            lease_ms = HELD.lease_seconds * 1000

            async def renewed_for_long() -> bool:
                now = await at.store.write(lambda c: c.execute(sa.text(expires)).scalar_one())
                return now is None or now > first + 2 * lease_ms

            await until(renewed_for_long)
            touch(f"{calls}.released")
            enough.set()
            await asyncio.gather(*reads)
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            assert await at.rows("SELECT DISTINCT status, try_no FROM item_run_log") == [
                ("success", 1)
            ]
            assert at.metrics.lab_zombies._value.get() == 0

    asyncio.run(story())


async def _judging(calls: str) -> bool:
    return noted(calls).count("judge/k") == READS_AT_ONCE
