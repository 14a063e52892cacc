"""A fresh database for each test of the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.store import upgrade


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """A database that has Dragoman's schema and nothing in it."""
    url = f"sqlite:///{tmp_path}/dragoman.db"
    upgrade(url)
    return url
