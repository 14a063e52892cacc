"""What ``dragoman doctor`` makes of what it sees."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.servers import RedisProcess

from dragoman.cli import main
from dragoman.cli.checkup import (
    CheckupFinding,
    Level,
    judge_clock,
    judge_disk,
    judge_open_files,
    judge_python,
)
from dragoman.cli.redis_checkup import judge_redis, judge_redis_clock, judge_redis_memory
from dragoman.redis_servers import RedisServerFacts

NOW_MS = 1_800_000_000_000
REDIS = RedisServerFacts(
    version="7.0.15", mode="standalone", is_replica=False, eviction="", skew_ms=0
)


@pytest.mark.parametrize(
    ("finding", "level"),
    [
        (judge_python((3, 11, 0)), Level.OK),
        (judge_python((3, 10, 9)), Level.FAIL),
        (judge_open_files(11_000, max_sessions=10_000), Level.OK),
        (judge_open_files(1_024, max_sessions=10_000), Level.WARN),
        (judge_disk(10 << 30), Level.OK),
        (judge_disk(500 << 20), Level.WARN),
        (judge_disk(1 << 20), Level.FAIL),
        (judge_clock(NOW_MS, drift_ms=2), Level.OK),
        (judge_clock(NOW_MS, drift_ms=-3_600_000), Level.WARN),
        (judge_clock(0, drift_ms=0), Level.FAIL),
        (judge_redis(REDIS, cluster=False), Level.OK),
        (judge_redis(replace(REDIS, version="6.2.0"), cluster=False), Level.FAIL),
        (judge_redis(replace(REDIS, is_replica=True), cluster=False), Level.FAIL),
        (judge_redis(replace(REDIS, mode="sentinel"), cluster=False), Level.FAIL),
        (judge_redis(replace(REDIS, mode="cluster"), cluster=False), Level.FAIL),
        (judge_redis(replace(REDIS, mode="cluster", is_replica=True), cluster=True), Level.OK),
        (judge_redis(REDIS, cluster=True), Level.FAIL),
        (judge_redis_memory(REDIS), Level.OK),
        (judge_redis_memory(replace(REDIS, eviction="allkeys-lru")), Level.WARN),
        (judge_redis_memory(replace(REDIS, used_bytes=5, max_bytes=100)), Level.OK),
        (judge_redis_memory(replace(REDIS, used_bytes=95, max_bytes=100)), Level.WARN),
        (judge_redis_memory(replace(REDIS, used_bytes=101, max_bytes=100)), Level.FAIL),
        (judge_redis_clock(-3), Level.OK),
        (judge_redis_clock(-900), Level.WARN),
        (judge_redis_clock(60_000), Level.FAIL),
    ],
    ids=lambda value: f"{value.check}: {value.found}" if isinstance(value, CheckupFinding) else "",
)
def test_each_finding_is_judged_and_what_is_not_fine_has_a_remedy(
    finding: CheckupFinding, level: Level
) -> None:
    assert finding.level is level
    assert bool(finding.remedy) is (level is not Level.OK)


def checkup(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, dict[str, CheckupFinding]]:
    code = main(["doctor", "--json", *arguments])
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is (code == 0)
    return code, {
        found["check"]: CheckupFinding(
            found["check"], Level(found["level"]), found["found"], found["remedy"]
        )
        for found in report["checks"]
    }


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder that is not there yet, for a server on any free port."""
    monkeypatch.setenv("DRAGOMAN_SERVER__PORT", "0")
    return str(tmp_path / "data")


def test_a_sound_machine_passes_and_nothing_is_made(
    data_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, findings = checkup(capsys, "--data-dir", data_dir)

    assert code == 0
    assert findings["database"].level is Level.OK
    assert "redis" not in findings
    assert not Path(data_dir).exists()


def test_the_table_shows_every_check(data_dir: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--data-dir", data_dir]) == 0

    table = capsys.readouterr().out
    for check in ("python", "clock", "settings", "open files", "data folder", "disk", "database"):
        assert check in table


def test_a_port_in_use_fails_with_what_to_do(
    data_dir: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("DRAGOMAN_SERVER__PORT", str(taken.getsockname()[1]))
        code, findings = checkup(capsys, "--data-dir", data_dir)

    assert code == 1
    assert findings["address"].level is Level.FAIL
    assert "--port" in findings["address"].remedy


def test_bad_settings_are_a_finding_too(
    data_dir: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_SERVER__PORT", "many")

    code, findings = checkup(capsys, "--data-dir", data_dir)

    assert code == 1
    assert findings["settings"].level is Level.FAIL
    assert "server.port" in findings["settings"].found


def test_a_database_that_is_none_fails(data_dir: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(data_dir).mkdir()
    (Path(data_dir) / "dragoman.db").write_text("this is no database at all" * 100)

    code, findings = checkup(capsys, "--data-dir", data_dir)

    assert code == 1
    assert findings["database"].level is Level.FAIL


@pytest.mark.redis
@pytest.mark.parametrize(
    ("denied", "missing", "level"),
    [
        ([], "", Level.OK),
        (["-function"], "FUNCTION LOAD", Level.FAIL),
        (["-function|load"], "FUNCTION LOAD", Level.FAIL),
        (["-fcall"], "FCALL", Level.FAIL),
        (["-function", "-fcall", "-info"], "FUNCTION LOAD and FCALL", Level.FAIL),
    ],
    ids=str,
)
def test_a_redis_user_who_may_not_use_the_functions_fails_and_nothing_is_changed(
    data_dir: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    own_redis: RedisProcess,
    denied: list[str],
    missing: str,
    level: Level,
) -> None:
    own_redis.command("ACL", "SETUSER", "poor", "on", ">word", "~*", "&*", "+@all", *denied)
    monkeypatch.setenv("DRAGOMAN_CLUSTER__REDIS_URL", own_redis.url.replace("://", "://poor:word@"))

    code, findings = checkup(capsys, "--data-dir", data_dir, "--redis")

    found = findings["redis functions"]
    assert found.level is level
    assert code == (level is Level.FAIL)
    assert found.found.endswith(missing)
    assert ("FUNCTION LOAD and FCALL" in found.remedy) is bool(missing)
    assert own_redis.command("DBSIZE") == "0"
    assert own_redis.command("FUNCTION", "LIST") == ""


def test_redis_that_is_not_there_fails_without_showing_its_password(
    data_dir: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_CLUSTER__REDIS_URL", "redis://:sesame@127.0.0.1:1")

    code, findings = checkup(capsys, "--data-dir", data_dir, "--redis")

    assert code == 1
    assert findings["redis"].level is Level.FAIL
    assert "sesame" not in str(findings)


@pytest.mark.redis
def test_a_real_redis_passes(
    data_dir: str,
    redis_server: RedisProcess,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DRAGOMAN_CLUSTER__REDIS_URL", redis_server.url)

    code, findings = checkup(capsys, "--data-dir", data_dir, "--redis")

    assert code == 0
    assert findings["redis"].level is Level.OK
    assert findings["redis clock"].level is Level.OK


@pytest.mark.redis
def test_a_redis_without_memory_left_fails_and_says_how_full_it_is(
    data_dir: str,
    own_redis: RedisProcess,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own_redis.command("CONFIG", "SET", "maxmemory", "500kb")
    monkeypatch.setenv("DRAGOMAN_CLUSTER__REDIS_URL", own_redis.url)

    code, findings = checkup(capsys, "--data-dir", data_dir, "--redis")

    assert code == 1
    assert findings["redis"].level is Level.OK
    full = findings["redis memory"]
    assert full.level is Level.FAIL
    assert "full" in full.found
    assert "of 0.5 MB" in full.found
    assert full.remedy == "raise maxmemory"
