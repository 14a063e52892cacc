"""Database URLs: what is accepted, and what a refusal says."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import SettingsError
from dragoman.store.urls import parse_database_url, sqlite_path


@pytest.mark.parametrize(
    ("database_url", "path"),
    [
        ("sqlite:///data/dragoman.db", "data/dragoman.db"),
        ("sqlite:////var/lib/dragoman.db", "/var/lib/dragoman.db"),
        ("sqlite:///with space/d.db", "with space/d.db"),
    ],
)
def test_a_sqlite_url_names_a_file(database_url: str, path: str) -> None:
    assert sqlite_path(parse_database_url(database_url)) == Path(path)


@pytest.mark.parametrize(
    ("database_url", "says"),
    [
        ("", "cannot be read"),
        ("dragoman.db", "cannot be read"),
        ("oracle://db/x", "'oracle'"),
        ("sqlite://", "must be a file"),
        ("sqlite:///:memory:", "must be a file"),
        ("sqlite:///file:x.db", "must be a file"),
        ("sqlite://host/x.db", "sqlite:////absolute"),
        ("sqlite:///x.db?timeout=1", "timeout"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_a_remedy(database_url: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        parse_database_url(database_url)


@pytest.mark.parametrize(
    "database_url", ["oracle://me:hunter2@db/x", "me:hunter2@db", "sqlite://me:hunter2@h/x"]
)
def test_a_refusal_does_not_repeat_a_password(database_url: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        parse_database_url(database_url)
    assert "hunter2" not in str(refusal.value)
