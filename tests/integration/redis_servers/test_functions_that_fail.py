"""A function that is wrong is our fault; a server that cannot store is not asked why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.servers import PATIENT_MS, RedisProcess

from dragoman.errors import DependencyDown, InternalError
from dragoman.redis_servers import FunctionLibrary, RedisPipeline, Reply, open_servers

pytestmark = pytest.mark.redis

TIMEOUT_MS = PATIENT_MS

LIBRARY = FunctionLibrary.of(
    "failing",
    [
        """
local function one() return 1 end
local function broken() local missing; return missing.field end
local function exists(keys) return redis.call('EXISTS', keys[1]) end
local function set(keys) return redis.call('SET', keys[1], 'x') end
register('one', one)
register('broken', broken)
register('exists', exists, 'no-writes')
register('set', set)
"""
    ],
)


def ignore() -> None:
    """Counts nothing."""


def ask_together(
    server: RedisProcess, *names: str, on_full: Callable[[], None] = ignore
) -> list[Reply | BaseException]:
    """What each of some functions, sent in one exchange, was answered."""

    async def asked() -> list[Reply | BaseException]:
        servers = open_servers(server.url, TIMEOUT_MS, cluster=False)
        caller = RedisPipeline(servers, TIMEOUT_MS, on_full=on_full)
        try:
            calls = [LIBRARY.call(name, (b"{t}:key",), ()) for name in names]
            return list(
                await asyncio.gather(
                    *(caller.ask("{t}", "test", call) for call in calls), return_exceptions=True
                )
            )
        finally:
            await caller.close()

    return asyncio.run(asked())


def test_a_broken_function_is_an_internal_error_and_spares_the_others(
    redis_server: RedisProcess,
) -> None:
    before, broken, after = ask_together(redis_server, "one", "broken", "one")
    assert (before, after) == (1, 1)
    assert isinstance(broken, InternalError)
    assert "missing" in broken.message


def test_a_server_that_is_full_is_a_dependency_that_is_down(own_redis: RedisProcess) -> None:
    # Loading a library takes memory.
    ask_together(own_redis, "one")
    own_redis.command("CONFIG", "SET", "maxmemory", "1")
    read, write = ask_together(own_redis, "exists", "set")
    assert read == 0
    assert isinstance(write, DependencyDown)
    assert "maxmemory" in write.message


def test_each_request_that_a_full_server_refuses_is_counted_and_no_other(
    own_redis: RedisProcess,
) -> None:
    ask_together(own_redis, "one")
    own_redis.command("CONFIG", "SET", "maxmemory", "1")
    refusals: list[None] = []
    ask_together(own_redis, "exists", "set", "set", "broken", on_full=lambda: refusals.append(None))
    assert len(refusals) == 3, "both writes, and `broken`, which may not run either"


def test_a_full_server_that_lacks_the_functions_says_that_it_is_full(
    own_redis: RedisProcess,
) -> None:
    own_redis.command("CONFIG", "SET", "maxmemory", "1")
    refusals: list[None] = []
    (refused,) = ask_together(own_redis, "set", on_full=lambda: refusals.append(None))
    assert isinstance(refused, DependencyDown)
    assert "no memory left" in refused.message
    assert len(refusals) == 1
