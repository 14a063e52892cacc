"""``dragoman db`` as an operator types it."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.servers.postgres import PASSWORD
from typer.testing import CliRunner, Result

from dragoman.cli.checkup import Level, examine, judge_server_version
from dragoman.cli.db import app
from dragoman.errors import SchemaTooNew, SettingsError, StoreError
from dragoman.lab.audio import AudioFolder, audio_folder_of
from dragoman.lab.audio.folder import sha256_of


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)


def db(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_upgrade_sets_up_a_database_that_check_then_approves(tmp_path: Path) -> None:
    before = db("check", "--data-dir", tmp_path)
    assert before.exit_code == 1
    assert "dragoman db upgrade" in before.stderr
    assert "from nothing to" in db("upgrade", "--data-dir", tmp_path).stdout
    assert "already" in db("upgrade", "--data-dir", tmp_path).stdout
    after = db("check", "--data-dir", tmp_path)
    assert after.exit_code == 0
    assert after.stdout.splitlines()[-1] == "The file is undamaged."


def test_a_newer_schema_is_refused_by_upgrade_and_reported_by_check(tmp_path: Path) -> None:
    db("upgrade", "--data-dir", tmp_path)
    with closing(sqlite3.connect(tmp_path / "dragoman.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    found = db("check", "--data-dir", tmp_path)
    assert found.exit_code == 1
    assert "newer version of Dragoman" in found.stderr
    assert isinstance(db("upgrade", "--data-dir", tmp_path).exception, SchemaTooNew)


def test_backup_writes_the_named_file_or_a_dated_one(tmp_path: Path) -> None:
    db("upgrade", "--data-dir", tmp_path)
    named = tmp_path / "named.db"
    assert db("backup", named, "--data-dir", tmp_path).exit_code == 0
    assert named.exists()
    again = db("backup", named, "--data-dir", tmp_path)
    assert again.exit_code == 1
    assert isinstance(again.exception, StoreError)
    dated = db("backup", "--data-dir", tmp_path)
    assert dated.exit_code == 0
    assert len(list(tmp_path.glob("dragoman-*.db"))) == 1


def test_backup_copies_the_recordings_beside_the_database(tmp_path: Path) -> None:
    db("upgrade", "--data-dir", tmp_path)
    audio = audio_folder_of(tmp_path)
    elsewhere = tmp_path / "elsewhere.wav"
    elsewhere.write_bytes(b"left where it is")
    kept = tmp_path / "kept.wav"
    kept.write_bytes(b"a recording")
    checksums = [sha256_of(kept), sha256_of(elsewhere)]
    audio.keep(checksums[0], kept)
    audio.link(checksums[1], elsewhere)
    told = db("backup", tmp_path / "copy.db", "--data-dir", tmp_path)
    assert told.exit_code == 0
    assert "The recordings (2 files) were copied to" in told.stdout
    copied = AudioFolder(tmp_path / "copy.db.lab-audio")
    assert [copied.find(one).read_bytes() for one in checksums] == [
        b"a recording",
        b"left where it is",
    ]
    (tmp_path / "copy.db").unlink()
    again = db("backup", tmp_path / "copy.db", "--data-dir", tmp_path)
    assert isinstance(again.exception, StoreError), "nothing is written over"
    assert not (tmp_path / "copy.db").exists()


def test_the_settings_file_may_name_the_database(tmp_path: Path) -> None:
    settings = tmp_path / "dragoman.toml"
    settings.write_text(f'[store]\ndatabase_url = "sqlite:///{tmp_path}/elsewhere/keys.db"\n')
    assert db("upgrade", "--config", settings).exit_code == 0
    assert (tmp_path / "elsewhere" / "keys.db").exists()


def test_a_database_that_cannot_be_used_is_a_settings_error(tmp_path: Path) -> None:
    settings = tmp_path / "dragoman.toml"
    settings.write_text('[store]\ndatabase_url = "sqlite:///:memory:"\n')
    assert isinstance(db("check", "--config", settings).exception, SettingsError)


@pytest.fixture
def postgres_settings(empty_postgres_url: str, tmp_path: Path) -> Path:
    settings = tmp_path / "dragoman.toml"
    settings.write_text(f'[store]\ndatabase_url = "{empty_postgres_url}"\n')
    return settings


def test_a_postgresql_database_is_set_up_checked_and_left_to_pg_dump(
    postgres_settings: Path,
) -> None:
    assert db("check", "--config", postgres_settings).exit_code == 1
    assert "from nothing to" in db("upgrade", "--config", postgres_settings).stdout
    approved = db("check", "--config", postgres_settings)
    assert approved.exit_code == 0
    assert re.fullmatch(r"PostgreSQL \d+\..* answers\.", approved.stdout.splitlines()[-1])
    refused = db("backup", "--config", postgres_settings)
    assert isinstance(refused.exception, StoreError)
    assert "pg_dump" in refused.exception.message
    assert PASSWORD not in refused.exception.message


def test_the_doctor_looks_at_postgresql_and_at_its_clock(postgres_settings: Path) -> None:
    findings = {
        finding.check: finding for finding in examine(postgres_settings, None, with_redis=False)
    }
    assert PASSWORD not in repr(findings)
    for check in ("database", "postgresql", "postgresql clock"):
        assert findings[check].level is Level.OK, findings[check]


@pytest.mark.parametrize(
    ("version", "level"), [("15.18 (Debian)", Level.OK), ("9.6.24", Level.FAIL), ("", Level.FAIL)]
)
def test_an_old_postgresql_is_refused_by_the_doctor(version: str, level: Level) -> None:
    assert judge_server_version("PostgreSQL", version).level is level
