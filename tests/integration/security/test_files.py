"""What is written into a data folder is its user's alone, also where others can look into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.lab_api.conftest import jsonl
from tests.integration.serve.server_process import PATIENCE_SECONDS, ServerProcess, run

READABLE_BY_OTHERS = 0o077


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder that others can look into, on a machine where files are made for everyone."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def generous_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    found = (file for file in folder.rglob("*") if file.stat().st_mode & READABLE_BY_OTHERS)
    return sorted(file.name for file in found)


def test_a_server_s_files_are_its_user_s_alone(open_folder: Path) -> None:
    with ServerProcess(open_folder, lab=True) as server:
        files = {"file": ("rows.jsonl", jsonl([{"said": "a"}]))}
        sent = httpx.post(
            f"{server.url}/api/v1/datasets",
            files=files,
            data={"name": "rows"},
            timeout=PATIENCE_SECONDS,
        )
        assert sent.is_success, sent.text
        names = {file.name for file in open_folder.iterdir()}
        assert {"dragoman.db", "dragoman.db-wal", "server.json", "server.lock"} <= names
        assert open_to_others(open_folder) == []


@pytest.mark.parametrize(
    "command", [("keys", "create", "--role", "client"), ("db", "upgrade")], ids=["keys", "db"]
)
def test_what_a_command_makes_is_its_user_s_alone(
    open_folder: Path, command: tuple[str, ...]
) -> None:
    code, _, errors = run(*command, "--data-dir", open_folder)
    assert code == 0, errors
    assert (open_folder / "dragoman.db").exists()
    assert open_to_others(open_folder) == []


def test_files_that_were_open_before_are_told_of(open_folder: Path) -> None:
    old = open_folder / "dragoman.db"
    old.touch(mode=0o644)
    with ServerProcess(open_folder) as server:
        assert "data_folder_is_open" in server.log
        assert "dragoman.db" in server.log
    assert old.stat().st_mode & READABLE_BY_OTHERS, "what others set up is not changed unasked"
