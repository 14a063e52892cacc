"""Every test of the contract runs on every mirror."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers import fresh_sqlite
from tests.servers.clickhouse import ClickHouseProcess

KINDS = ("duckdb", "clickhouse")


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseProcess]:
    """A ClickHouse server."""
    server = ClickHouseProcess(tmp_path_factory.mktemp("clickhouse"))
    if not server.given:
        pytest.importorskip("chdb", reason="chdb is not installed")
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=KINDS)
def mirror_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a mirror can be made."""
    if request.param == "clickhouse":
        server: ClickHouseProcess = request.getfixturevalue("clickhouse")
        return server.fresh_database()
    return f"duckdb:///{tmp_path}/lab.duckdb"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """A database that has Dragoman's schema and nothing in it."""
    return fresh_sqlite(tmp_path)
