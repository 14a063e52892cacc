"""Databases that earlier versions filled: upgraded, nothing is lost and all of it can be used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from tests.integration.lab_api.conftest import PATIENCE_SECONDS, Asker
from tests.integration.serve.server_process import ServerProcess, environment, run
from tests.integration.store.earlier_data import (
    ALLOWED,
    EXPERIMENT,
    OPERATOR_KEY,
    TARGET,
    Rows,
    columns_of,
    fixture_of,
    insert_rows,
    known_revisions,
    load,
    upgrade_to,
)

from dragoman.api import create_lab_app, opened_desk
from dragoman.lab.plugins import Context
from dragoman.lab.roles import SERVER
from dragoman.observability import Metrics
from dragoman.settings import load_settings
from dragoman.store import SchemaStatus, check, metadata, upgrade
from dragoman.store.databases import database_at

REVISIONS = known_revisions()
WRITTEN = [revision for revision in REVISIONS if fixture_of(revision).exists()]
OF_THE_LAB = ["0002", "0003", WRITTEN[-1]]
"""The first one with a lab, the last before its rows changed their form, and the newest."""


def fill(database_url: str, revision: str) -> Rows:
    """Make it a database of this revision, with what it held then."""
    rows = load(revision)
    database = database_at(database_url)
    database.alter(lambda connection: upgrade_to(connection, revision))
    database.alter(lambda connection: insert_rows(connection, rows))
    return rows


def test_there_are_rows_of_every_revision_before_the_newest() -> None:
    missing = [revision for revision in REVISIONS[:-1] if revision not in WRITTEN]
    assert not missing, (
        f"write them: python -m tests.integration.store.earlier_data {' '.join(missing)}"
    )


@pytest.mark.parametrize("revision", WRITTEN)
def test_every_row_of_an_earlier_revision_is_kept_as_it_was(empty_url: str, revision: str) -> None:
    rows = fill(empty_url, revision)
    database = database_at(empty_url)
    # A migration that was released is not changed any more: the rows fit what it makes.
    assert database.inspect(columns_of) == {
        table: list(some[0]) for table, some in sorted(rows.items())
    }
    before = SchemaStatus.UP_TO_DATE if revision == REVISIONS[-1] else SchemaStatus.OUTDATED
    assert upgrade(empty_url).state is before
    assert check(empty_url).state is SchemaStatus.UP_TO_DATE
    assert (
        database.inspect(lambda c: compare_metadata(MigrationContext.configure(c), metadata)) == []
    )
    for table, some in rows.items():
        assert _rows_now(empty_url, table, columns=list(some[0])) == _sorted(some), table


def _rows_now(database_url: str, table: str, columns: list[str]) -> list[dict[str, Any]]:
    now = metadata.tables[table]
    asked = sa.select(*(now.c[column] for column in columns))
    found = database_at(database_url).inspect(lambda c: c.execute(asked).mappings().all())
    assert found is not None
    return _sorted([dict(row) for row in found])


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


# --- used by the program --------------------------------------------------------------------------


@asynccontextmanager
async def lab_on(database_url: str, folder: Path) -> AsyncIterator[Asker]:
    flags = {"store": {"database_url": database_url}, "server": {"data_dir": folder}}
    metrics = Metrics()
    context = Context(python_allow=(ALLOWED,), http_allow=())
    async with (
        opened_desk(load_settings(None, flags).settings, context, metrics, SERVER) as desk,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(create_lab_app(desk, metrics)),
            base_url="http://lab",
            timeout=PATIENCE_SECONDS,
        ) as http,
    ):
        yield Asker(http, "default")


@pytest.mark.parametrize("revision", OF_THE_LAB)
def test_an_experiment_of_an_earlier_revision_is_read_and_run_again(
    empty_url: str, revision: str, tmp_path: Path
) -> None:
    rows = fill(empty_url, revision)
    upgrade(empty_url)

    async def story() -> None:
        async with lab_on(empty_url, tmp_path) as asker:
            [found] = (await asker.get("/experiments")).json()["items"]
            assert (found["name"], found["status"]) == (EXPERIMENT, "success")
            experiment = f"/experiments/{found['experiment_id']}"
            await _is_read(asker, experiment)
            # The item that failed is tried again, on rows that the old program wrote.
            again = await asker.post(f"{experiment}/runs", {"mode": "fail_retry"})
            assert again.is_success, again.text
            await asker.until(
                found["experiment_id"], lambda seen: seen["run_id"] != found["run_id"]
            )
            await asker.until_ended(found["experiment_id"])
            await _is_read(asker, experiment)
            # And a new experiment uses the old dataset.
            version_id = rows["dataset_version"][0]["id"]
            anew = await asker.submit(version_id, name="anew", target=TARGET)
            assert (await asker.until_ended(anew))["status"] == "success"
            scores = (await asker.get(f"/experiments/{anew}/aggregates")).json()["scores"]
            assert scores["exact"]["mean"] == 0.8

    asyncio.run(story())


async def _is_read(asker: Asker, experiment: str) -> None:
    """Its rows, its scores and what people said of them are what they were."""
    rows = (await asker.post(f"{experiment}/results", {})).json()["items"]
    said = [
        (row["input"]["said"], row["status"], row["scores"].get("exact", {}).get("score"))
        for row in rows
    ]
    assert said == [
        ("good morning", "success", 1.0),
        ("¿qué tal?", "success", 1.0),
        ("tschüß", "success", 1.0),
        ("never heard", "fail", None),
        ("good morning", "success", 1.0),
        ("¿qué tal?", "success", 0.0),
    ]
    scores = (await asker.get(f"{experiment}/aggregates")).json()["scores"]
    assert (scores["exact"]["count"], scores["exact"]["mean"]) == (5, 0.8)
    [judged] = (await asker.get(f"{experiment}/annotations")).json()["items"]
    assert (judged["name"], judged["score"], judged["annotator"]) == ("fluent", 0.5, "ana")


# --- started on them ------------------------------------------------------------------------------


def settings_for(database_url: str) -> dict[str, str]:
    return environment(DRAGOMAN_STORE__DATABASE_URL=database_url, DRAGOMAN_AUTH__MODE="keys")


def test_a_server_upgrades_the_earliest_database_and_knows_its_keys(
    empty_url: str, tmp_path: Path
) -> None:
    fill(empty_url, REVISIONS[0])
    with ServerProcess(tmp_path / "server", env=settings_for(empty_url)) as server:
        assert server.get("/readyz").is_success
        assert server.get("/api/v1/nodes", OPERATOR_KEY.reveal()).status_code == 200
        assert server.get("/api/v1/nodes").status_code == 401
    assert check(empty_url).state is SchemaStatus.UP_TO_DATE


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_a_worker_refuses_a_newer_database(empty_url: str, tmp_path: Path) -> None:
    is_refused(empty_url, "worker", tmp_path)


def test_a_server_refuses_a_newer_database_with_its_revision_and_the_remedy(
    empty_url: str, tmp_path: Path
) -> None:
    is_refused(empty_url, "serve", tmp_path)


def is_refused(database_url: str, command: str, folder: Path) -> None:
    """A command, on a database that a newer program has upgraded."""
    upgrade(database_url)
    newer = sa.text("UPDATE alembic_version SET version_num = '9999'")
    database_at(database_url).alter(lambda connection: connection.execute(newer))
    code, _, told = run(command, "--data-dir", folder / "data", env=settings_for(database_url))
    assert code == 1
    [sentence] = [line for line in told.splitlines() if line.startswith("error: ")]
    assert "9999" in sentence
    assert REVISIONS[-1] in sentence
    assert "install the newer version, or restore a backup" in sentence
    assert "Traceback" not in told
    assert check(database_url).current == "9999", "it is left alone"
