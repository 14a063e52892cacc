"""A data folder belongs to one server at a time, and tells where that server is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dragoman.data_folder import ServerRecord, claimed_folder, find_server, published_record
from dragoman.errors import CannotStart

RECORD = ServerRecord("http://127.0.0.1:8080", os.getpid(), "i-1", "2026-01-31T09:30:00.000Z")


def test_a_claimed_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"

    with claimed_folder(folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_can_be_claimed_once_and_again_after_its_release(tmp_path: Path) -> None:
    taken = f"in use by another server .pid {os.getpid()}."

    with (
        claimed_folder(tmp_path),
        pytest.raises(CannotStart, match=taken),
        claimed_folder(tmp_path),
    ):
        pytest.fail("it must not be shared")
    with claimed_folder(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(CannotStart, match="--data-dir"), claimed_folder(tmp_path / "file" / "data"):
        pytest.fail("there is no folder")


def test_a_server_is_found_while_it_runs_and_never_after(tmp_path: Path) -> None:
    assert find_server(tmp_path) is None
    with claimed_folder(tmp_path):
        assert find_server(tmp_path) is None
        with published_record(tmp_path, RECORD):
            assert find_server(tmp_path) == RECORD
        assert find_server(tmp_path) is None
    assert find_server(tmp_path) is None


def test_the_record_of_a_server_that_was_killed_is_not_believed(tmp_path: Path) -> None:
    with published_record(tmp_path, RECORD):
        with claimed_folder(tmp_path):
            pass
        assert (tmp_path / "server.json").exists()
        assert find_server(tmp_path) is None
