"""Tests of the engine run on every database, or on those that their module names."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers import DATABASES, fresh_database, fresh_sqlite


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module that tests what is above the database names fewer in DATABASE_KINDS."""
    chosen = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "database_url" in metafunc.fixturenames and not any("database_url" in one for one in chosen):
        kinds = getattr(metafunc.module, "DATABASE_KINDS", DATABASES)
        metafunc.parametrize("database_url", kinds, indirect=True)


@pytest.fixture
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
