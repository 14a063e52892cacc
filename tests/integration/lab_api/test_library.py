"""Imports that are broken off: whole, or invisible."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]
import pytest
import sqlalchemy as sa
from tests.integration.lab_api.conftest import jsonl

from dragoman.clock import SystemClock
from dragoman.ids import TenantId
from dragoman.lab.cleaning import Cleaner
from dragoman.lab.datasets import Format
from dragoman.lab.library import Imported, Library, difference
from dragoman.lab.library.library import CONTENTS_AT_ONCE
from dragoman.settings import LabSettings
from dragoman.store import Store, StoreConnection, open_store

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


async def rows_of(store: Store, sql: str) -> list[Any]:
    return await store.read(lambda c: [tuple(row) for row in c.execute(sa.text(sql)).all()])


@pytest.mark.parametrize("file_format", [Format.JSONL, Format.PARQUET])
def test_an_import_that_is_killed_leaves_nothing_when_a_lab_has_started(
    lab_url: str, tmp_path: Path, file_format: Format
) -> None:
    file = tmp_path / "cases"
    if file_format is Format.PARQUET:
        pq.write_table(pa.table({"n": range(50_000)}), file)
    else:
        file.write_bytes(jsonl([{"n": n} for n in range(50_000)]))
    script = f"""
import asyncio
from random import Random
from dragoman.clock import SystemClock
from dragoman.ids import TenantId
from dragoman.lab.datasets import Format
from dragoman.lab.library import Library
from dragoman.settings import LabSettings
from dragoman.store import open_store

async def main():
    async with await open_store({lab_url!r}) as store:
        library = Library(store, LabSettings(), SystemClock(), Random())
        with open({str(file)!r}, "rb") as cases:
            await library.add(TenantId("acme"), "cases", cases, Format({file_format.value!r}))

asyncio.run(main())
"""

    async def scenario() -> None:
        importing = subprocess.Popen([sys.executable, "-c", script])  # noqa: ASYNC220 - it is killed
        async with await open_store(lab_url) as store:
            try:
                async with asyncio.timeout(60):
                    while not await stored_items(store):
                        assert importing.poll() is None
                        await asyncio.sleep(0.01)
            finally:
                importing.kill()
                importing.wait()
            library = Library(store, LabSettings(), SystemClock(), Random())
            assert await stored_items(store) > 0
            assert await library.find_named(TENANT, "cases") is None
            await Cleaner(store, SystemClock()).clean()
            assert await stored_items(store) == 0
            assert await rows_of(store, "SELECT * FROM dataset_content") == []
            assert await rows_of(store, "SELECT name FROM lease") == []

    asyncio.run(scenario())


def test_an_import_that_is_alive_is_left_alone(lab_url: str) -> None:
    class Slow(io.BytesIO):
        """A file whose end comes when it is let."""

        def __init__(self, content: bytes) -> None:
            super().__init__(content)
            self.go_on = threading.Event()

        def readline(self, size: int | None = -1, /) -> bytes:
            if self.tell() > len(self.getvalue()) // 2:
                self.go_on.wait(60)
            return super().readline(size)

    async def scenario() -> None:
        file = Slow(jsonl(ROWS))
        async with await open_store(lab_url) as store:
            library = Library(store, LabSettings(), SystemClock(), Random())
            adding = asyncio.create_task(library.add(TENANT, "cases", file, Format.JSONL))
            async with asyncio.timeout(60):
                while not await stored_items(store):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await Cleaner(store, SystemClock()).clean()
            assert await stored_items(store) > 0
            file.go_on.set()
            assert (await adding).version.items == len(ROWS)
            assert await rows_of(store, "SELECT name FROM lease") == []

    asyncio.run(scenario())


def test_the_same_rows_imported_many_times_at_once_are_one_version(lab_url: str) -> None:
    async def scenario() -> None:
        async with await open_store(lab_url) as store:
            library = Library(store, LabSettings(), SystemClock(), Random(1))
            first = await library.add(TENANT, "cases", io.BytesIO(jsonl(ROWS[:3])), Format.JSONL)
            dataset_id = first.version.dataset_id
            made = await asyncio.gather(
                *(
                    library.add_version(TENANT, dataset_id, io.BytesIO(jsonl(ROWS)), Format.JSONL)
                    for _ in range(5)
                )
            )
            assert len({one.version.version_id for one in made}) == 1
            assert [one.is_new for one in made].count(True) == 1
            assert await stored_items(store) == 3 + len(ROWS)
            again = await library.add_version(
                TENANT, dataset_id, io.BytesIO(jsonl(ROWS[:3])), Format.JSONL
            )
            assert again == Imported(first.version, is_new=False)

    asyncio.run(scenario())


def test_rows_that_repeat_have_ids_that_pair_by_how_often_they_came(lab_url: str) -> None:
    repeated = [{"n": n % 3} for n in range(3 * CONTENTS_AT_ONCE)]

    async def scenario() -> None:
        async with await open_store(lab_url) as store:
            library = Library(store, LabSettings(), SystemClock(), Random(1))
            first = await library.add(TENANT, "cases", io.BytesIO(jsonl(repeated)), Format.JSONL)
            fewer = await library.add_version(
                TENANT,
                first.version.dataset_id,
                io.BytesIO(jsonl(repeated[: CONTENTS_AT_ONCE * 2])),
                Format.JSONL,
            )
            ids = [
                set(await library.contents(version_id, most=10**6))
                for version_id in (first.version.version_id, fewer.version.version_id)
            ]
            assert [len(one) for one in ids] == [len(repeated), CONTENTS_AT_ONCE * 2]
            assert ids[1] < ids[0]
            shown = {
                item.shown_id for item in await library.items(first.version.version_id, most=10**6)
            }
            assert shown == ids[0]
            found = await difference(library, first.version, fewer.version)
            assert (found.unchanged, found.added, found.removed) == (
                2 * CONTENTS_AT_ONCE,
                0,
                CONTENTS_AT_ONCE,
            )

    asyncio.run(scenario())


def test_a_version_from_before_contents_were_known_is_compared_by_reading(lab_url: str) -> None:
    async def scenario() -> None:
        async with await open_store(lab_url) as store:
            library = Library(store, LabSettings(), SystemClock(), Random(1))
            old = await library.add(TENANT, "cases", io.BytesIO(jsonl(ROWS[:5])), Format.JSONL)
            dataset_id = old.version.dataset_id

            def as_it_was(connection: StoreConnection) -> None:
                for statement in (
                    "UPDATE dataset_item SET content_id = NULL",
                    "UPDATE dataset_version SET content = NULL",
                    "DELETE FROM dataset_content",
                ):
                    connection.execute(sa.text(statement))

            await store.write(as_it_was)
            items = await library.items(old.version.version_id)
            assert [item.shown_id for item in items] == [item.item_id for item in items]
            new = await library.add_version(
                TENANT, dataset_id, io.BytesIO(jsonl(ROWS[2:9])), Format.JSONL
            )
            before = await library.version(TENANT, dataset_id, 1)
            found = await difference(library, before, new.version)
            assert (found.unchanged, found.added, found.removed) == (3, 4, 2)
            assert [item.turns[0]["n"] for item in found.removed_items] == [0, 1]
            back = await difference(library, new.version, before)
            assert (back.unchanged, back.added, back.removed) == (3, 2, 4)

    asyncio.run(scenario())


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
                "Imported",
                "NameTaken",
            ]
            assert await stored_items(store) == 3 + len(ROWS)

    asyncio.run(scenario())
