"""What every database promises: writes that are whole, reads of one moment, errors that explain."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError
from tests.integration.store.notes import (
    forget_notes,
    note,
    notes_store,
    parts_by_name,
    until_queued,
    whole_notes,
    write_note,
    write_note_and_fail,
    write_note_twice,
)

from dragoman.errors import StoreError
from dragoman.store import StoreConnection, Work, open_store
from dragoman.store.sqlite.store import READERS

WORKS: dict[str, Callable[[str], Work[str]]] = {
    "good": write_note,
    "fails": write_note_and_fail,
    "breaks a constraint": write_note_twice,
}
OUTCOMES = {"good": str, "fails": ValueError, "breaks a constraint": IntegrityError}


@settings(
    max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(fates=st.lists(st.sampled_from(sorted(WORKS)), max_size=40))
def test_exactly_the_writes_that_succeeded_are_stored(database_url: str, fates: list[str]) -> None:
    async def scenario() -> None:
        async with notes_store(database_url) as store:
            await store.write(forget_notes)
            outcomes = await asyncio.gather(
                *(store.write(WORKS[fate](str(number))) for number, fate in enumerate(fates)),
                return_exceptions=True,
            )
            for fate, outcome in zip(fates, outcomes, strict=True):
                assert isinstance(outcome, OUTCOMES[fate])
            good = {str(number) for number, fate in enumerate(fates) if fate == "good"}
            assert await whole_notes(store) == good

    asyncio.run(scenario())


def test_many_rows_are_inserted_in_the_order_of_the_columns_or_not_at_all(
    database_url: str,
) -> None:
    rows = [(f"note {number} ' % ? :x", number) for number in range(300)]

    async def scenario() -> None:
        async with notes_store(database_url) as store:
            await store.write(forget_notes)
            await store.write(lambda c: c.insert(sa.insert(note), rows))
            with pytest.raises(IntegrityError):
                await store.write(lambda c: c.insert(sa.insert(note), [("new", 1), rows[0]]))
            found = await store.read(lambda c: c.execute(sa.select(note)).all())
            assert sorted(tuple(row) for row in found) == sorted(rows)

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [StopIteration(), asyncio.CancelledError(), GeneratorExit()])
def test_no_exception_however_odd_ends_the_store(database_url: str, error: BaseException) -> None:
    def work(connection: StoreConnection) -> None:
        write_note("odd")(connection)
        raise error

    async def scenario() -> None:
        async with notes_store(database_url) as store:
            (outcome,) = await asyncio.gather(store.write(work), return_exceptions=True)
            assert isinstance(outcome, BaseException)
            assert await store.write(write_note("later")) == "later"
            assert await whole_notes(store) == {"later"}

    asyncio.run(scenario())


def test_a_cancelled_caller_tears_nothing(database_url: str) -> None:
    async def scenario() -> None:
        async with notes_store(database_url) as store:
            cancelled = asyncio.create_task(store.write(write_note("cancelled")))
            neighbour = asyncio.create_task(store.write(write_note("neighbour")))
            await until_queued()
            cancelled.cancel()
            await until_queued()
            assert cancelled.cancelled()
            assert await neighbour == "neighbour"
        async with await open_store(database_url) as store:
            assert await whole_notes(store) == {"cancelled", "neighbour"}

    asyncio.run(scenario())


def test_callers_cancelled_at_any_moment_leave_whole_notes_or_none(database_url: str) -> None:
    async def scenario() -> None:
        async with notes_store(database_url) as store:
            for yields in range(40):
                writing = asyncio.create_task(store.write(write_note(f"moment-{yields}")))
                reading = asyncio.create_task(whole_notes(store))
                for _ in range(yields):
                    await asyncio.sleep(0)
                writing.cancel()
                reading.cancel()
                await asyncio.gather(writing, reading, return_exceptions=True)
            await store.write(write_note("last"))
        async with await open_store(database_url) as store:
            assert "last" in await whole_notes(store)

    asyncio.run(scenario())


def test_closing_carries_out_what_was_submitted_and_refuses_what_comes_later(
    database_url: str,
) -> None:
    async def scenario() -> None:
        async with notes_store(database_url) as store:
            queued = [asyncio.create_task(store.write(write_note(str(n)))) for n in range(30)]
            await until_queued()
            closing = asyncio.create_task(store.close())
            await until_queued()
            with pytest.raises(StoreError, match="closed"):
                await store.write(write_note("late"))
            await closing
            assert await asyncio.gather(*queued) == [str(n) for n in range(30)]
            with pytest.raises(StoreError, match="closed"):
                await parts_by_name(store)
            await store.close()
        async with await open_store(database_url) as store:
            assert await whole_notes(store) == {str(n) for n in range(30)}

    asyncio.run(scenario())


def test_a_statement_that_the_database_refuses_does_not_show_its_values(database_url: str) -> None:
    nowhere = "no such table|does(n't| not) exist"

    async def scenario() -> None:
        async with notes_store(database_url) as store:
            with pytest.raises(IntegrityError) as refused:
                await store.write(write_note_twice("a-private-word"))
            assert "a-private-word" not in _everything(refused.value)
            with pytest.raises(StoreError, match=nowhere):
                await store.write(lambda c: c.execute(sa.text("DELETE FROM nowhere")).rowcount)
            with pytest.raises(StoreError, match=nowhere):
                await store.read(lambda c: c.execute(sa.text("SELECT * FROM nowhere")).all())

    asyncio.run(scenario())


def _everything(error: BaseException | None) -> str:
    """The error's text and that of everything it came from, as a log would show it."""
    texts = []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


def test_a_read_cannot_write(database_url: str) -> None:
    async def scenario() -> None:
        async with notes_store(database_url) as store:
            with pytest.raises(StoreError, match=r"(?i)read[- ]?only"):
                await store.read(write_note("never"))
            await store.write(write_note("after"))
            assert await whole_notes(store) == {"after"}

    asyncio.run(scenario())


def test_many_reads_and_writes_at_once_are_all_served(database_url: str) -> None:
    count = sa.select(sa.func.count()).select_from(note)

    async def scenario() -> None:
        async with notes_store(database_url) as store:
            writes = [store.write(write_note(str(n))) for n in range(60)]
            reads = [store.read(lambda c: c.execute(count).scalar_one()) for _ in range(60)]
            *_, last = await asyncio.gather(*writes, *reads)
            assert isinstance(last, int)
            assert len(await whole_notes(store)) == 60

    asyncio.run(scenario())


def test_reads_one_after_another_share_a_connection_whatever_was_open_at_once_before(
    sqlite_url: str,
) -> None:
    meeting = threading.Barrier(READERS)

    def connection_at_once(connection: StoreConnection) -> int:
        meeting.wait(60)
        return connection_of(connection)

    def connection_of(connection: StoreConnection) -> int:
        return id(connection._connection.connection.dbapi_connection)

    async def story() -> None:
        async with await open_store(sqlite_url) as store:
            at_once = await asyncio.gather(
                *(store.read(connection_at_once) for _ in range(READERS))
            )
            assert len(set(at_once)) == READERS
            assert len({await store.read(connection_of) for _ in range(20)}) == 1

    asyncio.run(story())
