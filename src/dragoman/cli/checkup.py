"""The checks of ``dragoman doctor``: each looks at one thing and judges it."""

from __future__ import annotations

import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

import httpx
import msgspec

from dragoman.clock import Clock, SystemClock
from dragoman.data_folder import find_server
from dragoman.errors import CannotStart, DragomanError, ExtraMissing, SettingsError
from dragoman.extras import require_extra
from dragoman.listening import listen
from dragoman.settings import Settings, load_settings, masked
from dragoman.store import SchemaStatus, ask_server, check

OLDEST_PYTHON = (3, 11)
OLDEST_SERVERS = {"PostgreSQL": "13", "MariaDB": "10.6", "MySQL": "8.0.19"}
LITTLE_DISK_BYTES = 1 << 30
NO_DISK_BYTES = 100 << 20
SPARE_FILES = 1_000
"""Open files that a server needs besides one for each session: nodes, databases, callers."""
CLOCK_SKEW_WARN_MS = 500
CLOCK_SKEW_FAIL_MS = 5_000
_OLDEST_TIME_MS = 1_700_000_000_000
_CLOCK_LOOK_SECONDS = 0.1
_ANSWER_SECONDS = 3.0


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class CheckupFinding(msgspec.Struct, frozen=True):
    """What a check found, and what to do about it."""

    check: str
    level: Level
    found: str
    remedy: str = ""


def examine(
    config: Path | None, data_dir: Path | None, *, with_redis: bool
) -> list[CheckupFinding]:
    """Run every check; when the settings cannot be loaded, only those of the machine."""
    clock = SystemClock()
    findings = [judge_python(sys.version_info[:3]), _look_at_clock(clock)]
    try:
        settings = load_settings(config, {"server": {"data_dir": data_dir}}).settings
    except SettingsError as error:
        remedy = "correct the settings; `dragoman config show` lists all of them"
        return [*findings, CheckupFinding("settings", Level.FAIL, error.message, remedy)]
    findings.append(CheckupFinding("settings", Level.OK, "valid"))
    findings.append(judge_open_files(_open_files_limit(), settings.limits.max_sessions))
    findings += _look_at_folder(settings.server.data_dir)
    findings.append(_look_at_address(settings))
    findings += _look_at_database(settings, clock)
    if settings.cluster.enabled or with_redis:
        findings += _look_at_redis(settings, clock)
    if settings.tracing.enabled:
        findings.append(_look_at_tracing())
    return findings


# --- this machine -------------------------------------------------------------------------------


def judge_python(version: tuple[int, ...]) -> CheckupFinding:
    found = ".".join(map(str, version))
    if version < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        return CheckupFinding("python", Level.FAIL, found, f"install Python {wanted} or newer")
    return CheckupFinding("python", Level.OK, found)


def judge_open_files(limit: int, max_sessions: int) -> CheckupFinding:
    needed = max_sessions + SPARE_FILES
    found = f"the limit is {limit} open files"
    if limit >= needed:
        return CheckupFinding("open files", Level.OK, found)
    remedy = (
        f"raise it to {needed} for limits.max_sessions = {max_sessions} (`ulimit -n {needed}`, or "
        "LimitNOFILE= in a systemd unit)"
    )
    return CheckupFinding("open files", Level.WARN, found, remedy)


def _open_files_limit() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def _look_at_clock(clock: Clock) -> CheckupFinding:
    wall_ms, steady = clock.now_ms(), clock.monotonic()
    time.sleep(_CLOCK_LOOK_SECONDS)
    passed_ms = (clock.monotonic() - steady) * 1000
    return judge_clock(wall_ms, round(clock.now_ms() - wall_ms - passed_ms))


def judge_clock(now_ms: int, drift_ms: int) -> CheckupFinding:
    """Whether the wall clock shows a plausible time and keeps pace with the monotonic clock."""
    remedy = "synchronise the clock with chrony or systemd-timesyncd"
    if now_ms < _OLDEST_TIME_MS:
        return CheckupFinding("clock", Level.FAIL, "it shows a time in the past", remedy)
    if abs(drift_ms) > _CLOCK_LOOK_SECONDS * 1000:
        return CheckupFinding(
            "clock", Level.WARN, f"it jumped by {drift_ms} ms during the check", remedy
        )
    return CheckupFinding("clock", Level.OK, "it runs evenly")


# --- what the settings refer to -----------------------------------------------------------------


def _look_at_folder(data_dir: Path) -> Iterator[CheckupFinding]:
    standing = next(
        folder for folder in (data_dir, *data_dir.absolute().parents) if folder.exists()
    )
    if not standing.is_dir():
        found, remedy = f"{standing} is a file", "remove it, or name another folder with --data-dir"
        yield CheckupFinding("data folder", Level.FAIL, found, remedy)
        return
    try:
        with tempfile.TemporaryFile(dir=standing):
            pass
    except OSError as error:
        remedy = "check the folder's permissions, or name another folder with --data-dir"
        yield CheckupFinding("data folder", Level.FAIL, f"{data_dir}: {error.strerror}", remedy)
        return
    made = "is writable" if standing == data_dir else "does not exist yet and can be created"
    yield CheckupFinding("data folder", Level.OK, f"{data_dir} {made}")
    yield judge_disk(shutil.disk_usage(standing).free)


def judge_disk(free_bytes: int) -> CheckupFinding:
    found = f"{free_bytes / (1 << 30):.1f} GiB free"
    if free_bytes >= LITTLE_DISK_BYTES:
        return CheckupFinding("disk", Level.OK, found)
    level = Level.FAIL if free_bytes < NO_DISK_BYTES else Level.WARN
    return CheckupFinding(
        "disk", level, found, "free some space, or move the data folder to another disk"
    )


def _look_at_address(settings: Settings) -> CheckupFinding:
    server = settings.server
    running = find_server(server.data_dir)
    if running is not None:
        try:
            # The check is whether it answers, not its identity: the certificate may be for
            # another name.
            httpx.get(f"{running.url}/healthz", verify=False, timeout=_ANSWER_SECONDS)
        except httpx.HTTPError as error:
            found = f"the server at {running.url} (pid {running.pid}) does not answer ({error})"
            return CheckupFinding("address", Level.FAIL, found, "read its log, or restart it")
        return CheckupFinding(
            "address", Level.OK, f"a server answers at {running.url} (pid {running.pid})"
        )
    try:
        for listener in listen(server.host, server.port):
            listener.close()
    except CannotStart as error:
        return refused("address", error)
    return CheckupFinding("address", Level.OK, f"{server.host}:{server.port} is free")


_SCHEMAS: Mapping[SchemaStatus, tuple[Level, str, str]] = {
    SchemaStatus.UP_TO_DATE: (Level.OK, "up to date", ""),
    SchemaStatus.EMPTY: (Level.OK, "empty; the server sets it up", ""),
    SchemaStatus.OUTDATED: (
        Level.WARN,
        "its schema is older than this program",
        "back it up, then run `dragoman db upgrade` or start the server, which upgrades it",
    ),
    SchemaStatus.NEWER: (
        Level.FAIL,
        "a newer version of Dragoman wrote it",
        "install the newer version, or restore a backup",
    ),
}


def _look_at_database(settings: Settings, clock: Clock) -> Iterator[CheckupFinding]:
    database_url = settings.store.database_url
    try:
        level, found, remedy = _SCHEMAS[check(database_url).state]
        yield CheckupFinding("database", level, f"{masked(database_url)}: {found}", remedy)
        asked_ms = clock.now_ms()
        server = ask_server(database_url)
        answered_ms = clock.now_ms()
    except DragomanError as error:
        yield refused("database", error)
        return
    if server is not None:
        yield judge_server_version(server.product, server.version)
        clock_name = f"{server.product.lower()} clock"
        yield judge_skew(clock_name, server.now_ms - (asked_ms + answered_ms) // 2)


def judge_server_version(product: str, version: str) -> CheckupFinding:
    """Whether a database server is new enough for the statements that Dragoman sends."""
    oldest = OLDEST_SERVERS[product]
    if _numbers(version) >= _numbers(oldest):
        return CheckupFinding(product.lower(), Level.OK, f"version {version} answers")
    remedy = f"install {product} {oldest} or newer"
    return CheckupFinding(product.lower(), Level.FAIL, f"version {version}", remedy)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition(" ")[0]))


# --- Redis --------------------------------------------------------------------------------------


def _look_at_redis(settings: Settings, clock: Clock) -> Iterator[CheckupFinding]:
    try:
        require_extra("cluster", "Redis")
    except ExtraMissing as error:
        yield refused("redis", error)
        return
    from dragoman.cli.redis_checkup import look_at_redis  # an extra

    yield from look_at_redis(settings.cluster, clock)


# --- tracing ------------------------------------------------------------------------------------


def _look_at_tracing() -> CheckupFinding:
    try:
        require_extra("tracing", "tracing.enabled")
    except ExtraMissing as error:
        return refused("tracing", error)
    return CheckupFinding("tracing", Level.OK, "the packages are installed")


# --- any server ---------------------------------------------------------------------------------


def _major(version: str) -> int:
    """The first number of a version; 0 when it is not a number."""
    major = version.partition(".")[0]
    return int(major) if major.isdecimal() else 0


def judge_skew(name: str, skew_ms: int) -> CheckupFinding:
    found = f"{skew_ms:+d} ms against this machine"
    if abs(skew_ms) < CLOCK_SKEW_WARN_MS:
        return CheckupFinding(name, Level.OK, found)
    level = Level.WARN if abs(skew_ms) < CLOCK_SKEW_FAIL_MS else Level.FAIL
    return CheckupFinding(
        name, level, found, "synchronise both clocks with chrony or systemd-timesyncd"
    )


def refused(name: str, error: DragomanError) -> CheckupFinding:
    """A finding made of an error, whose message says what to do after the semicolon."""
    found, _, remedy = error.message.rstrip(".").partition("; ")
    return CheckupFinding(name, Level.FAIL, found, remedy)
