"""A script that is wrong is our fault and says so; a server that cannot store is not asked why."""

from __future__ import annotations

import asyncio

import pytest
from tests.servers import PATIENT_MS, RedisProcess

from dragoman.errors import DependencyDown, InternalError
from dragoman.redis_servers import RedisPipeline, Reply, Script, ScriptCall, open_servers

pytestmark = pytest.mark.redis

TIMEOUT_MS = PATIENT_MS


def ask_together(server: RedisProcess, *sources: str) -> list[Reply | BaseException]:
    """What each of some scripts, sent in one exchange, was answered."""

    async def asked() -> list[Reply | BaseException]:
        caller = RedisPipeline(open_servers(server.url, TIMEOUT_MS, cluster=False), TIMEOUT_MS)
        try:
            calls = [
                ScriptCall(Script.of(source, ("key",)), (b"{t}:key",), []) for source in sources
            ]
            answers = await asyncio.gather(
                *(caller.ask("{t}", "test", call) for call in calls), return_exceptions=True
            )
            assert caller.exchanges == 1
            return list(answers)
        finally:
            await caller.close()

    return asyncio.run(asked())


def test_a_broken_script_is_an_internal_error_and_spares_the_others(
    redis_server: RedisProcess,
) -> None:
    before, broken, after = ask_together(
        redis_server, "return 1", "local missing; return missing.field", "return 2"
    )
    assert (before, after) == (1, 2)
    assert isinstance(broken, InternalError)
    assert "missing" in broken.message


def test_a_server_that_is_full_is_a_dependency_that_is_down(own_redis: RedisProcess) -> None:
    own_redis.command("CONFIG", "SET", "maxmemory", "1")
    read, write = ask_together(
        own_redis,
        "return redis.call('EXISTS', KEYS[1])",
        "return redis.call('SET', KEYS[1], 'x')",
    )
    assert read == 0
    assert isinstance(write, DependencyDown)
    assert "maxmemory" in write.message
