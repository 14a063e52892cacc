"""``dragoman keys`` as an operator types it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.integration.auth.conftest import OpenKeys
from typer.testing import CliRunner, Result

from dragoman.auth import ApiKey, Role
from dragoman.cli.keys import app
from dragoman.errors import NotFound, SchemaTooNew
from dragoman.store import StoreConnection, open_store


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)


def keys(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("role", [role.value for role in Role])
def test_the_new_key_stands_alone_on_the_last_line(tmp_path: Path, role: str) -> None:
    made = keys("create", "--role", role, "--data-dir", tmp_path / "new")
    assert made.exit_code == 0
    assert ApiKey(made.stdout.splitlines()[-1]).is_well_formed()
    assert "not shown again" in made.stderr


def test_a_key_is_made_beside_an_open_store_and_works_there(
    open_keys: OpenKeys, settings_file: Path
) -> None:
    async def scenario() -> None:
        async with open_keys() as running:
            arguments = ("create", "--role", "node", "--tenant", "acme", "--node-id", "node-7")
            made = await asyncio.to_thread(keys, *arguments, "--config", settings_file)
            principal = await running.lookup(ApiKey(made.stdout.splitlines()[-1]))
            assert principal is not None
            assert (principal.tenant, principal.node_id) == ("acme", "node-7")

    asyncio.run(scenario())


def test_the_list_shows_every_id_and_no_key(tmp_path: Path) -> None:
    made = [keys("create", "--role", "client", "--data-dir", tmp_path) for _ in range(2)]
    key_ids = [result.stderr.split()[1] for result in made]
    assert keys("revoke", key_ids[0], "--data-dir", tmp_path).exit_code == 0
    listed = keys("list", "--data-dir", tmp_path)
    assert listed.exit_code == 0
    lines = listed.stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == key_ids
    assert [line.split()[-1] == "-" for line in lines] == [False, True]
    assert "dgm_" not in listed.output


def test_an_unknown_role_is_refused_with_the_list(tmp_path: Path) -> None:
    refused = keys("create", "--role", "boss", "--data-dir", tmp_path)
    assert refused.exit_code == 2
    for role in Role:
        assert role.value in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--role", "client", "--node-id", "node-7"), ("--role", "client", "--tenant", "two words")],
)
def test_a_key_that_makes_no_sense_is_bad_usage(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    refused = keys("create", *arguments, "--data-dir", tmp_path)
    assert refused.exit_code == 2
    assert refused.stdout == ""


def test_revoking_an_unknown_id_fails_with_the_remedy(tmp_path: Path) -> None:
    refused = keys("revoke", "k-nothing", "--data-dir", tmp_path)
    assert refused.exit_code == 1
    assert isinstance(refused.exception, NotFound)
    assert "dragoman keys list" in str(refused.exception)


def test_a_newer_database_is_refused(settings_file: Path, database_url: str) -> None:
    def age(connection: StoreConnection) -> None:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))

    async def become_newer() -> None:
        async with await open_store(database_url) as store:
            await store.write(age)

    asyncio.run(become_newer())
    refused = keys("create", "--role", "client", "--config", settings_file)
    assert isinstance(refused.exception, SchemaTooNew)
