"""Usage in the database: the totals of every process, added up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.servers import DATABASES, fresh_database

from dragoman.ids import TenantId
from dragoman.store import open_store, upgrade
from dragoman.usage import DayUsage, UsageStore

RED, BLUE = TenantId("red"), TenantId("blue")
MONDAY, TUESDAY = "2026-11-16", "2026-11-17"


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = fresh_database(request.param, request, tmp_path)
    upgrade(url)
    return url


def test_instances_add_up_and_a_repeated_write_counts_nothing_twice(database_url: str) -> None:
    async def main() -> None:
        async with await open_store(database_url) as store:
            one, two = UsageStore(store, "u-one"), UsageStore(store, "u-two")
            for jobs in (1, 3, 3):
                await one.write({(RED, MONDAY): (jobs, 1_500, 10, 4, 2), (BLUE, MONDAY): (1,) * 5})
            again = [two.write({(RED, MONDAY): (number, 0, 1, 0, 0)}) for number in range(2)]
            await asyncio.gather(*again)
            await two.write({(RED, MONDAY): (4, 500, 5, 0, 0), (RED, TUESDAY): (9, 0, 0, 0, 0)})
            whole = await one.page(None)
            assert whole == [
                DayUsage(BLUE, MONDAY, 1, 0.001, 1, 1, 1),
                DayUsage(RED, MONDAY, 7, 2.0, 15, 4, 2),
                DayUsage(RED, TUESDAY, 9, 0.0, 0, 0, 0),
            ]
            assert await one.page(None, tenant=RED, last_day=MONDAY) == [whole[1]]
            assert await one.page(None, first_day=TUESDAY) == [whole[2]]
            first = await one.page(1)
            rest = await one.page(9, after=(first[0].day, first[0].tenant_id))
            assert first + rest == whole

    asyncio.run(main())
