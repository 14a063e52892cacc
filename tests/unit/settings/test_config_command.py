"""``dragoman config`` as a person types it."""

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dragoman.cli.config import app
from dragoman.errors import SettingsError
from dragoman.settings import load_settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "dragoman.toml"
    file.write_text(
        '[server]\nport = 9000\nallowed_origins = ["https://talk.example.org"]\n'
        '[scheduler.pools]\ntenant_cells = { "acme inc" = [0, 1] }\n'
        "[scheduler.job_timeout]\nack_seconds = 2.5\n",
        encoding="utf-8",
    )
    return file


def typed(*words: str, environ: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, list(words), env=environ or {})


def test_what_is_shown_as_json_gives_the_same_settings_when_read_back(file: Path) -> None:
    shown = json.loads(typed("show", "--config", str(file), "--json").stdout)
    loaded = load_settings(file)
    assert load_settings(flags=shown["settings"], environ={}).settings == loaded.settings
    assert shown["sources"] == loaded.sources


def test_what_is_shown_is_itself_a_settings_file(file: Path) -> None:
    shown = typed("show", "--config", str(file)).stdout
    settings = load_settings(flags=tomllib.loads(shown), environ={}).settings
    assert settings == load_settings(file).settings


def test_every_value_is_shown_with_its_source(file: Path) -> None:
    environ = {"DRAGOMAN_SERVER__DRAIN_SECONDS": "7"}
    lines = typed("show", "--config", str(file), environ=environ).stdout.splitlines()
    words = [line.split() for line in lines]
    assert ["port", "=", "9000", "#", "file", str(file)] in words
    assert [
        *["drain_seconds", "=", "7"],
        *["#", "environment", "DRAGOMAN_SERVER__DRAIN_SECONDS"],
    ] in words
    assert ["insecure", "=", "false", "#", "default"] in words


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_passwords_are_shown_as_stars(options: list[str]) -> None:
    environ = {
        "DRAGOMAN_CLUSTER__REDIS_URL": "redis://me:s3cret@cache:6379/0",
        "DRAGOMAN_STORE__DATABASE_URL": "postgresql://db/d?password=s3cret&sslmode=require",
    }
    shown = typed("show", *options, environ=environ).stdout
    assert "s3cret" not in shown
    assert "redis://me:***@cache:6379/0" in shown
    assert "password=***&sslmode=require" in shown


def test_a_good_file_is_fine(file: Path) -> None:
    result = typed("check", str(file), environ={"DRAGOMAN_SERVER__PORT": "nonsense"})
    assert result.exit_code == 0
    assert result.stdout == f"{file} is valid.\n"


def test_a_bad_file_is_refused(file: Path) -> None:
    file.write_text("[server]\nprot = 1", encoding="utf-8")
    result = typed("check", str(file))
    assert isinstance(result.exception, SettingsError)
    assert "server.prot" in result.exception.message


def test_an_exposed_server_is_seen_by_the_check(file: Path) -> None:
    file.write_text('[server]\nhost = "0.0.0.0"', encoding="utf-8")
    result = typed("check", str(file))
    assert isinstance(result.exception, SettingsError)
    assert "auth.mode" in result.exception.message
