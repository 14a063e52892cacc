"""What ``dragoman cluster check --repair`` did is in the audit log, or the command says why not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from tests.integration.shared_redis.conftest import OpenBench
from tests.integration.shared_redis.test_check import Scene, count_too_many
from tests.servers import RedisProcess

from dragoman.audit import AuditEntry, AuditFilter, AuditStore
from dragoman.store import open_store, upgrade


@pytest.fixture
def damaged(own_redis: RedisProcess, open_bench: OpenBench) -> Iterator[Scene]:
    """A cluster in which one count is wrong."""
    with redis.Redis.from_url(own_redis.url) as server:
        scene = Scene(open_bench(own_redis.url), server, own_redis.url)
        count_too_many(scene)
        yield scene


@pytest.fixture
def database_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'dragoman.db'}"
    monkeypatch.setenv("DRAGOMAN_STORE__DATABASE_URL", url)
    return url


def entries(database_url: str) -> list[AuditEntry]:
    async def read() -> list[AuditEntry]:
        async with await open_store(database_url) as store:
            return await AuditStore(store).page(10, AuditFilter())

    return asyncio.run(read())


def test_each_repair_is_kept_and_a_look_is_not(damaged: Scene, database_url: str) -> None:
    upgrade(database_url)
    assert damaged.command().exit_code == 1
    assert entries(database_url) == []

    answer = damaged.command("--repair")

    assert answer.exit_code == 0
    assert answer.stderr == ""
    [kept] = entries(database_url)
    assert kept.action == "cluster.repair"
    assert kept.facts["damage"] == "held_count"
    assert kept.actor.startswith("cli:")
    assert damaged.command("--repair").exit_code == 0
    assert entries(database_url) == [kept], "there was nothing left to repair"


def test_a_repair_is_done_without_the_database_and_the_command_says_so(
    damaged: Scene, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = damaged.command("--repair")
    assert answer.exit_code == 0
    assert "the audit log does not have it" in answer.stderr
    assert not (tmp_path / "dragoman.db").exists()

    count_too_many(damaged)
    away = "postgresql://nobody:sesame@127.0.0.1:1/none"
    monkeypatch.setenv("DRAGOMAN_STORE__DATABASE_URL", away)
    answer = damaged.command("--repair")
    assert answer.exit_code == 0
    assert "the audit log does not have it" in answer.stderr
    assert "sesame" not in answer.stderr
    assert damaged.command().exit_code == 0
