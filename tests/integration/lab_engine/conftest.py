"""Every test of the engine runs on every database."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers import DATABASES, fresh_database, fresh_sqlite


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that has Dragoman's schema and nothing in it."""
    return fresh_database(request.param, request, tmp_path)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that has Dragoman's schema and nothing in it."""
    return fresh_sqlite(tmp_path)


@pytest.fixture
def calls(tmp_path: Path) -> str:
    """The file in which targets and evaluators write down their calls."""
    return str(tmp_path / "calls")
