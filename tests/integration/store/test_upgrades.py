"""Schemas: set up, brought up to date, or refused with what to do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from tests.servers import MariadbProcess

import dragoman.auth
import dragoman.glossary
import dragoman.lab.repository
import dragoman.usage  # noqa: F401 - all declare their tables
from dragoman.errors import SchemaTooNew, StoreError
from dragoman.store import SchemaStatus, check, metadata, open_store, upgrade, upgrades
from dragoman.store.databases import database_at

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
def become_next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make this program the next version of itself: one migration more, ending in a step."""

    def become(last_step: str = "pass") -> None:
        head = check(f"sqlite:///{tmp_path}/nothing.db").head
        scripts = tmp_path / "migrations"
        shutil.copytree(upgrades.MIGRATIONS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
        text = NEXT_MIGRATION.format(head=head, last_step=last_step)
        (scripts / "versions" / "next.py").write_text(text)
        monkeypatch.setattr(upgrades, "MIGRATIONS", scripts)

    return become


def open_and_close(database_url: str) -> None:
    async def scenario() -> None:
        async with await open_store(database_url):
            pass

    asyncio.run(scenario())


def test_a_fresh_database_is_set_up_and_then_found_up_to_date(empty_url: str) -> None:
    assert check(empty_url).state is SchemaStatus.EMPTY
    assert upgrade(empty_url).state is SchemaStatus.EMPTY
    found = check(empty_url)
    assert (found.state, found.current) == (SchemaStatus.UP_TO_DATE, found.head)
    assert upgrade(empty_url).state is SchemaStatus.UP_TO_DATE
    open_and_close(empty_url)


def test_every_migration_is_named_for_its_revision_and_follows_the_one_before() -> None:
    # The program finds its schema by these names, without Alembic.
    scripts = ScriptDirectory.from_config(upgrades.alembic_config())
    in_order = [script.revision for script in reversed(list(scripts.walk_revisions()))]

    files = sorted(upgrades.MIGRATIONS.glob("versions/*.py"))
    assert [file.stem.partition("_")[0] for file in files] == in_order


def test_setting_up_and_looking_leaves_the_log_to_what_matters(
    empty_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        upgrade(empty_url)
        check(empty_url)
    assert [record.name for record in caplog.records if record.name.startswith("alembic")] == []


def test_checking_a_database_that_is_not_there_does_not_create_it(tmp_path: Path) -> None:
    check(f"sqlite:///{tmp_path}/data/dragoman.db")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_is_refused_with_the_remedy(empty_url: str) -> None:
    with pytest.raises(StoreError, match="dragoman db upgrade"):
        open_and_close(empty_url)


def test_an_older_database_is_refused_until_it_is_upgraded(
    empty_url: str, become_next_version: Callable[..., None]
) -> None:
    upgrade(empty_url)
    become_next_version()
    assert check(empty_url).state is SchemaStatus.OUTDATED
    with pytest.raises(StoreError, match=r"older schema.*dragoman db upgrade"):
        open_and_close(empty_url)
    assert upgrade(empty_url).state is SchemaStatus.OUTDATED
    open_and_close(empty_url)


def test_a_newer_database_is_refused_and_left_alone(
    empty_url: str, become_next_version: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    become_next_version()
    upgrade(empty_url)
    monkeypatch.undo()
    assert check(empty_url).state is SchemaStatus.NEWER
    for operation in (upgrade, open_and_close):
        with pytest.raises(SchemaTooNew, match=r"newer Dragoman.*install"):
            operation(empty_url)
    assert check(empty_url).current == "next"


def test_a_migration_that_breaks_off_leaves_the_database_as_it_was(
    empty_url: str, become_next_version: Callable[..., None]
) -> None:
    upgrade(empty_url)
    become_next_version(last_step="op.execute('this is not SQL')")
    with pytest.raises(StoreError, match="cannot be used"):
        upgrade(empty_url)
    assert check(empty_url).state is SchemaStatus.OUTDATED
    if empty_url.startswith("mysql"):
        return  # there every step is stored by itself
    columns = database_at(empty_url).inspect(lambda c: sa.inspect(c).get_columns("api_key"))
    assert columns is not None
    assert "label" not in [column["name"] for column in columns]


@pytest.mark.parametrize("step", range(1, 80, 8))
def test_a_set_up_that_broke_off_after_any_step_is_finished_by_the_next(
    mariadb_server: MariadbProcess, step: int
) -> None:
    url = mariadb_server.empty_database()
    done = count(1)

    def break_off(connection: Any, cursor: Any, sql: str, *_: Any) -> None:
        if sql.lstrip().upper().startswith(("CREATE", "ALTER", "DROP")) and next(done) > step:
            raise ConnectionResetError("as when the process is killed")

    sa.event.listen(sa.Engine, "before_cursor_execute", break_off)
    try:
        with pytest.raises((StoreError, ConnectionResetError)):
            upgrade(url)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", break_off)

    assert check(url).state in (SchemaStatus.EMPTY, SchemaStatus.OUTDATED)
    upgrade(url)
    differences = database_at(url).inspect(
        lambda c: compare_metadata(MigrationContext.configure(c), metadata)
    )
    assert differences == []
    triggers = mariadb_server.sql("SHOW TRIGGERS", url.rpartition("/")[2])
    assert len(triggers.splitlines()) == 6


def test_many_may_upgrade_at_once_and_one_of_them_does_it(empty_url: str) -> None:
    with ThreadPoolExecutor(6) as threads:
        befores = list(threads.map(upgrade, [empty_url] * 6))
    assert [before.state for before in befores].count(SchemaStatus.EMPTY) == 1
    assert check(empty_url).state is SchemaStatus.UP_TO_DATE


def test_the_database_of_another_program_is_refused(empty_url: str) -> None:
    database_at(empty_url).alter(lambda c: c.execute(sa.text("CREATE TABLE recipe (name TEXT)")))
    for operation in (check, upgrade, open_and_close):
        with pytest.raises(StoreError, match=r"another program.*recipe"):
            operation(empty_url)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "letter.db"
    path.write_text("Dear reader, " * 1000)
    for operation in (check, upgrade, open_and_close):
        with pytest.raises(StoreError, match="not a database"):
            operation(f"sqlite:///{path}")


def test_the_migrations_make_the_tables_that_the_code_declares(empty_url: str) -> None:
    upgrade(empty_url)
    differences = database_at(empty_url).inspect(
        lambda c: compare_metadata(MigrationContext.configure(c), metadata)
    )
    assert differences == []


def test_what_a_lab_held_before_contents_were_known_is_kept(empty_url: str) -> None:
    database = database_at(empty_url)
    database.alter(lambda connection: _upgrade_to(connection, "0002"))
    record = (
        "INSERT INTO target_record (id, tenant, run_id, item_id, turn_no, output_json, main, "
        "latency_ms, created_at_ms) VALUES ('r/1/i/0', 't', 'r', 'i', 0, '{}', 'output', 1.5, 2)"
    )
    item = (
        "INSERT INTO dataset_item (id, tenant, version_id, turn_count, turns_json) "
        "VALUES ('i', 't', 'v', 1, '[{}]')"
    )
    run = (
        "INSERT INTO run_log (id, tenant, experiment_id, mode, status, item_ids_json, "
        "start_cursor, start_done, item_count, embedded, created_at_ms) "
        "VALUES ('r', 't', 'e', 'submit', 'processing', '[]', '', true, 1, false, 3)"
    )
    for statement in (record, item, run):
        database.alter(lambda connection: connection.execute(sa.text(statement)))  # noqa: B023

    assert upgrade(empty_url).state is SchemaStatus.OUTDATED

    def kept(connection: sa.Connection) -> list[tuple[object, ...]]:
        asked = (
            "SELECT r.latency_ms, i.content_id, l.let_finish FROM target_record r "
            "JOIN dataset_item i ON i.id = r.item_id JOIN run_log l ON l.id = r.run_id"
        )
        return [tuple(row) for row in connection.execute(sa.text(asked))]

    assert database.inspect(kept) == [(1.5, None, False)]
    database.alter(lambda c: c.execute(sa.text("UPDATE target_record SET latency_ms = NULL")))


def test_what_a_lab_held_before_repetitions_becomes_the_first_of_them(empty_url: str) -> None:
    database = database_at(empty_url)
    database.alter(lambda connection: _upgrade_to(connection, "0003"))
    log = (
        "INSERT INTO item_run_log (run_id, item_id, status, result_state, try_no, first_try_no, "
        "archived_try_no, lineage, lease_token) "
        "VALUES ('r', 'i', 'success', 'resulted', 1, 1, 1, 'r/1', 1)"
    )
    turn = (
        "INSERT INTO turn_run_log (run_id, item_id, turn_no, try_no, tenant, status, "
        "target_record_id, logged_at_ms) VALUES ('r', 'i', 0, 1, 't', 'success', 'r/1/i/0', 5)"
    )
    link = (
        "INSERT INTO turn_score (run_id, item_id, turn_no, try_no, evaluator_no, "
        "evaluator_record_id) VALUES ('r', 'i', 0, 1, 0, 'r/1/i/0/0')"
    )
    item_shown = (
        "INSERT INTO item_result (experiment_id, item_id, tenant, run_id, status, try_no, lineage) "
        "VALUES ('e', 'i', 't', 'r', 'success', 1, 'r/1')"
    )
    turn_shown = (
        "INSERT INTO turn_result (experiment_id, item_id, turn_no, tenant, run_id, try_no, status, "
        "target_record_id) VALUES ('e', 'i', 0, 't', 'r', 1, 'success', 'r/1/i/0')"
    )
    output = (
        "INSERT INTO target_record (id, tenant, run_id, item_id, turn_no, output_json, main, "
        "created_at_ms) VALUES ('r/1/i/0', 't', 'r', 'i', 0, '{}', 'output', 2)"
    )
    score = (
        "INSERT INTO evaluator_record (id, tenant, run_id, item_id, turn_no, name, score, "
        "created_at_ms) VALUES ('r/1/i/0/0', 't', 'r', 'i', 0, 'exact', 1.0, 2)"
    )
    for statement in (log, turn, link, item_shown, turn_shown, output, score):
        database.alter(lambda connection: connection.execute(sa.text(statement)))  # noqa: B023

    assert upgrade(empty_url).state is SchemaStatus.OUTDATED

    def kept(connection: sa.Connection) -> list[tuple[object, ...]]:
        asked = (
            "SELECT l.repetition, t.repetition, s.repetition, i.repetition, r.repetition, "
            "o.repetition, e.repetition, e.score, r.status, l.lease_token FROM item_run_log l "
            "JOIN turn_run_log t ON t.run_id = l.run_id AND t.item_id = l.item_id "
            "JOIN turn_score s ON s.run_id = t.run_id AND s.item_id = t.item_id "
            "JOIN item_result i ON i.item_id = l.item_id "
            "JOIN turn_result r ON r.item_id = l.item_id "
            "JOIN target_record o ON o.id = r.target_record_id "
            "JOIN evaluator_record e ON e.id = s.evaluator_record_id"
        )
        return [tuple(row) for row in connection.execute(sa.text(asked))]

    assert database.inspect(kept) == [(*(0,) * 7, 1.0, "success", 1)]
    second = log.replace("lease_token)", "lease_token, repetition)").replace("1)", "1, 1)")
    database.alter(lambda connection: connection.execute(sa.text(second)))
    with pytest.raises(StoreError, match="cannot be used"):
        database.alter(lambda connection: connection.execute(sa.text(second)))


def _upgrade_to(connection: sa.Connection, revision: str) -> None:
    config = upgrades.alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
