"""What only MariaDB does in its own way: races, lost connections, exact texts, the way in."""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from tests.integration.store.notes import note, notes_store, whole_notes, write_note
from tests.servers import MariadbProcess
from tests.servers.mariadb import PASSWORD

from dragoman.errors import ExtraMissing, SettingsError, StoreError
from dragoman.ids import TenantId
from dragoman.lab.model import DatasetId
from dragoman.lab.repository import datasets
from dragoman.store import StoreConnection, Work, ask_server, check, open_store, upgrade
from dragoman.store.server import store as server_store
from dragoman.store.urls import parse_database_url


def database_of(url: str) -> str:
    return urlsplit(url).path[1:]


# --- races --------------------------------------------------------------------------------------


def test_a_deadlock_is_resolved_and_both_writes_are_stored(
    mariadb_server: MariadbProcess, mariadb_url: str
) -> None:
    arrived = 0

    def rename(mine: int, other: int, to: str) -> Work[None]:
        """Change two rows, the second only when another transaction holds it."""

        def work(connection: StoreConnection) -> None:
            nonlocal arrived
            change = sa.update(note).values(name=to)
            connection.execute(change.where(note.c.part == mine))
            arrived += 1
            while arrived < 2:
                connection.execute(sa.text("SELECT SLEEP(0.01)"))
            connection.execute(change.where(note.c.part == other))

        return work

    async def scenario() -> None:
        async with notes_store(mariadb_url) as store:
            await store.write(write_note("first"))
            await store.write(lambda c: c.execute(sa.text("CREATE INDEX p ON note (part)")))
            await asyncio.gather(store.write(rename(0, 1, "a")), store.write(rename(1, 0, "b")))
            names = await store.read(lambda c: c.execute(sa.select(note.c.name)).scalars().all())
            assert sorted(names) in (["a", "a", "first"], ["b", "b", "first"])
            assert arrived > 2, "there was no deadlock"

    asyncio.run(scenario())


def test_a_read_sees_one_moment_and_cannot_write(
    mariadb_server: MariadbProcess, mariadb_url: str
) -> None:
    count = sa.select(sa.func.count()).select_from(note)

    def look_twice(connection: StoreConnection) -> tuple[int, int]:
        first = connection.execute(count).scalar_one()
        mariadb_server.sql("INSERT INTO note VALUES ('meanwhile', 0)", database_of(mariadb_url))
        return first, connection.execute(count).scalar_one()

    async def scenario() -> None:
        async with notes_store(mariadb_url) as store:
            assert await store.read(look_twice) == (0, 0)
            assert await store.read(lambda c: c.execute(count).scalar_one()) == 1
            with pytest.raises(StoreError, match="READ ONLY"):
                await store.read(write_note("never"))
            assert await store.read(lambda c: c.execute(count).scalar_one()) == 1

    asyncio.run(scenario())


def test_no_more_connections_are_held_than_the_bounds_say(
    mariadb_server: MariadbProcess, mariadb_url: str
) -> None:
    held = (
        "SELECT count(*) FROM information_schema.processlist "
        f"WHERE db = '{database_of(mariadb_url)}'"
    )

    async def scenario() -> int:
        async with notes_store(mariadb_url) as store:
            writes = [store.write(write_note(str(n))) for n in range(50)]
            reads = [store.read(lambda c: c.execute(sa.text("SELECT 1")).all()) for _ in range(50)]
            await asyncio.gather(*writes, *reads)
            return int(await asyncio.to_thread(mariadb_server.sql, held))

    assert asyncio.run(scenario()) <= server_store.WRITERS + server_store.READERS


# --- connections --------------------------------------------------------------------------------


def _cut_off(connection: StoreConnection) -> None:
    connection.execute(sa.text("KILL CONNECTION CONNECTION_ID()"))


def test_a_lost_connection_is_told_once_and_the_next_call_works(mariadb_url: str) -> None:
    def cut_off_writing(connection: StoreConnection) -> None:
        write_note("cut off")(connection)
        _cut_off(connection)

    async def scenario() -> None:
        async with notes_store(mariadb_url) as store:
            for operation in (store.write, store.read):
                with pytest.raises(StoreError, match=r"was lost; nothing of it was stored"):
                    await operation(cut_off_writing if operation == store.write else _cut_off)
                await store.write(write_note(operation.__name__))
            assert await whole_notes(store) == {"write", "read"}

    asyncio.run(scenario())


def test_a_server_that_goes_away_is_named_and_work_goes_on_when_it_is_back(
    own_mariadb: MariadbProcess,
) -> None:
    url = own_mariadb.fresh_database()

    async def scenario() -> None:
        async with notes_store(url) as store:
            await asyncio.gather(*(store.write(write_note(str(n))) for n in range(20)))
            await asyncio.to_thread(own_mariadb.kill)
            for _ in range(3):
                with pytest.raises(StoreError, match=r"cannot be reached|was lost") as refused:
                    await store.write(write_note("refused"))
                assert PASSWORD not in refused.value.message
            with pytest.raises(StoreError, match="check that MariaDB runs"):
                await asyncio.to_thread(check, url)
            await asyncio.to_thread(own_mariadb.restart)
            await store.write(write_note("back"))
            assert await whole_notes(store) == {*(str(n) for n in range(20)), "back"}
            # Every connection cut at once costs the calls under way and no more.
            await asyncio.to_thread(own_mariadb.drop_connections)
            await asyncio.gather(
                *(store.write(write_note(f"b{n}")) for n in range(30)), return_exceptions=True
            )
            names = {f"c{n}" for n in range(30)}
            await asyncio.gather(*(store.write(write_note(name)) for name in names))
            assert names <= await whole_notes(store)

    asyncio.run(scenario())


# --- texts --------------------------------------------------------------------------------------


def test_names_that_differ_in_case_accent_or_a_blank_behind_them_are_different(
    mariadb_url: str,
) -> None:
    names = ["name", "Name", "náme", "name ", " name", "name\t", "n\U0001f600me", "ｎame"]

    async def scenario() -> None:
        async with await open_store(mariadb_url) as store:
            for number, name in enumerate(names):
                await store.write(
                    lambda c, n=number, name=name: datasets.insert_dataset(  # type: ignore[misc]
                        c, TenantId("t"), DatasetId(f"d-{n}"), name, 0
                    )
                )
            found = await store.read(
                lambda c: c.execute(sa.text("SELECT name FROM dataset ORDER BY name")).scalars()
            )
            assert list(found) == sorted(names)

    asyncio.run(scenario())


def test_a_broken_constraint_does_not_quote_the_row(mariadb_url: str) -> None:
    async def scenario() -> None:
        async with notes_store(mariadb_url) as store:
            await store.write(write_note("what a user said"))
            with pytest.raises(IntegrityError) as broken:
                await store.write(write_note("what a user said"))
            assert "a user said" not in "".join(traceback.format_exception_only(broken.value))
            assert "a user said" not in str(broken.value.orig)

    asyncio.run(scenario())


def test_a_text_that_is_too_long_is_refused_and_not_cut_off(mariadb_url: str) -> None:
    async def scenario() -> None:
        async with notes_store(mariadb_url) as store:
            with pytest.raises(StoreError, match="Data too long for column 'name'"):
                await store.write(write_note("x" * 65))
            assert await whole_notes(store) == set()

    asyncio.run(scenario())


# --- the way in ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        (lambda url: url.replace(PASSWORD, "a-wrong-password"), "check the user and the password"),
        (lambda url: url + "_missing", "CREATE DATABASE"),
        (lambda url: url.replace("127.0.0.1", "nowhere.invalid"), "check that MariaDB runs"),
    ],
    ids=["wrong password", "no such database", "no such host"],
)
def test_a_server_that_does_not_let_us_in_is_explained_without_the_password(
    mariadb_url: str,
    change: Callable[[str], str],
    remedy: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    url = change(mariadb_url)
    for operation in (check, upgrade, lambda url: asyncio.run(open_store(url))):
        with pytest.raises(StoreError, match=remedy) as refused:
            operation(url)
        for secret in (PASSWORD, "a-wrong-password"):
            assert secret not in refused.value.message
            assert secret not in caplog.text


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql+pymysql://u:secret@host/db", "asyncmy"),
        ("mariadb+mariadbconnector://u:secret@host/db", "asyncmy"),
        ("mysql://u:secret@host", "names a server and a database"),
        ("mysql://u:secret@host/db?ssl=1", "options"),
    ],
)
def test_a_url_that_cannot_work_is_refused_with_the_reason(url: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason) as refused:
        parse_database_url(url)
    assert "secret" not in refused.value.message


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+asyncmy", "mariadb+asyncmy"])
def test_every_way_to_name_the_server_opens_the_same_database(
    mariadb_url: str, scheme: str
) -> None:
    url = f"{scheme}{mariadb_url.removeprefix('mysql')}"

    async def scenario() -> None:
        async with notes_store(url) as store:
            await store.write(write_note("one"))
            assert await whole_notes(store) == {"one"}

    asyncio.run(scenario())


def test_a_missing_driver_is_named_with_the_way_to_get_it(
    mariadb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asyncmy", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'dragoman\[mysql\]'"):
        check(mariadb_url)


def test_the_server_tells_its_version_and_its_time(mariadb_url: str) -> None:
    facts = ask_server(mariadb_url)
    assert facts is not None
    assert facts.product == "MariaDB"
    assert int(facts.version.partition(".")[0]) >= 10
    assert facts.now_ms > 1_700_000_000_000
