"""Imports that are broken off: whole, or nothing that anybody sees."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterable
from random import Random

import sqlalchemy as sa
from tests.integration.lab_api.conftest import jsonl

from dragoman.clock import SystemClock
from dragoman.ids import TenantId
from dragoman.lab.datasets import Format
from dragoman.lab.library import Library
from dragoman.settings import LabSettings
from dragoman.store import Store, open_store

TENANT = TenantId("acme")
ROWS = [{"n": n} for n in range(2500)]


async def stored_items(store: Store) -> int:
    count = sa.text("SELECT count(*) FROM dataset_item")
    return await store.read(lambda c: int(c.execute(count).scalar_one()))


async def broken_off(library: Library, yields: int) -> None:
    adding = asyncio.create_task(
        library.add(TENANT, "cases", io.BytesIO(jsonl(ROWS)), Format.JSONL)
    )
    for _ in range(yields):
        await asyncio.sleep(0.001)
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)


def moments() -> Iterable[int]:
    return range(0, 120, 15)


def test_an_import_that_is_cancelled_is_whole_or_not_there(lab_url: str) -> None:
    async def scenario() -> None:
        for yields in moments():
            async with await open_store(lab_url) as store:
                library = Library(store, LabSettings(), SystemClock(), Random(yields))
                await broken_off(library, yields)
            # Writes under way went on by themselves until the store was closed.
            async with await open_store(lab_url) as store:
                library = Library(store, LabSettings(), SystemClock(), Random(-yields))
                found = await library.find_named(TENANT, "cases")
                if found is not None:
                    assert found.latest.items == len(ROWS)
                    last = await library.items(found.latest.version_id, most=3000)
                    assert len(last) == len(ROWS)
                    return

    asyncio.run(scenario())


def test_what_was_refused_leaves_no_items(lab_url: str) -> None:
    async def scenario() -> None:
        async with await open_store(lab_url) as store:
            library = Library(store, LabSettings(), SystemClock(), Random(1))
            await library.add(TENANT, "cases", io.BytesIO(jsonl(ROWS[:3])), Format.JSONL)
            twice = [
                library.add(TENANT, "twice", io.BytesIO(jsonl(ROWS)), Format.JSONL)
                for _ in range(2)
            ]
            outcomes = await asyncio.gather(*twice, return_exceptions=True)
            assert sorted(type(outcome).__name__ for outcome in outcomes) == [
                "DatasetVersion",
                "NameTaken",
            ]
            assert await stored_items(store) == 3 + len(ROWS)

    asyncio.run(scenario())
