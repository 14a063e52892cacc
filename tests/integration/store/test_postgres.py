"""What only a database server can do: lose races, lose connections, refuse to let us in."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from tests.integration.store.notes import note, notes_store, whole_notes, write_note
from tests.servers import PostgresProcess
from tests.servers.postgres import PASSWORD

from dragoman.errors import ExtraMissing, SettingsError, StoreError
from dragoman.store import Store, StoreConnection, Work, ask_server, check, open_store, upgrade
from dragoman.store.server import store as server_store
from dragoman.store.urls import parse_database_url


def database_of(url: str) -> str:
    return urlsplit(url).path[1:]


async def make_sequence(store: Store, name: str) -> None:
    """A number that transactions share at once: what is undone does not take it back."""

    def create(connection: StoreConnection) -> None:
        connection.execute(sa.text(f"CREATE SEQUENCE {name}"))

    await store.write(create)


# --- races --------------------------------------------------------------------------------------


def test_a_deadlock_is_resolved_and_both_writes_are_stored(postgres_url: str) -> None:
    def rename(mine: int, other: int, to: str) -> Work[None]:
        """Change two rows, the second only when another transaction holds it."""

        def work(connection: StoreConnection) -> None:
            change = sa.update(note).values(name=to)
            connection.execute(change.where(note.c.part == mine))
            connection.execute(sa.text("SELECT nextval('arrived')"))
            while connection.execute(sa.text("SELECT last_value FROM arrived")).scalar_one() < 2:
                pass
            connection.execute(change.where(note.c.part == other))

        return work

    async def scenario() -> None:
        async with notes_store(postgres_url) as store:
            await store.write(write_note("first"))
            await make_sequence(store, "arrived")
            await asyncio.gather(store.write(rename(0, 1, "a")), store.write(rename(1, 0, "b")))
            names = await store.read(lambda c: c.execute(sa.select(note.c.name)).scalars().all())
            assert sorted(names) in (["a", "a", "first"], ["b", "b", "first"])

    asyncio.run(scenario())


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_transaction_that_loses_races_is_run_again_a_few_times(
    postgres_url: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_store, "RETRY_PAUSE_SECONDS", 0)

    def lose(times: int) -> Work[int]:
        def work(connection: StoreConnection) -> int:
            write_note(f"lost {times} times")(connection)
            tries: int = connection.execute(sa.text("SELECT nextval('tries')")).scalar_one()
            if tries <= times:
                raising = f"DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '{code}'; END $$"
                connection.execute(sa.text(raising))
            return tries

        return work

    async def scenario() -> None:
        async with notes_store(postgres_url) as store:
            await make_sequence(store, "tries")
            assert await store.write(lose(server_store.ATTEMPTS - 1)) == server_store.ATTEMPTS
            with pytest.raises(StoreError, match="lost"):
                await store.write(lose(1000))
            assert await store.write(lose(0)) == 2 * server_store.ATTEMPTS + 1
            stored = {f"lost {times} times" for times in (0, server_store.ATTEMPTS - 1)}
            assert await whole_notes(store) == stored

    asyncio.run(scenario())


def test_a_read_sees_one_moment(postgres_server: PostgresProcess, postgres_url: str) -> None:
    count = sa.select(sa.func.count()).select_from(note)

    def look_twice(connection: StoreConnection) -> tuple[int, int]:
        first = connection.execute(count).scalar_one()
        postgres_server.sql("INSERT INTO note VALUES ('meanwhile', 0)", database_of(postgres_url))
        return first, connection.execute(count).scalar_one()

    async def scenario() -> None:
        async with notes_store(postgres_url) as store:
            assert await store.read(look_twice) == (0, 0)
            assert await store.read(lambda c: c.execute(count).scalar_one()) == 1

    asyncio.run(scenario())


def test_no_more_connections_are_held_than_the_bounds_say(
    postgres_server: PostgresProcess, postgres_url: str
) -> None:
    name = database_of(postgres_url)
    held = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"

    async def scenario() -> int:
        async with notes_store(postgres_url) as store:
            writes = [store.write(write_note(str(n))) for n in range(50)]
            reads = [store.read(lambda c: c.execute(sa.text("SELECT 1")).all()) for _ in range(50)]
            await asyncio.gather(*writes, *reads)
            return int(await asyncio.to_thread(postgres_server.sql, held))

    assert asyncio.run(scenario()) <= server_store.WRITERS + server_store.READERS
    assert postgres_server.sql(held) == "0"


# --- connections --------------------------------------------------------------------------------


def test_a_lost_connection_is_told_once_and_the_next_call_works(postgres_url: str) -> None:
    def cut_off(connection: StoreConnection) -> None:
        write_note("cut off")(connection)
        connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))

    async def scenario() -> None:
        async with notes_store(postgres_url) as store:
            for operation in (store.write, store.read):
                with pytest.raises(StoreError, match=r"was lost; nothing of it was stored"):
                    await operation(cut_off if operation == store.write else _cut_off_reading)
                await store.write(write_note(operation.__name__))
            assert await whole_notes(store) == {"write", "read"}

    asyncio.run(scenario())


def _cut_off_reading(connection: StoreConnection) -> None:
    connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))


def test_a_commit_whose_answer_is_lost_is_not_called_undone(postgres_url: str) -> None:
    """A trigger that runs at COMMIT ends the connection, so the answer never comes."""
    statements = (
        "CREATE FUNCTION cut_off() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION cut_off()",
    )

    def make_trigger(connection: StoreConnection) -> None:
        for statement in statements:
            connection.execute(sa.text(statement))

    async def scenario() -> None:
        async with notes_store(postgres_url) as store:
            await store.write(make_trigger)
            with pytest.raises(StoreError, match="not known whether the write was stored"):
                await store.write(write_note("unknown"))

    asyncio.run(scenario())


def test_a_server_that_goes_away_is_named_and_work_goes_on_when_it_is_back(
    own_postgres: PostgresProcess,
) -> None:
    url = own_postgres.fresh_database()

    async def scenario() -> None:
        async with notes_store(url) as store:
            await asyncio.gather(*(store.write(write_note(str(n))) for n in range(20)))
            await asyncio.to_thread(own_postgres.kill)
            for _ in range(3):
                with pytest.raises(StoreError, match=r"cannot be reached|was lost") as refused:
                    await store.write(write_note("refused"))
                assert PASSWORD not in refused.value.message
            with pytest.raises(StoreError, match="check that PostgreSQL runs"):
                await asyncio.to_thread(check, url)
            await asyncio.to_thread(own_postgres.restart)
            await store.write(write_note("back"))
            assert await whole_notes(store) == {*(str(n) for n in range(20)), "back"}

    asyncio.run(scenario())


def test_every_connection_cut_at_once_costs_the_calls_under_way_and_no_more(
    own_postgres: PostgresProcess,
) -> None:
    url = own_postgres.fresh_database()

    async def scenario() -> None:
        async with notes_store(url) as store:
            await asyncio.gather(*(store.write(write_note(f"a{n}")) for n in range(30)))
            await asyncio.to_thread(own_postgres.drop_connections)
            await asyncio.gather(
                *(store.write(write_note(f"b{n}")) for n in range(30)), return_exceptions=True
            )
            names = {f"c{n}" for n in range(30)}
            await asyncio.gather(*(store.write(write_note(name)) for name in names))
            assert names <= await whole_notes(store)

    asyncio.run(scenario())


# --- the way in ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        (lambda url: url.replace(PASSWORD, "a-wrong-password"), "check the user and the password"),
        (lambda url: url + "-missing", "createdb"),
        (lambda url: url.replace("127.0.0.1", "nowhere.invalid"), "check that PostgreSQL runs"),
    ],
    ids=["wrong password", "no such database", "no such host"],
)
def test_a_server_that_does_not_let_us_in_is_explained_without_the_password(
    postgres_url: str,
    change: Callable[[str], str],
    remedy: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    url = change(postgres_url)
    for operation in (check, upgrade, lambda url: asyncio.run(open_store(url))):
        with pytest.raises(StoreError, match=remedy) as refused:
            operation(url)
        for secret in (PASSWORD, "a-wrong-password"):
            assert secret not in refused.value.message
            assert secret not in caplog.text


def test_the_password_is_in_no_log_of_ordinary_work(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        async with notes_store(postgres_url) as store:
            await store.write(write_note("note"))

    asyncio.run(scenario())
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql+psycopg://u:secret@host/db", "asyncpg"),
        ("postgresql://u:secret@host", "names a server and a database"),
        ("postgresql://u:secret@host/db?options=-c", "options"),
        ("oracle://u:secret@host/db", "cannot keep its data in 'oracle'"),
    ],
)
def test_a_url_that_cannot_work_is_refused_with_the_reason(url: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason) as refused:
        parse_database_url(url)
    assert "secret" not in refused.value.message


def test_a_missing_driver_is_named_with_the_way_to_get_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'dragoman\[postgres\]'"):
        check(postgres_url)


def test_the_server_tells_its_version_and_its_time(postgres_url: str) -> None:
    facts = ask_server(postgres_url)
    assert facts is not None
    assert int(facts.version.partition(".")[0]) >= 13
    assert facts.now_ms > 1_700_000_000_000
