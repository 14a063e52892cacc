"""``--json`` on commands that print facts and need no server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.serve.server_process import run


def facts(*arguments: str | Path, code: int = 0) -> Any:
    found, output, errors = run(*arguments, "--json")
    assert (found, errors) == (code, "")
    return json.loads(output)


def test_keys_are_made_listed_and_revoked_as_json(tmp_path: Path) -> None:
    folder = ("--data-dir", tmp_path)
    made = facts("keys", "create", "--role", "node", "--tenant", "acme", "--node-id", "n", *folder)
    assert made["key"].startswith("dgm_")
    key_id = made["key_id"]
    [listed] = facts("keys", "list", *folder)
    assert listed == {name: value for name, value in made.items() if name != "key"}
    assert (listed["role"], listed["tenant"], listed["node_id"]) == ("node", "acme", "n")
    assert listed["revoked_at"] is None
    assert facts("keys", "revoke", key_id, *folder)["revoked_at"] is not None


def test_the_database_is_upgraded_checked_and_copied_as_json(tmp_path: Path) -> None:
    folder = ("--data-dir", tmp_path / "data")
    assert facts("db", "check", *folder, code=1)["state"] == "empty"
    upgraded = facts("db", "upgrade", *folder)
    assert upgraded["before"] is None
    checked = facts("db", "check", *folder)
    assert (checked["ok"], checked["current"]) == (True, upgraded["after"])
    assert checked["damage"] == []
    copy = facts("db", "backup", tmp_path / "copy.db", *folder)
    assert Path(copy["file"]).stat().st_size == copy["bytes"]


def test_settings_are_shown_and_checked_as_json(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("[server]\nport = 9000\n")
    shown = facts("config", "show", "--config", file)
    assert shown["settings"]["server"]["port"] == 9000
    assert facts("config", "check", file) == {"file": str(file), "ok": True}


def test_a_checkup_is_told_as_json(tmp_path: Path) -> None:
    found = json.loads(run("doctor", "--data-dir", tmp_path, "--json")[1])
    assert {"check", "level", "found"} <= set(found["checks"][0])
