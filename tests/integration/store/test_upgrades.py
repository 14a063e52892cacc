"""Schemas: set up, brought up to date, or refused with what to do."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext

import dragoman.auth  # noqa: F401 - declares its tables
from dragoman.errors import SchemaTooNew, StoreError
from dragoman.store import SchemaStatus, check, metadata, open_store, upgrade, upgrades
from dragoman.store.sqlite.connect import writer_engine

MIGRATIONS = Path(upgrades.__file__).with_name("migrations")

NEXT_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "next"
down_revision = "{head}"

def upgrade():
    op.add_column("api_key", sa.Column("label", sa.String(64)))
    {last_step}
"""


@pytest.fixture
def fresh_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/data/dragoman.db"


@pytest.fixture
def become_next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make this program the next version of itself: one migration more, ending in a step."""

    def become(last_step: str = "pass") -> None:
        head = check(f"sqlite:///{tmp_path}/nothing.db").head
        scripts = tmp_path / "migrations"
        shutil.copytree(MIGRATIONS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
        text = NEXT_MIGRATION.format(head=head, last_step=last_step)
        (scripts / "versions" / "next.py").write_text(text)
        config = Config()
        config.set_main_option("script_location", str(scripts))
        monkeypatch.setattr(upgrades, "_alembic", lambda: config)

    return become


def open_and_close(database_url: str) -> None:
    async def scenario() -> None:
        async with await open_store(database_url):
            pass

    asyncio.run(scenario())


def test_a_fresh_database_is_set_up_and_then_found_up_to_date(fresh_url: str) -> None:
    assert check(fresh_url).state is SchemaStatus.EMPTY
    assert upgrade(fresh_url).state is SchemaStatus.EMPTY
    found = check(fresh_url)
    assert (found.state, found.current) == (SchemaStatus.UP_TO_DATE, found.head)
    assert upgrade(fresh_url).state is SchemaStatus.UP_TO_DATE
    open_and_close(fresh_url)


def test_checking_a_database_that_is_not_there_does_not_create_it(
    fresh_url: str, tmp_path: Path
) -> None:
    check(fresh_url)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_is_refused_with_the_remedy(fresh_url: str) -> None:
    with pytest.raises(StoreError, match="dragoman db upgrade"):
        open_and_close(fresh_url)


def test_an_older_database_is_refused_until_it_is_upgraded(
    fresh_url: str, become_next_version: Callable[..., None]
) -> None:
    upgrade(fresh_url)
    become_next_version()
    assert check(fresh_url).state is SchemaStatus.OUTDATED
    with pytest.raises(StoreError, match=r"older schema.*dragoman db upgrade"):
        open_and_close(fresh_url)
    assert upgrade(fresh_url).state is SchemaStatus.OUTDATED
    open_and_close(fresh_url)


def test_a_newer_database_is_refused_and_left_alone(
    fresh_url: str, become_next_version: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    become_next_version()
    upgrade(fresh_url)
    monkeypatch.undo()
    assert check(fresh_url).state is SchemaStatus.NEWER
    for operation in (upgrade, open_and_close):
        with pytest.raises(SchemaTooNew, match=r"newer Dragoman.*install"):
            operation(fresh_url)
    assert check(fresh_url).current == "next"


def test_a_migration_that_breaks_off_leaves_the_database_as_it_was(
    fresh_url: str, become_next_version: Callable[..., None]
) -> None:
    upgrade(fresh_url)
    become_next_version(last_step="op.execute('this is not SQL')")
    with pytest.raises(StoreError, match="cannot be used"):
        upgrade(fresh_url)
    assert check(fresh_url).state is SchemaStatus.OUTDATED
    with closing(sqlite3.connect(fresh_url.removeprefix("sqlite:///"))) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(api_key)")]
    assert "label" not in columns


def test_many_may_upgrade_at_once_and_one_of_them_does_it(fresh_url: str) -> None:
    with ThreadPoolExecutor(6) as threads:
        befores = list(threads.map(upgrade, [fresh_url] * 6))
    assert [before.state for before in befores].count(SchemaStatus.EMPTY) == 1
    assert check(fresh_url).state is SchemaStatus.UP_TO_DATE


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipe (name TEXT)")
    for operation in (check, upgrade, open_and_close):
        with pytest.raises(StoreError, match=r"another program.*recipe"):
            operation(f"sqlite:///{path}")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "letter.db"
    path.write_text("Dear reader, " * 1000)
    for operation in (check, upgrade, open_and_close):
        with pytest.raises(StoreError, match="not a database"):
            operation(f"sqlite:///{path}")


def test_the_migrations_make_the_tables_that_the_code_declares(fresh_url: str) -> None:
    upgrade(fresh_url)
    with writer_engine(Path(fresh_url.removeprefix("sqlite:///"))).connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
