"""Leases are renewed whatever else the database is asked by the same process."""

from __future__ import annotations

import asyncio
import time

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
from dragoman.store import Store, StoreConnection

READS_AT_ONCE = 4
"""As many as a store carries out at once."""

SLOW_SECONDS = 5.0


def read_slowly(connection: StoreConnection) -> None:
    """Keep one of the store's connections for long, but no processor: the machine stays quick."""
    if connection.dialect == "sqlite":  # read in a thread
        connection.execute(sa.text("SELECT count(*) FROM item_run_log")).all()
        time.sleep(SLOW_SECONDS)
    else:
        sleep = "pg_sleep" if connection.dialect == "postgresql" else "sleep"
        connection.execute(sa.text(f"SELECT {sleep}({SLOW_SECONDS})")).all()


def ends_of_leases(connection: StoreConnection) -> tuple[int, int]:
    """When the last lease on an item expires, and when the last lease on a run does."""
    of_items = "SELECT max(lease_expires_at) FROM item_run_log"
    of_runs = "SELECT max(expires_at) FROM lease"
    return (
        connection.execute(sa.text(of_items)).scalar_one(),
        connection.execute(sa.text(of_runs)).scalar_one(),
    )


async def keep_reading(store: Store, enough: asyncio.Event) -> None:
    while not enough.is_set():
        await store.read(read_slowly)


def test_slow_reads_do_not_cost_a_lease(database_url: str, calls: str) -> None:
    """Neither the leases of the items, which their worker holds, nor the driver's on the run."""

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
            first = await at.store.write(ends_of_leases)
            lease_ms = HELD.lease_seconds * 1000

            async def renewed_for_long() -> bool:
                now = await at.store.write(ends_of_leases)
                return all(
                    later > before + 2 * lease_ms for before, later in zip(first, now, strict=True)
                )

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
